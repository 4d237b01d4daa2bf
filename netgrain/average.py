"""The front door: the average geometry of a family, by the best method that applies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from netgrain.ensemble import Make
from netgrain.errors import NetgrainError
from netgrain.geometry import Geometry
from netgrain.sampling import sampled_geometry


def average_geometry(make: Make, input_shape: Sequence[int], *, method: str = "auto", **options: Any) -> Geometry:
    """G = E_θ E_x[J(x)ᵀJ(x)], J = ∇ₓf, over fresh members of a family of networks.

    make: any callable that returns a fresh torch.nn.Module; input_shape: without the batch, as in (1, 32, 32).
    method: "auto" or "sampled". Options, all by keyword: probe=None (the origin, or its σ → 0 limit at a kink),
    members= or tolerance=, seed=0, output="all" (sum over outputs; an index, "mean" or ("diff", i, j)),
    first_layer="auto", probes=, keep=64, workers=None, chunk=4, device=None, progress=None: see
    `netgrain.sampling.sampled_geometry`.

    An average pool of two neighbours of a two-tap filter: G = σ²/4 · [[1,1,0],[1,2,1],[0,1,1]], up to sampling error.

    >>> from torch import nn
    >>> def make():
    ...     net = nn.Sequential(nn.Conv1d(1, 1, 2, bias=False), nn.AvgPool1d(2), nn.Flatten())
    ...     nn.init.normal_(net[0].weight)
    ...     return net
    >>> G = average_geometry(make, (1, 3), members=2000, first_layer="never")
    >>> (4 * G.matrix()).round().int().tolist()
    [[1, 1, 0], [1, 2, 1], [0, 1, 1]]
    """
    if method == "closed-form":
        raise NetgrainError("the closed form is not part of this version; use method='sampled' (or 'auto').")
    if method not in ("auto", "sampled"):
        raise NetgrainError(f"method expects 'auto' or 'sampled', found {method!r}.")
    return sampled_geometry(make, input_shape, **options)
