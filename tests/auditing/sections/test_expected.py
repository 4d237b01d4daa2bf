"""What to expect: nothing in shuffled labels, and each alert where it belongs and only there."""

from typing import Any

import pytest
import torch
from torch import nn

from netgrain.auditing.sections.expected import alerts, at_chance, enough, sentences
from netgrain.data import isotropic
from netgrain.learning.predictions import learnability
from tests.auditing.audit_example import est, expected
from tests.auditing.audit_example import example as whole


def tiny() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 2))


def found_at_chance(y: torch.Tensor, X: torch.Tensor, seed: int) -> bool:
    return at_chance(learnability(tiny, X, y, kinds=["layers"], members=2, trial=False, grain=False, seed=seed))


def test_nothing_is_found_in_labels_that_lie_nowhere() -> None:
    """Ten seeds, at most one false alarm."""
    X = torch.randn(120, 4, 4, generator=torch.Generator().manual_seed(0))
    labels = [torch.randint(2, (120,), generator=torch.Generator().manual_seed(s)) for s in range(10)]
    assert sum(not found_at_chance(y, X, s) for s, y in enumerate(labels)) <= 1


@pytest.mark.parametrize("place", [0, 15])
def test_a_label_along_any_direction_is_found(place: int) -> None:
    direction = torch.eye(16)[place].reshape(4, 4)
    data = isotropic(direction, 120, epsilon=1.0)
    assert not found_at_chance(data.y, data.X, 0)


def report(**changes: Any) -> dict[str, Any]:
    calm = {"per_class": {"a": est(0.8), "b": est(0.8)}, "counts": {"a": 50, "b": 50}, "balanced": est(0.82, 0.01)}
    calm |= {"label_noise_at_most": est(0.01, 0.01)}
    calm["curve"] = expected(2000, ["a", "b"])["curve"] | {"twice": est(0.805, 0.02)}
    return {"model": "net", "expected": expected(2000, ["a", "b"]) | calm | changes}


def titles(whole: dict[str, Any]) -> list[str]:
    return [a["title"] for a in alerts(whole)]


CURVE = expected(2000, ["a", "b"])["curve"]


def test_a_calm_report_raises_none() -> None:
    assert titles(report()) == []
    assert alerts({"expected": None}) == []


@pytest.mark.parametrize(
    ("changes", "title"),
    [
        ({"at_chance": True}, "Nothing to learn here"),
        (
            {"warning": "w", "trial": {"score": est(0.97), "gain": est(0.2)}},
            "This task needs features that random networks do not have",
        ),
        ({"per_class": {"a": None, "b": est(0.8)}}, "1 class has fewer than 5 samples"),
        ({"balanced": est(0.6, 0.02)}, "Rare classes are recognised much less often"),
        ({"curve": CURVE | {"twice": est(0.85, 0.005)}}, "More samples would help"),
        ({"label_noise_at_most": est(0.2, 0.02)}, "Some labels may be wrong, or some samples ambiguous"),
    ],
)
def test_each_alert(changes: dict[str, Any], title: str) -> None:
    found = report(**changes)
    assert titles(found) == [title]
    assert all(a["evidence"].endswith(".") and a["action"].endswith(".") for a in alerts(found))


def test_wrong_labels_are_suspected_only_where_more_samples_would_not_help() -> None:
    """Else the bound says no more than that the task is hard."""
    noisy = {"label_noise_at_most": est(0.4, 0.02)}
    assert titles(report(**noisy, curve=CURVE | {"twice": est(0.85, 0.005)})) == ["More samples would help"]
    learnt = {"warning": "w", "trial": {"score": est(0.97), "gain": est(0.2)}}
    rising = {"curve": CURVE | {"twice": est(0.85, 0.005)}}
    assert len(titles(report(**noisy, **learnt, **rising))) == 1  # and the curve is that of features not learnt


def test_at_chance_nothing_else_is_raised() -> None:
    found = report(at_chance=True, balanced=est(0.3), label_noise_at_most=est(0.5), per_class={"a": None})
    assert titles(found) == ["Nothing to learn here"]
    assert len(sentences(found)) == 1


def test_what_is_off_at_the_start_is_said() -> None:
    assert titles(report() | {"geometry": {"off": "off: the last layer is zero"}}) == [
        "Parts of the network are switched off at the start"
    ]


def test_the_number_of_samples_that_is_enough() -> None:
    e = whole()["expected"]
    assert enough(e) == 8000
    assert enough(e | {"curve": e["curve"] | {"enough": None}}) is None
    assert enough(e | {"curve": e["curve"] | {"enough": [100, 50, 200]}}) is None
