"""By size of pattern: rows that add up, sentences and alerts about parts that networks hardly react to."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import netgrain as ng
from netgrain.auditing.audits import Audit, audit
from netgrain.auditing.sections.scales import SECTION, alerts, sentences

STRIPES = torch.ones(8)
STRIPES[::2] = -1


def blurred() -> nn.Module:
    """Twice the mean of 2 × 2 pixels: waves of frequency f keep cos⁴(πf) of their power along each axis."""
    blurs = [nn.Conv2d(1, 1, 2, padding="same", padding_mode="circular", bias=False) for _ in range(2)]
    for blur in blurs:
        nn.init.constant_(blur.weight, 1 / 4)
    return nn.Sequential(*blurs, nn.Flatten(), nn.Linear(64, 2))


def striped(n: int = 160) -> tuple[Tensor, Tensor]:
    """Noise, and stripes of two pixels in one of two classes."""
    X, y = torch.randn(n, 1, 8, 8, generator=torch.Generator().manual_seed(0)), torch.arange(n) % 2
    return X + y[:, None, None, None] * STRIPES, y


@pytest.fixture(scope="module")
def report() -> dict[str, Any]:
    X, y = striped()
    return audit(blurred, X, y, G=ng.Geometry.from_matrix(torch.eye(64), (1, 8, 8)), progress=False).report


def test_rows_add_up(audited: Audit) -> None:
    found = audited.report["scales"]
    assert [b["name"] for b in found["bands"]] == ["2–4 px", "4–8 px", "8 px and coarser"]
    assert sum(b["variance"]["value"] for b in found["bands"]) == pytest.approx(1)
    assert sum(b["dimensions"] for b in found["bands"]) == pytest.approx(1)
    for which in ("gain", "trained"):
        assert sum(b["dimensions"] * b[which]["value"] for b in found["bands"]) == pytest.approx(1, rel=1e-4)
    assert found["target"] == "classes"
    assert found["members"] == 8
    assert found["samples"] == 120


def test_labels_in_stripes_that_networks_lose(report: dict[str, Any]) -> None:
    weak = report["scales"]["weak"]
    assert weak["finer_than"] == 4
    assert weak["bands"] == ["2–4 px"]
    assert weak["gain"]["value"] < 0.1
    assert weak["labels"]["value"] > 0.9
    (sentence,) = sentences(report)
    assert "hardly react to patterns finer than 4 pixels" in sentence["text"]
    assert "class means" in sentence["text"]
    (alert,) = alerts(report)
    assert alert["level"] == "warning"
    assert "stride" in alert["action"]
    assert alert in report["alerts"]
    assert "invisible" not in " ".join([*sentence.values(), str(alert)])


def test_shares_within_their_errors_are_not_shown(report: dict[str, Any]) -> None:
    X, y = striped()
    shuffled = y[torch.randperm(len(y), generator=torch.Generator().manual_seed(1))]
    G = ng.Geometry.from_matrix(torch.eye(64), (1, 8, 8))
    found = audit(blurred, X, shuffled, G=G, progress=False)
    assert all(b["labels"] is None for b in found.report["scales"]["bands"])
    assert alerts(found.report) == []
    assert "class means" not in sentences(found.report)[0]["text"]
    assert "nothing is said about where they differ" in " ".join(found.html().split())


def test_where_networks_react_to_everything(audited: Audit) -> None:
    assert alerts(audited.report) == []
    assert "patterns of every size" in sentences(audited.report)[0]["text"]
    assert "Size of pattern" in audited.html()


def test_features_of_a_table() -> None:
    """Thirty features, of which the network takes the first two only: those have rows, others are one."""

    def first_two() -> nn.Module:
        model = nn.Sequential(nn.Linear(30, 2))
        with torch.no_grad():
            model[0].weight[:, 2:] *= 0.01
        return model

    X = torch.randn(200, 30, generator=torch.Generator().manual_seed(0))
    found = audit(first_two, X, (X[:, 0] > 0).long(), G=ng.Geometry.from_matrix(torch.eye(30)), progress=False).report
    rows = found["scales"]["bands"]
    assert len(rows) == 21
    assert rows[-1]["name"] == "10 others"
    assert {rows[0]["name"], rows[1]["name"]} == {"feature 0", "feature 1"}
    (mine,) = (r for r in rows if r["name"] == "feature 0")
    assert mine["labels"]["value"] > 0.8
    assert "more features" in sentences(found)[0]["text"]


def test_inputs_without_sizes(audited: Audit) -> None:
    assert sentences({**audited.report, "scales": None}) == [] == alerts({**audited.report, "scales": None})
    assert SECTION.title == "Size of pattern"
