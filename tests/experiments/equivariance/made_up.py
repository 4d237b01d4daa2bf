"""Made-up trainings, so that claims can be seen to come out either way."""

import torch

from netgrain.experiments.claims import Claim
from netgrain.experiments.equivariance import eq_d8_gaussians
from netgrain.experiments.equivariance.studies import Seeds
from netgrain.runtime.units import Outcome

COLUMNS = {"kind": "columns"}


NUMBERS = {
    "ratio": 6.0, "start_ratio": 12.0, "real": 5.0, "start_real": 6.0, "ratio3": 6.0, "start_ratio3": 12.0,
    "objective": 5.0, "own_objective": 5.0, "lower": 4.0, "gap": 1e-6, "kkt": 1e-10, "balancedness": 1.0, "rank": 5,
    "stable_rank": 2.0, "start_stable_rank": 4.0, "reached": 10.0, "starts": 1,
}  # fmt: skip


def outcomes(count: int = 4, **changes: float) -> Seeds:
    """Made-up trainings that differ a little from each other."""
    beta = torch.tensor(eq_d8_gaussians.PRINTED, dtype=torch.float64)
    return Seeds(
        Outcome({**NUMBERS, **{k: v * (1 + 1e-6 * i) for k, v in changes.items()}}, {"beta": beta, "start": beta})
        for i in range(count)
    )


def verdict(claims: list[Claim], part: str) -> str:
    found = [c.verdict for c in claims if part in c.name]
    assert found, f"no claim is called {part}"
    assert len(set(found)) == 1, found
    return found[0]
