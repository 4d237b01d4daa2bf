"""Two Gaussian points: the printed optimum, and claims that can fail."""

from typing import Any

import pytest

from netgrain.experiments.claims import Claim
from netgrain.experiments.equivariance import eq_d8_gaussians
from netgrain.experiments.equivariance import studies as shared
from tests.experiments.equivariance.made_up import outcomes, verdict


def gaussians(beta_shift: float = 0.0, **values: Any) -> list[Claim]:
    trained = {
        (m, d, net): outcomes(**values.get(f"{m} {d} {net}", {}))
        for m, d in (("sgd", 3), ("flow", 3), ("flow", 2))
        for net in shared.NETS
    }
    for outcome in trained["flow", 2, "group-cnn"]:
        outcome.arrays["beta"] = outcome.arrays["beta"] + beta_shift
    return eq_d8_gaussians.claims(eq_d8_gaussians.Result(eq_d8_gaussians.PRESETS["smoke"], trained, 5.0))


def test_gaussians_can_fail() -> None:
    good = gaussians(**{"sgd 3 group-cnn": {"objective": 6.0}, "flow 2 group-cnn": {"ratio3": 5.6569}})
    for part in ("printed optimum", "printed ratio", "below the authors' line", "every start", "not at its limit"):
        assert verdict(good, part) == "holds"
    bad = gaussians(
        0.01, **{"flow 3 group-cnn": {"objective": 7.0, "kkt": 0.1}, "flow 2 group-cnn": {"ratio3": 5.7, "gap": 0.1}}
    )
    for part in (
        "printed optimum",
        "printed ratio",
        "every start",
        "below the authors",
        "not at its limit",
        "certified",
        "stationary",
    ):
        assert verdict(bad, part) == "fails"


def test_the_printed_optimum_is_reached() -> None:
    (unit,) = shared.trainings(shared.AUTHORS_D8, eq_d8_gaussians.DATA, [3], net="group-cnn", depth=2)
    found = shared.train_one(unit)
    beta = found.arrays["beta"]
    assert (beta / beta.norm()).tolist() == pytest.approx(eq_d8_gaussians.PRINTED, abs=6e-5)  # half a printed digit
    assert found.numbers["objective"] == pytest.approx(3.647701, rel=1e-5)
    assert found.numbers["ratio3"] == pytest.approx(5.65687, abs=1e-4)
