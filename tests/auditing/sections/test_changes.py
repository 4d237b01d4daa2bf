"""Changes: tried alone, where G was taken, and beside what was there before."""

import json

import pytest
import torch
from torch import Tensor, nn

import netgrain as ng
from netgrain.auditing.audits import Audit, audit
from netgrain.auditing.sections import changes
from tests.auditing.conftest import small


def test_a_change_is_tried_where_g_was_taken(audited: Audit) -> None:
    (row,) = audited.report["what_if"]
    assert row["change"].startswith("2 → MaxPool2d(kernel_size=2")
    assert row["leading"]["before"] == audited.report["leading"]["count"]
    assert row["labels"]["before"] == audited.report["labels"]["nonlinear"]["value"]
    assert len(row["spectrum"]) == len(audited.report["spectrum"]["index"])
    assert f"leading directions {row['leading']['before']} → {row['leading']['after']} of 64" in row["sentence"]
    assert "MaxPool2d" in audited.html()


def test_nothing_changes_where_nothing_is_changed(samples: tuple[Tensor, Tensor]) -> None:
    found = audit(small, *samples, probe="origin", swaps={"3": nn.Flatten()}, trial=False, progress=False).report
    (row,) = found["what_if"]
    assert row["leading"]["before"] == row["leading"]["after"]
    assert row["labels"]["before"] == row["labels"]["after"]
    assert row["spectrum"] == found["spectrum"]["network"]


def test_none_by_default(G: ng.Geometry, samples: tuple[Tensor, Tensor]) -> None:
    report = audit(small, *samples, G=G, advice=False, trial=False, progress=False).report
    assert report["what_if"] == []
    assert report["advice"] is None
    assert changes.sentences(report) == changes.alerts(report) == []


def test_scores_stand_beside_directions(audited: Audit) -> None:
    (row,) = audited.report["what_if"]
    assert row["after"]["value"] == pytest.approx(min(1.0, row["before"]["value"] + row["gain"]["value"]))
    assert row["cost_ratio"] == 1.0
    assert "points of accuracy" in row["sentence"]


def strided() -> nn.Module:
    return nn.Sequential(nn.Conv1d(1, 8, 1, stride=2), nn.ReLU(), nn.Flatten(), nn.Linear(64, 2))


def test_the_catalogue_is_tried_and_a_clear_gain_raises_an_alert(monkeypatch: pytest.MonkeyPatch) -> None:
    X = torch.randn(300, 1, 16, generator=torch.Generator().manual_seed(0))
    y = (X[:, 0, 1:5:2].mean(1) > 0).long()  # told by two values that the stride skips
    monkeypatch.setattr(changes, "TRIED", True)
    monkeypatch.setattr(changes, "BUDGET", 3e9)
    made = audit(strided, X, y, members=4, trial=False, progress=False)
    report, advice = made.report, made.report["advice"]
    assert "give &#39;0&#39; stride=1" in made.html()  # escaped, and on the page
    json.dumps(advice, allow_nan=False)
    rows = {row["change"]: row for row in advice["rows"]}
    row = rows["no stride in the first strided convolution"]
    assert row["clear"]
    assert row["gain"]["value"] - 1.96 * row["gain"]["stderr"] > 0
    assert any(r["kind"] == "samples" for r in advice["rows"])
    alert = next(a for a in changes.alerts(report) if a["title"].startswith("No stride"))
    assert alert["action"].startswith("Give '0' stride=1; to match, '3' = Linear(128")
    assert alert["level"] == "warning"
    (sentence,) = changes.sentences(report)
    assert "Predicted to help most" in sentence["text"]
    assert sentence["text"] in [s["text"] for s in report["sentences"]]


def test_where_no_interval_lies_above_zero_no_alert_is_raised() -> None:
    row = {
        "change": "tanh",
        "action": "use tanh",
        "kind": "activation",
        "clear": False,
        "gain": {"value": 0.02, "stderr": 0.03, "n": 100},
    }
    report = {"advice": {"rows": [row], "measure": "accuracy", "tried": 3, "left": 2, "unfit": 0}}
    assert changes.alerts(report) == []
    (sentence,) = changes.sentences(report)
    assert sentence["text"] == "No change that was tried is predicted to help beyond its error."
    assert "2 more cost too much" in sentence["more"]
