"""The front door: the average geometry of a family, by the best method that applies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from netgrain.closed_form.geometry import closed_form_geometry
from netgrain.closed_form.trace import Unsupported
from netgrain.ensemble import Make
from netgrain.errors import NetgrainError
from netgrain.geometry import Geometry
from netgrain.sampling import check_counts, checked_shape, sampled_geometry

METHODS = ("auto", "closed-form", "sampled")
SHARED = ("probe", "output", "seed", "probes", "tolerance", "progress")  # options of both methods
ASKING = ("members", "first_layer", "keep")  # of sampling alone: giving one asks for it
# where to sample, if sampling it is: of no consequence for the result. A closed form is computed on the CPU.
WHERE = ("engine", "workers", "chunk", "device", "vmapped")
NARROW = 4  # channels below which a wide limit is not taken without being asked for


def average_geometry(make: Make, input_shape: Sequence[int], *, method: str = "auto", **options: Any) -> Geometry:
    """G = E_θ E_x[J(x)ᵀJ(x)], J = ∇ₓf, over fresh members of a family of networks.

    make: any callable that returns a fresh torch.nn.Module; input_shape: without the batch, as in (1, 32, 32).
    method: "closed-form" propagates second moments through the traced module (milliseconds, no network is sampled);
    "sampled" averages over members; "auto" takes the closed form where every layer has one, else samples and says why
    in `G.about.notes`. Asking for members= is asking for sampling.

    Options of both: probe=None (the origin, or its σ → 0 limit at a kink), seed=0, output="all" (sum over outputs; an
    index, "mean" or ("diff", i, j)), probes= (points), tolerance=, progress=None. Of sampling: members=,
    first_layer="auto", keep=64, engine=None, workers=None, chunk=None, device=None, vmapped=None: see
    `netgrain.sampling.sampled_geometry`. A closed form is computed on the CPU, whatever the device.

    An average pool of two neighbours of a two-tap filter: G = σ²/4 · [[1,1,0],[1,2,1],[0,1,1]].

    >>> from torch import nn
    >>> def make():
    ...     net = nn.Sequential(nn.Conv1d(1, 1, 2, bias=False), nn.AvgPool1d(2), nn.Flatten())
    ...     nn.init.normal_(net[0].weight)
    ...     return net
    >>> G = average_geometry(make, (1, 3))
    >>> G.method, G.exact, (4 * G.matrix()).tolist()
    ('closed-form', True, [[1.0, 1.0, 0.0], [1.0, 2.0, 1.0], [0.0, 1.0, 1.0]])
    """
    if method not in METHODS:
        raise NetgrainError(f"method expects 'auto', 'closed-form' or 'sampled', found {method!r}.")
    if unknown := [name for name in options if name not in SHARED + ASKING + WHERE]:
        raise TypeError(f"average_geometry() got an unexpected keyword argument '{unknown[0]}'")
    check_counts(
        options.get("members"), options.get("tolerance"), options.get("probes"), options.get("first_layer", "auto")
    )
    asked = [n for n in (*ASKING, *WHERE) if n != "device" and options.get(n) is not None and options[n] != "auto"]
    if method == "sampled" or (method == "auto" and any(n in ASKING for n in asked)):
        return sampled_geometry(make, input_shape, **options)
    if method == "closed-form":
        if asked:
            raise NetgrainError(f"{asked[0]}= belongs to sampling; leave it out, or use method='sampled'.")
        return closed_form(make, input_shape, **{k: v for k, v in options.items() if k in SHARED})
    try:
        G = closed_form_geometry(
            make, checked_shape(input_shape), narrowest=NARROW, **{k: v for k, v in options.items() if k in SHARED}
        )
    except Unsupported as e:
        G = sampled_geometry(make, input_shape, **options)
        return replace(G, about=replace(G.about, notes=(*G.about.notes, f"sampled because {e}")))
    return G


def closed_form(make: Make, input_shape: Sequence[int], **options: Any) -> Geometry:
    """The closed form, or one sentence that names the layer without one and the way out."""
    try:
        return closed_form_geometry(make, checked_shape(input_shape), **options)
    except Unsupported as e:
        raise NetgrainError(f"there is no closed form: {e}; use method='sampled' (or 'auto').") from e
