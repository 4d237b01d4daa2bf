"""Rotations: what the authors see, and claims that can fail."""

from dataclasses import replace

import torch

from netgrain.equivariant import spherical_transform
from netgrain.experiments.equivariance import eq_spherical
from netgrain.experiments.equivariance.studies import Seeds
from netgrain.runtime.units import Outcome
from tests.experiments.equivariance.made_up_curves import seeds_with, verdicts


def test_the_part_of_the_spectrum_that_the_authors_see() -> None:
    assert spherical_transform(3).n == eq_spherical.SEEN
    low = torch.zeros(165, dtype=torch.float64)
    low[: eq_spherical.SEEN] = 1.0
    blocks = spherical_transform(5).blocks(low)
    assert [bool(b.any()) for b in blocks] == [True, True, True, False, False]


def test_spherical_claims_fail_without_certificates() -> None:
    numbers = eq_spherical._limits({"bandwidth": 2, "points": 3, "log_norm": 200.0, "seed": 0}).numbers
    relu = {net: torch.tensor([[2.0, 1.0 if net == "spherical" else 2.0]]).double() for net in ("spherical", "FC")}
    config = replace(eq_spherical.PRESETS["smoke"], bandwidth=2)

    def judged(rows: list[dict]) -> dict[str, str]:
        many = seeds_with({n: v.repeat(len(rows), 1) for n, v in relu.items()}, dict.fromkeys(relu, [0.0] * len(rows)))
        limits = Seeds(Outcome(row) for row in rows)
        return verdicts(eq_spherical.claims(eq_spherical.Result(config, limits, many)))

    assert numbers["gap 2"] < 1e-4
    good = judged([numbers] * 3)
    assert good["depth 2 ends at the optimum"] == good["depth 3 ends at a stationary point"] == "holds"
    bad = judged([{**numbers, "gap 2": 0.1, "kkt 3": 0.1, "rank 3": numbers["rank 2"] + 5}] * 3)
    assert bad["depth 2 ends at the optimum"] == bad["depth 3 ends at a stationary point"] == "fails"
    assert bad["rank falls with depth"] == "fails"
