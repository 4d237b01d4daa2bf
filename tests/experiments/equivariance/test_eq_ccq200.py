"""Irreps of a bare table: claims that can fail."""

import torch

from netgrain.experiments.claims import Claim
from netgrain.experiments.equivariance import eq_ccq200
from netgrain.experiments.equivariance import studies as shared
from netgrain.runtime.units import Outcome
from tests.experiments.equivariance.made_up import outcomes, verdict


def test_irreps_of_the_bare_table_can_fail() -> None:
    name = f"{shared.BARE}C3xC3:Q8"
    law = eq_ccq200._irreps({"group": name, "pairs": 200})
    assert law.numbers["dimensions"] == [1, 1, 1, 1, 2, 8]
    assert max(law.numbers[k] for k in ("homomorphism", "unitary", "characters")) < 1e-10

    def judged(law: Outcome, rank: float) -> list[Claim]:
        group = shared.group_named(name)
        trained = {case: outcomes(rank=20.0) for case in eq_ccq200.CASES}
        trained[3, "group-cnn"] = outcomes(rank=rank, ratio=6.0)
        trained[3, "fully-connected"] = outcomes(ratio=100 / rank)
        for found in trained.values():
            for outcome in found:
                outcome.arrays["start"] = torch.eye(72, dtype=torch.float64)[0]
        config = eq_ccq200.PRESETS["smoke"]
        return eq_ccq200.claims(eq_ccq200.Result(config, group, law, trained, [], {}))

    good = judged(law, 2)
    bad = judged(Outcome({**law.numbers, "dimensions": [1] * 72}), 30)
    for part in ("all irreps", "lower rank", "far below"):
        assert verdict(good, part) == "holds"
        assert verdict(bad, part) == "fails"
