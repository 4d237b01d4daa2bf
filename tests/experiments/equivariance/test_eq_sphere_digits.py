"""Digits on the sphere: claims that can fail, and a network that is not fitted."""

from typing import Any

import pytest
import torch

from netgrain.experiments.claims import Claim
from netgrain.experiments.equivariance import eq_sphere_digits
from netgrain.experiments.equivariance.studies import Seeds
from netgrain.runtime.units import Outcome
from tests.experiments.equivariance.made_up import verdict


def rows(**numbers: float) -> Seeds:
    return Seeds(Outcome({k: v * (1 + 1e-4 * i) for k, v in numbers.items()}) for i in range(4))


def judged(good: bool, *, train: float = 1.0) -> list[Claim]:
    tiny, fewer = (1e-6, 2.0) if good else (0.1, 6.0)
    linear = {"gap 2": tiny, "kkt 3": tiny, "excess FC 2": 0.5 if good else 1e-4, "degrees FC": 4.0}
    linear |= {"degrees 2": fewer, "degrees 3": fewer + 1e-3, "2 rotated": 0.55 if good else 0.9}
    ours = {"train": train, "upright": 0.98, "rotated": 0.96 if good else 0.6, "start": 100.0}
    ours["end"] = 50.0 if good else 200.0
    theirs: dict[str, Any] = {"train": 1.0, "upright": 0.98, "rotated": 0.5 if good else 0.9, "start": 150.0}
    theirs |= {"end": 140.0 if good else 149.0}
    if not good:
        theirs |= {"upright": 0.5, "start": 90.0}
    trained = {
        (net, how): rows(**(ours if net.startswith("spherical") else theirs))
        for net in eq_sphere_digits.RELU
        for how in eq_sphere_digits.TRAINED
    }
    limits = {how: rows(**linear) for how in eq_sphere_digits.TRAINED}
    return eq_sphere_digits.claims(
        eq_sphere_digits.Result(eq_sphere_digits.PRESETS["smoke"], "digits", limits, trained)
    )


PARTS = (
    "ends at the optimum", "stationary point", "is not that of the spherical", "fewer degrees", "keeps its accuracy",
    "is ahead of the CNN", "is ahead of the FC", "no such lead", "cannot classify", "training lowers", "starts below",
    "ends below", "falls by more",
)  # fmt: skip


@pytest.mark.parametrize("part", PARTS)
def test_claims_can_fail(part: str) -> None:
    assert verdict(judged(True), part) == "holds"
    assert verdict(judged(False), part) == "fails"


def test_a_network_that_does_not_fit_does_not_fail() -> None:
    assert verdict(judged(False, train=0.8), "training lowers") == "not fitted"
    assert any("stand in" in c.note for c in judged(True))


def test_a_unit_trains_and_measures_both_ways() -> None:
    unit = {"source": "digits", "bandwidth": 3, "inner": 2, "features": 1, "channels": 4, "width": 8, "count": 10}
    unit |= {"fresh": 5, "seed": 0, "steps": 30, "lr": 0.02, "optimiser": "adam", "rotated": False, "net": "spherical"}
    found = eq_sphere_digits._relu(unit).numbers
    few = eq_sphere_digits._relu({**unit, "steps": 1}).numbers
    assert found["loss"] < few["loss"]
    assert found["start"] == few["start"] != found["end"]
    assert 0 <= found["rotated"] <= 1
    linear = eq_sphere_digits._limits({**unit, "count": 2, "log_norm": 50.0})
    assert linear.numbers["gap 2"] < 1e-3
    assert torch.isfinite(linear.arrays["betas"]).all()
