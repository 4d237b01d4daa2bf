"""Diagonal networks: the list of vertices against the linear program, claims that can fail."""

import numpy as np
import pytest

from netgrain.experiments.claims import Claim
from netgrain.experiments.equivariance import eq_diagonal
from netgrain.experiments.equivariance.studies import Seeds
from netgrain.runtime.units import Outcome
from tests.experiments.equivariance.made_up import verdict


@pytest.mark.parametrize("seed", range(4))
def test_the_best_vertex_is_the_linear_programs(seed: int) -> None:
    Z = np.random.default_rng(seed).standard_normal((3, 6))
    best = eq_diagonal.least_at_vertices(Z, 1.0)
    assert best == pytest.approx(eq_diagonal.least_sum(Z))


def test_no_random_point_is_better_than_the_best_vertex() -> None:
    rng = np.random.default_rng(0)
    Z = rng.standard_normal((2, 3))
    best = eq_diagonal.least_at_vertices(Z, 2 / 3)
    assert best is not None
    b = rng.standard_normal((200_000, 3)) * rng.exponential(1, (200_000, 3)) ** 3
    margins = (b @ Z.T).min(1)
    scaled = b[margins > 0] / margins[margins > 0, None]
    least = (np.abs(scaled) ** (2 / 3)).sum(1).min()
    assert best <= least < 1.2 * best


def test_long_lists_are_not_made() -> None:
    assert eq_diagonal.least_at_vertices(np.ones((10, 60)), 2 / 3) is None


def judged(scale: float, sparser: bool) -> list[Claim]:
    def row(i: int) -> Outcome:
        entries = {"entries 2": 4 - 0.1 * i, "entries 3": 2 if sparser else 6 + 0.1 * i, "entries FC": 12}
        if not sparser:
            entries["entries 2"] = 5 + 0.1 * i
        excess = {"excess 2": scale * (1 + 0.1 * i), "excess 3": 0.1 if sparser else 1e-6, "excess FC": 1e-6 / scale}
        excess["excess G-CNN"] = excess["excess FC"]
        return Outcome({**entries, **excess, "kkt 3": scale, "kkt FC 3": 1e-6 / scale})

    found = {("D12", 4): Seeds(row(i) for i in range(4))}
    config = eq_diagonal.Config(problems=(("D12", 4),), seeds=4)
    return eq_diagonal.claims(eq_diagonal.Result(config, found))


def test_claims_can_fail() -> None:
    good, bad = judged(1e-6, True), judged(0.1, False)
    for part in (
        "depth 2 ends",
        "stationary point",
        "tells other",
        "at most as many",
        "sparser",
        "G-CNN does not end",
        "FC does not end",
    ):
        assert verdict(good, part) == "holds"
        assert verdict(bad, part) == "fails"
    assert verdict(good, "not always optimal") == "holds"
    assert verdict(bad, "not always optimal") == "undecided"  # every draw is at the optimum: on the bound
