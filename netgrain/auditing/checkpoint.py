"""A trained checkpoint beside its family: its complexity, how far its geometry moved and where to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from netgrain.complexity.estimators import geometric_complexity
from netgrain.families.members import Family, member, trained_model
from netgrain.families.probes import Data
from netgrain.geometry.of_models import geometry_of
from netgrain.geometry.value import Geometry
from netgrain.runtime.randomness import derived_seed

POINTS = 200  # samples at which a trained network is looked at


def trained_report(
    make: Family, weights: Mapping[str, Tensor], X: Tensor, G: Geometry, *, seed: int, device: torch.device
) -> dict[str, Any]:
    """Complexity of the trained network on some samples, and its geometry there against that of the family."""
    model = trained_model(make, weights).to(device)
    rows = torch.randperm(len(X), generator=torch.Generator().manual_seed(derived_seed(seed, "audit trained")))[:POINTS]
    points = X[rows]
    after = geometry_of([model], Data(points), input_shape=tuple(X.shape[1:]), probes=len(points), progress=False)
    fresh = geometry_of(
        [member(make, seed, 0, device)],
        Data(points),
        input_shape=tuple(X.shape[1:]),
        probes=len(points),
        progress=False,
    )
    moved = after.corr(G)
    shares = []
    for share in (0.5, 0.9, 0.99):
        k = G.directions_for(share)
        if k is not None:
            V = G.directions(k).flatten(1)
            inside = [float((V * g.form.matvec(V)).sum()) / max(g.trace.value, 1e-300) for g in (fresh, after)]
            shares.append(
                [
                    f"of its geometry in the {k} directions that carry {share:.0%} of the family's",
                    f"{inside[0]:.0%} fresh, {inside[1]:.0%} trained",
                ]
            )
    complexity = geometric_complexity(model, points, seed=seed)
    found = moved.as_dict()
    return {
        "trained": {k: v for k, v in complexity.as_dict().items() if k in ("value", "stderr", "n")},
        "moved": {"corr": {k: found[k] for k in ("value", "stderr", "n")}, "rows": shares},
    }
