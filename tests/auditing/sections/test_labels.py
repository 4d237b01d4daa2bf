"""Labels: found at the top and at the bottom where they were planted, and said with their error."""

import json
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

import netgrain as ng
from netgrain.auditing.audits import audit
from netgrain.auditing.axes import axes_of
from netgrain.auditing.label_relevance import relevance
from netgrain.auditing.sections.labels import measure, sentences, shown
from netgrain.data import isotropic
from netgrain.geometry.estimate import Estimate
from tests.auditing.audit_example import est, example
from tests.auditing.conftest import lenet


def test_labels_planted_at_the_top_and_at_the_bottom(lenet_G: ng.Geometry) -> None:
    reports = []
    for index in (0, -1):
        data = isotropic(lenet_G.directions()[index], 600, epsilon=1.0)
        reports.append(audit(lenet, data.X, data.y, G=lenet_G, trial=False, progress=False).report)
    top, bottom = (report["labels"] for report in reports)
    assert top["reaction"]["value"] > 3 > 0.3 > (bottom["reaction"]["value"] or bottom["reaction_below"])
    assert "words" not in top
    for what, much, little in (("nonlinear", 0.9, 0.1), ("mean_difference", 0.8, 0.2)):
        assert top[what]["value"] > much > little > (bottom[what]["value"] or 0)
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
    report["labels"]["nonlinear"] = report["labels"]["reaction"] = {"value": None, "stderr": None, "n": 0}
    report["labels"]["linear"]["all"] = {"value": None, "stderr": None, "n": 0}
    (only,) = sentences(report)
    assert only["level"] == "warn"
    assert only["text"].startswith("No single direction tells more about the label than about a shuffled one")


def test_nothing_is_shown_whose_error_exceeds_it() -> None:
    """78.2 ± 755.4 % cannot be written; a reaction within its error is bounded from above."""
    assert shown(Estimate(0.782, 7.554, 8))["value"] is None
    assert shown(Estimate(0.5, 0.1, 8)) == {"value": 0.5, "stderr": 0.1, "n": 8}
    report = example()
    report["labels"] |= {"reaction": est(None, None), "reaction_below": 0.0123}
    assert "react less than 0.012 times as strongly" in sentences(report)[0]["text"]
    report["labels"]["nonlinear"] = est(None, None)
    assert "hold" not in sentences(report)[0]["text"]


@pytest.mark.parametrize("seed", range(6))
def test_shuffled_labels_say_nothing(seed: int, lenet_G: ng.Geometry) -> None:
    """Few samples of few and of many classes: no share, no reaction, and no linear rule is told as found."""
    generator = torch.Generator().manual_seed(seed)
    X = torch.randn(60, 1, 16, 16, generator=generator) + 2 * torch.randn(60, 1, 1, 1, generator=generator)
    y = torch.randint(0, 2, (60,), generator=generator)
    labels = measured(lenet_G, X, y)["labels"]
    assert labels["reaction"]["value"] is labels["reaction_below"] is labels["nonlinear"]["value"] is None
    assert labels["mean_difference"]["value"] is None
    assert not labels["linear"]["above_chance"]
    said = sentences({"labels": labels, "geometry": {}})
    assert "finds nothing" in said[1]["text"]
    assert "±" not in said[0]["text"] + said[1]["text"]


def measured(G: ng.Geometry, X: Tensor, y: Tensor | None) -> dict[str, Any]:
    axes = axes_of(G)
    subject = SimpleNamespace(relevance=relevance(axes, X, y), y=y)
    return measure(subject)  # type: ignore[arg-type]


def test_numbers_and_no_labels(lenet_G: ng.Geometry) -> None:
    """Numbers along the first direction: their covariance lies there; what needs classes is null."""
    X = torch.randn(300, 1, 16, 16, generator=torch.Generator().manual_seed(0))
    y = X.flatten(1) @ lenet_G.directions(1).flatten().float()
    labels = measured(lenet_G, X, y)["labels"]
    assert labels["target"] == "numbers"
    assert labels["mean_difference"]["value"] > 0.9
    assert labels["nonlinear"]["value"] is labels["reaction"]["value"] is labels["linear"]["chance"] is None
    assert labels["linear"]["all"]["value"] is labels["linear"]["above_chance"] is None
    json.dumps(labels, allow_nan=False)
    none = measured(lenet_G, X, None)["labels"]
    assert none is None
    assert [sentences({"labels": found, "geometry": {}}) for found in (labels, none)] == [[], []]
