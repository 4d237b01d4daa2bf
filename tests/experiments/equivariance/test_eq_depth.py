"""Depth: claims that can fail."""

import math

import pytest

from netgrain.experiments.claims import Claim
from netgrain.experiments.equivariance import eq_depth
from tests.experiments.equivariance.made_up import outcomes, verdict


def test_depth_can_fail_and_its_scale_ends_where_it_should() -> None:
    def judged(ranks: dict[int, float], kkt: float, gap: float) -> list[Claim]:
        trained = {("D8", 5, d): outcomes(rank=r, kkt=kkt, gap=gap) for d, r in ranks.items()}
        config = eq_depth.Config(depths=tuple(ranks), problems=(("D8", 5, 4),))
        return eq_depth.claims(eq_depth.Result(config, trained))

    good, bad = judged({2: 6, 3: 4, 5: 2}, 1e-9, 1e-6), judged({2: 3, 3: 4, 5: 5}, 1e-2, 0.1)
    for part in ("rank falls", "certified", "stationary"):
        assert verdict(good, part) == "holds"
        assert verdict(bad, part) == "fails"
    assert eq_depth.share_of_range(math.sqrt(8), 8, 3) == pytest.approx(0)
    assert eq_depth.share_of_range(8**1.5, 8, 3) == pytest.approx(1)
    assert math.isnan(eq_depth.share_of_range(2.0, 8, 1))
