"""The audit takes any module and any data, says what was planted, and keeps what it found."""

import json
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

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


def audit_of(name: str, **options: Any) -> Audit:
    """A quick audit of 64 samples."""
    X = torch.randn(64, *SHAPE, generator=torch.Generator().manual_seed(7))
    y = options.pop("y", (X[:, 0].mean((1, 2)) > 0).long())
    return audit(options.pop("make", small), X, y, name=name, quick=True, probe="origin", progress=False, **options)


def test_the_report_has_every_key_and_is_json(audited: Audit) -> None:
    expected = "netgrain date model seed data geometry spectrum leading zero labels directions samples features schema"
    expected += " network expected left_out verdict complexity layers what_if sentences alerts scales checkpoint advice"
    assert set(audited.report) == set(expected.split())
    assert json.loads(json.dumps(audited.report, allow_nan=False)) == audited.as_dict()
    assert audited.report["data"] == {
        "name": "squares",
        "note": "as given",
        "samples": 120,
        "given": 120,
        "target": "classes",
        "classes": ["no", "yes"],
        "per_class": audited.report["data"]["per_class"],
        "input_shape": [1, 8, 8],
        "features": None,
    }
    assert sum(audited.report["data"]["per_class"]) == 120


def test_the_verdict_is_the_first_line_and_the_way_is_the_last(audited: Audit) -> None:
    lines = repr(audited).splitlines()
    assert lines[0] == f"verdict: {audited.report['verdict']['sentence']}"
    assert lines[1] == f"do this: {audited.report['verdict']['action']}"
    assert lines[-2:] == [
        "data: squares: 120 samples; as given",
        "reaction: measured at the 120 samples, sampled from 24 random networks",
    ]
    assert audited.report["sentences"][-1]["text"].endswith("sampled from 24 random networks; data: as given.")


def test_a_notebook_gets_a_short_table_of_the_same_lines(audited: Audit) -> None:
    html = audited._repr_html_()
    assert html.count("<tr>") == len(repr(audited).splitlines())
    assert "<script" not in audit_of("<script>")._repr_html_()


def test_page_and_numbers_are_saved(audited: Audit, tmp_path: Path) -> None:
    assert audited.save(tmp_path / "r.html").read_text() == audited.html()
    assert json.loads(audited.save(str(tmp_path / "r.json")).read_text()) == audited.report


def test_a_network_that_only_sampling_can_handle() -> None:
    X = torch.randn(100, *SHAPE, generator=torch.Generator().manual_seed(0))
    found = audit(Attending, X, torch.arange(100) % 10, members=8, trial=False, progress=False).report
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
        audit(zero, torch.randn(50, 4), torch.arange(50) % 2, trial=False, progress=False)


def test_make_is_any_callable() -> None:
    made: list[Callable[..., nn.Module]] = [Tabular, lambda: Tabular(), partial(Tabular)]
    X = torch.randn(64, 6, generator=torch.Generator().manual_seed(0))
    y = (X[:, 0] > 0).long()
    values = [
        audit(m, X, y, probe="origin", trial=False, progress=False).report["geometry"]["trace"]["value"] for m in made
    ]
    assert values == pytest.approx([values[0]] * 3)


def test_nothing_is_said_about_networks_and_data_that_were_not_measured(audited: Audit) -> None:
    assert "validity" not in audited.report["labels"]
    assert not re.search("rho|ρ", audited.html().partition("<script")[0])


def test_the_page_speaks_of_reactions_and_not_of_learning(audited: Audit) -> None:
    assert not re.search(r"hardly learn|blind|easy|Accuracy left", audited.html())
    assert {s["level"] for s in audited.report["sentences"]} <= {"note", "warn"}  # nothing was trained


def test_a_geometry_that_is_given_is_used(G: ng.Geometry, samples: tuple[Tensor, Tensor]) -> None:
    found = audit(small, *samples, G=G, keep=0.5, trial=False, progress=False)
    assert found.G is G
    assert torch.equal(found.kept, ng.prune(G, *samples, keep=0.5, centre=True))
    with pytest.raises(NetgrainError, match="probe= belongs to making G"):
        audit(small, *samples, G=G, probe="origin", trial=False, progress=False)


