"""Support against rank, by hand."""

import numpy as np
import pytest
import torch

from netgrain.experiments.claims import Claim
from netgrain.experiments.equivariance import eq_uncertainty
from netgrain.experiments.equivariance import studies as shared
from netgrain.groups import alternating, dihedral
from netgrain.runtime.units import Outcome
from tests.experiments.equivariance.made_up import verdict


def test_subgroups_and_cosets_are_known_by_hand() -> None:
    D8, A5 = dihedral(order=8), alternating(5)
    assert eq_uncertainty.subgroup(D8, [2]).tolist() == [0, 2, 4, 6]
    assert eq_uncertainty.subgroup(D8, [0]).tolist() == [0]
    assert len(eq_uncertainty.subgroup(D8, [1, 2])) == 8
    H = eq_uncertainty.subgroup(D8, [1])  # {e, s} is not normal: rH = {r, rs}, Hr = {r, r³s}
    assert eq_uncertainty.coset(D8, H, 2, True).nonzero().flatten().tolist() == [2, 3]
    assert eq_uncertainty.coset(D8, H, 2, False).nonzero().flatten().tolist() == [2, 7]
    rng = np.random.default_rng(0)
    for _ in range(20):
        assert 60 % len(eq_uncertainty.subgroup(A5, rng.integers(0, 60, 2).tolist())) == 0


@pytest.mark.parametrize("name", ["D8", "A5", f"{shared.BARE}C5xC5:Q8"])
def test_subgroups_reach_the_bound_exactly(name: str) -> None:
    found = eq_uncertainty._one({"uncertainty": name, "functions": 20, "seed": 7})
    products = (found.arrays["supports"] * found.arrays["ranks"]).double() / shared.group_named(name).order
    row = list(eq_uncertainty.KINDS).index("subgroup")
    assert products[row].tolist() == [1.0] * 20
    assert products.min() >= 1
    assert products[0].max() > 1


def test_uncertainty_can_fail() -> None:
    def judged(supports: list[list[int]], ranks: list[list[int]]) -> list[Claim]:
        # two alike of each: one result alone is no evidence
        outcome = Outcome(
            {}, {"supports": torch.tensor(supports).repeat(1, 2), "ranks": torch.tensor(ranks).repeat(1, 2)}
        )
        config = eq_uncertainty.Config(groups=("D8",), functions=2, seeds=1)
        return eq_uncertainty.claims(eq_uncertainty.Result(config, {"D8": shared.Seeds([outcome])}))

    good, bad = judged([[3], [4], [2]], [[8], [4], [4]]), judged([[3], [2], [2]], [[8], [3], [5]])
    for part in ("bound holds", "subgroups reach"):
        assert verdict(good, part) == "holds"
        assert verdict(bad, part) == "fails"
