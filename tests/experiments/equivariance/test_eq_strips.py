"""Strips of |β| and |β̂|."""

import torch

from netgrain.experiments.claims import Claim
from netgrain.experiments.equivariance import eq_strips
from tests.experiments.equivariance.made_up import outcomes, verdict


def test_strips_can_fail() -> None:
    def judged(gcnn: float, fc: float) -> list[Claim]:
        trained = {
            ("D60", net, stage): outcomes(rank=value, stable_rank=value / 10, real=60 - value)
            for net, value in (("group-cnn", gcnn), ("circular", 20.0), ("fully-connected", fc))
            for stage in ("descent", "limit")
        }
        config = eq_strips.Config(groups=("D60",), points=10, seeds=4, epochs=1500, lr=0.1)
        return eq_strips.claims(eq_strips.Result(config, trained, {}))

    good, bad = judged(6, 60), judged(55, 50)
    for part in ("low rank", "FC network is not", "wider in real", "stable rank", "already"):
        assert verdict(good, part) == "holds"
        assert verdict(bad, part) == "fails"


def test_strips_are_shares_of_the_largest() -> None:
    assert eq_strips._shares(torch.tensor([[1.0, 4.0], [2.0, 0.0]])).tolist() == [[0.25, 1], [1, 0]]