def test_numbers_and_no_labels_work_too() -> None:
    X = torch.randn(64, *SHAPE, generator=torch.Generator().manual_seed(7))
    numbers = audit_of("net", y=X[:, 0].mean((1, 2))).report
    assert (numbers["data"]["target"], len(numbers["data"]["classes"])) == ("numbers", 5)
    assert sum(numbers["data"]["per_class"]) == 64
    assert numbers["expected"]["measure"] == "R²"
    assert numbers["labels"]["target"] == "numbers"
    assert numbers["verdict"]["sentence"].startswith("Expect this network to explain about")
    none = audit_of("net", y=None).report
    assert (none["data"]["target"], none["expected"], none["labels"]) == ("none", None, None)
    assert none["verdict"]["sentence"].startswith("Without labels no accuracy can be predicted for net. It reacts")
    assert none["directions"][0]["label_relevance"] is None
    assert none["leading"]["data_variance"]["value"] > 0


def test_few_numbers_in_floating_point_are_numbers_where_it_is_said() -> None:
    y = (torch.arange(64) % 3).float()
    with pytest.raises(NetgrainError, match=r"float32"):
        audit_of("net", y=y)
    assert audit_of("net", y=y, target="numbers").report["data"]["target"] == "numbers"
    assert audit_of("net", y=y % 2, target="classes").report["data"]["target"] == "classes"


def test_many_samples_are_measured_on_some_and_indices_are_those_of_all() -> None:
    found = audit_of("net", samples=40)
    report = found.report
    assert (report["data"]["samples"], report["data"]["given"]) == (40, 64)
    assert report["expected"]["all"]["samples"] == 64
    assert "of these samples, and" in report["verdict"]["sentence"] or report["expected"]["at_chance"]
    assert len(found.kept) < 40 <= int(found.kept.max()) < 64
    with pytest.raises(NetgrainError, match="samples"):
        audit_of("net", samples=31)


def test_one_network_is_taken_with_its_own_weights_and_left_as_it_is() -> None:
    torch.manual_seed(0)
    given = small()
    before = [p.clone() for p in given.parameters()]
    report = audit_of("given", make=given).report
    assert report["network"] | {"operations": 0} == {
        "parameters": sum(p.numel() for p in before),
        "operations": 0,
        "given": True,
        "family_known": True,
        "quick": True,
    }
    assert report["expected"]["network"] == "given"
    assert all(torch.equal(a, b) for a, b in zip(before, given.parameters(), strict=True))


class Unknown(nn.Module):
    """Weights that no method of the module sets."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(64, 2))

    def forward(self, x: Tensor) -> Tensor:
        return torch.tanh(x.flatten(1) @ self.weight)


def test_a_network_whose_initialisation_is_unknown_is_audited_as_it_is() -> None:
    report = audit_of("given", make=Unknown()).report
    assert report["network"]["family_known"] is False
    assert report["verdict"]["sentence"]


def test_a_quick_audit_leaves_sections_out() -> None:
    report = audit_of("net").report
    assert report["left_out"] == ["advice", "changes", "complexity", "layers"]
    assert not {"layers", "what_if"} & set(report)
    assert report["expected"]["trial"] is None


def test_large_images() -> None:
    """More entries than directions are computed for: every section measures what it can, and the page is complete."""

    def large() -> nn.Module:
        body = nn.Sequential(nn.Conv2d(1, 3, 8, stride=8), nn.GELU(), nn.Flatten(), nn.Linear(243, 2))
        return nn.Sequential(nn.AvgPool2d(2), nn.Upsample(scale_factor=2), body)

    X = torch.randn(64, 1, 72, 72, generator=torch.Generator().manual_seed(0))
    y = torch.arange(64) % 2
    found = audit(large, X + y[:, None, None, None], y, members=8, trial=False, progress=False)
    report = found.report
    assert report["geometry"]["d"] == 72 * 72
    assert not report["geometry"]["complete"]
    assert report["geometry"]["known"] == 0  # eight networks resemble the truth too little
    assert report["leading"]["count"] == report["geometry"]["computed"] == 24  # the rank of six of the eight networks
    assert report["zero"] == {"at_probe": None, "invisible": None}
    assert report["labels"]["linear"]["all"]["value"] > 0.9
    assert report["labels"]["reaction"]["value"] is None
    assert len(report["samples"]["kept"]) == 44
    assert "invisible" not in repr(found)
    assert "None" not in repr(found)
    assert "</html>" in found.html()
    assert json.dumps(report, allow_nan=False)
