"""The audit takes any module and any data, says what was planted, and keeps what it found."""

import json
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import netgrain as ng
from netgrain import NetgrainError
from netgrain.auditing.audits import Audit, audit
from tests.auditing.conftest import SHAPE, small


class Tabular(nn.Module):
    """One-dimensional input, an initialiser of its own, three outputs."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(6, 16), nn.Linear(16, 3)
        nn.init.orthogonal_(self.first.weight, gain=2)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(torch.tanh(self.first(x)))


class Attending(nn.Module):
    """Maxima and attention: only sampling can handle it. Ten outputs."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.pool = nn.Conv2d(1, 8, 3, padding=1), nn.MaxPool2d(4)
        self.attend = nn.MultiheadAttention(8, 2, batch_first=True)
        self.last = nn.Linear(8, 10)

    def forward(self, x: Tensor) -> Tensor:
        tokens = self.pool(self.conv(x)).flatten(2).transpose(1, 2)
        return self.last(self.attend(tokens, tokens, tokens, need_weights=False)[0].mean(1))


def test_the_report_has_every_key_and_is_json(audited: Audit) -> None:
    expected = "netgrain date model seed data geometry spectrum leading zero labels directions scales samples features"
    assert set(audited.report) == {
        *expected.split(),
        "complexity",
        "layers",
        "what_if",
        "sentences",
        "alerts",
        "scales",
    }
    assert json.loads(json.dumps(audited.report, allow_nan=False)) == audited.as_dict()
    assert audited.report["data"] == {
        "name": "squares",
        "note": "as given",
        "samples": 120,
        "classes": ["no", "yes"],
        "per_class": audited.report["data"]["per_class"],
        "input_shape": [1, 8, 8],
        "features": None,
    }
    assert sum(audited.report["data"]["per_class"]) == 120


def test_findings_are_the_repr_and_the_way_is_the_last(audited: Audit) -> None:
    lines = repr(audited).splitlines()
    assert lines == [f"- {s['text']}" for s in audited.report["sentences"]]
    assert lines[-1] == "- G at the 120 samples: sampled from 24 random networks; data: as given."


def test_page_and_numbers_are_saved(audited: Audit, tmp_path: Path) -> None:
    assert audited.save(tmp_path / "r.html").read_text() == audited.html()
    assert json.loads(audited.save(str(tmp_path / "r.json")).read_text()) == audited.report


def test_a_network_that_only_sampling_can_handle() -> None:
    X = torch.randn(100, *SHAPE, generator=torch.Generator().manual_seed(0))
    found = audit(Attending, X, torch.arange(100) % 10, members=8, progress=False).report
    assert found["geometry"]["method"] == "sampled"
    assert found["geometry"]["members"] == 8
    assert len(found["samples"]["classes"]) == 10


def test_a_zero_head_is_told_with_the_way_out() -> None:
    def zero() -> nn.Module:
        net = nn.Sequential(nn.Flatten(), nn.Linear(4, 4), nn.Linear(4, 2))
        nn.init.zeros_(net[2].weight)
        return net

    with (
        pytest.warns(ng.GrainWarning, match="exactly zero"),
        pytest.raises(NetgrainError, match=r"exactly zero.*probe the features.*trained checkpoint"),
    ):
        audit(zero, torch.randn(50, 4), torch.arange(50) % 2, progress=False)


def test_make_is_any_callable() -> None:
    made: list[Callable[..., nn.Module]] = [Tabular, lambda: Tabular(), partial(Tabular)]
    X = torch.randn(64, 6, generator=torch.Generator().manual_seed(0))
    y = (X[:, 0] > 0).long()
    values = [audit(m, X, y, probe="origin", progress=False).report["geometry"]["trace"]["value"] for m in made]
    assert values == pytest.approx([values[0]] * 3)


def test_nothing_is_said_about_networks_and_data_that_were_not_measured(audited: Audit) -> None:
    assert "validity" not in audited.report["labels"]
    assert not re.search("rho|ρ", audited.html().partition("<script")[0])


def test_the_page_speaks_of_reactions_and_not_of_learning(audited: Audit) -> None:
    assert not re.search(r"learnable|can learn|hardly learn|blind|easy|hard\b|Accuracy left", audited.html())
    assert {s["level"] for s in audited.report["sentences"]} <= {"note", "warn"}  # nothing was trained


def test_a_geometry_that_is_given_is_used(G: ng.Geometry, samples: tuple[Tensor, Tensor]) -> None:
    found = audit(small, *samples, G=G, keep=0.5, progress=False)
    assert found.G is G
    assert torch.equal(found.kept, ng.prune(G, *samples, keep=0.5, centre=True))
    with pytest.raises(NetgrainError, match="probe= belongs to making G"):
        audit(small, *samples, G=G, probe="origin", progress=False)


def test_large_images() -> None:
    """More entries than directions are computed for: every section measures what it can, and the page is complete."""

    def large() -> nn.Module:
        body = nn.Sequential(nn.Conv2d(1, 3, 8, stride=8), nn.GELU(), nn.Flatten(), nn.Linear(243, 2))
        return nn.Sequential(nn.AvgPool2d(2), nn.Upsample(scale_factor=2), body)

    X = torch.randn(64, 1, 72, 72, generator=torch.Generator().manual_seed(0))
    y = torch.arange(64) % 2
    found = audit(large, X + y[:, None, None, None], y, members=8, progress=False)
    report = found.report
    assert report["geometry"]["d"] == 72 * 72
    assert not report["geometry"]["complete"]
    assert report["geometry"]["known"] == 0  # eight networks resemble the truth too little
    assert report["leading"]["count"] == report["geometry"]["computed"] == 32
    assert report["zero"] == {"at_probe": None, "invisible": None}
    assert report["labels"]["linear"]["all"]["value"] > 0.9
    assert report["labels"]["reaction"]["value"] is None
    assert len(report["samples"]["kept"]) == 44
    assert "invisible" not in repr(found)
    assert "None" not in repr(found)
    assert "</html>" in found.html()
    assert json.dumps(report, allow_nan=False)
