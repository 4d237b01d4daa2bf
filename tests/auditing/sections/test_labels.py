"""Labels: found at the top and at the bottom where they were planted, and said with their error."""

import pytest

import netgrain as ng
from netgrain.auditing.audits import audit
from netgrain.auditing.sections.labels import sentences
from netgrain.data import isotropic
from tests.auditing.audit_example import est, example
from tests.auditing.conftest import lenet


def test_labels_planted_at_the_top_and_at_the_bottom(lenet_G: ng.Geometry) -> None:
    reports = []
    for index in (0, -1):
        data = isotropic(lenet_G.directions()[index], 600, epsilon=1.0)
        reports.append(audit(lenet, data.X, data.y, G=lenet_G, trial=False, progress=False).report)
    top, bottom = (report["labels"] for report in reports)
    assert top["reaction"]["value"] > 3 > 0.3 > bottom["reaction"]["value"]
    assert "words" not in top
    assert top["nonlinear"]["value"] > 0.9 > 0.1 > bottom["nonlinear"]["value"]
    assert top["mean_difference"]["value"] > 0.8 > 0.2 > bottom["mean_difference"]["value"]
    assert top["linear"]["leading"]["value"] > 0.75
    assert bottom["linear"]["leading"]["value"] < 0.6 < 0.75 < bottom["linear"]["weak"]["value"]
    assert {s["level"] for s in reports[1]["sentences"]} == {"note"}  # nothing was trained, so nothing is good or bad


def test_sentences_by_hand() -> None:
    report = example()
    report["labels"] |= {"reaction": est(10.0, 0.71), "nonlinear": est(0.87, 0.078)}
    first, second = sentences(report)
    assert "react 10.00 ± 0.71 times as strongly" in first["text"]
    assert "no prediction of accuracy" in first["text"]
    assert "87.0 ± 7.8 %" in first["text"]
    assert second["text"].startswith("A linear rule gets 95.10 ± 0.60 % right with all directions, 87.40 ± 0.90 %")
    assert "41.2 ± 2.0 % with the others alone (always guessing the largest class: 10 %)" in second["text"]


@pytest.mark.parametrize("weak", [est(0.4), {"value": None, "stderr": None, "n": 0}])
def test_what_is_not_known_is_not_said(weak: dict[str, float | None]) -> None:
    report = example()
    report["labels"]["linear"]["weak"] = weak
    assert ("with the others alone" in sentences(report)[1]["text"]) == (weak["value"] is not None)
    report["labels"]["nonlinear"] = {"value": None, "stderr": None, "n": 0}
    report["labels"]["linear"]["all"] = {"value": None, "stderr": None, "n": 0}
    (only,) = sentences(report)
    assert only["level"] == "warn"
    assert only["text"].startswith("No single direction carries the label")
