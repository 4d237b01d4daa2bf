"""The front door: the average geometry of a family, by the best method that applies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch

from netgrain.families.failures import SHAPE_ADVICE
from netgrain.families.gradients import check_differentiable, gradients
from netgrain.families.members import Family, member, model_dtype
from netgrain.families.outputs import checked_output
from netgrain.families.probes import checked_probe
from netgrain.families.trace import Unsupported
from netgrain.geometry.closed import closed_form_geometry
from netgrain.geometry.options import check_counts, check_places
from netgrain.geometry.pilot import Pilot, decisive, not_shown
from netgrain.geometry.sampled import DEFAULT_TOLERANCE, sampled_geometry
from netgrain.geometry.value import Geometry
from netgrain.runtime.arguments import checked_shape, whole
from netgrain.runtime.devices import checked_device
from netgrain.runtime.errors import NetgrainError
from netgrain.runtime.memory import shortage

METHODS = ("auto", "closed-form", "sampled")
SHARED = ("probe", "output", "seed", "probes", "tolerance", "progress")  # options of both methods
ASKING = ("members", "first_layer", "keep")  # of sampling alone: giving one asks for it
# where to sample, if sampling it is: of no consequence for the result. A closed form is computed on the CPU.
WHERE = ("engine", "workers", "chunk", "device", "vmapped")
NARROW = 4  # channels below which a wide limit is not taken without being asked for


def average_geometry(make: Family, input_shape: Sequence[int], *, method: str = "auto", **options: Any) -> Geometry:
    """G = E_θ E_x[J(x)ᵀJ(x)], J = ∇ₓf, over fresh members of a family of networks.

    make: any callable that returns a fresh torch.nn.Module; input_shape: without the batch, as in (1, 32, 32).
    method: "closed-form" propagates second moments through the traced module (milliseconds, no network is sampled);
    "sampled" averages over members; "auto" takes the closed form where every layer has one and nothing is left out (or
    a few dozen members show that what is left out is below the tolerance), else samples and says why in
    `G.about.notes`. Asking for members= is asking for sampling. With method="closed-form" and a probe away from the
    origin, keep= asks for that many leading directions by products with vectors, for inputs of any size.

    Options of both: probe=None (the origin, or its σ → 0 limit at a kink), seed=0, output="all" (sum over outputs; an
    index from 0, "mean" or ("diff", i, j)), probes= (points), tolerance=, progress=None. Of sampling: members=,
    first_layer="auto", keep=64, engine=None, workers=None, chunk=None, device=None, vmapped=None: see
    `netgrain.geometry.sampled.sampled_geometry`. A closed form is computed on the CPU, whatever the device.

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
    shape = checked_shape(input_shape)
    _check_options(options, shape)
    asked = [n for n in (*ASKING, *WHERE) if n != "device" and options.get(n) is not None and options[n] != "auto"]
    if method == "sampled" or (method == "auto" and any(n in ASKING for n in asked)):
        return sampled_geometry(make, shape, **options)
    if method == "closed-form":
        if asked := [n for n in asked if n != "keep"]:
            raise NetgrainError(f"{asked[0]}= belongs to sampling; leave it out, or use method='sampled'.")
        return closed_form(make, shape, **{k: v for k, v in options.items() if k in (*SHARED, "keep")})
    try:
        G = _propagated(make, shape, narrowest=NARROW, **{k: v for k, v in options.items() if k in SHARED})
    except Unsupported as e:
        why = str(e)
    else:
        if not G.about.leaves_out:
            return G
        tolerance = DEFAULT_TOLERANCE if options.get("tolerance") is None else options["tolerance"]
        seen = decisive(Pilot.of(make, shape, options).agreements(lambda _: G.form), tolerance)
        if seen.within(tolerance):
            note = f"within the tolerance {tolerance:g}, as {seen.members} sampled members show{seen.remarks}"
            return replace(G, about=replace(G.about, notes=(*G.about.notes, note)))
        left = "; ".join(G.about.leaves_out)
        why = f"the closed form leaves something out ({left}) and {not_shown(seen, tolerance)}"
    G = sampled_geometry(make, shape, **options)
    return replace(G, about=replace(G.about, notes=(*G.about.notes, f"sampled because {why}")))


def closed_form(make: Family, input_shape: Sequence[int], **options: Any) -> Geometry:
    """The closed form, or one sentence that names the layer without one and the way out."""
    shape = checked_shape(input_shape)
    _check_options(options, shape)
    try:
        return _propagated(make, shape, **options)
    except Unsupported as e:
        # what is wrong with the model itself comes first
        _check_member(make, shape, options)
        raise NetgrainError(f"there is no closed form: {e}; use method='sampled' (or 'auto').") from e


# --- checks -------------------------------------------------------------------------------------------------------


def _check_options(options: dict[str, Any], shape: tuple[int, ...]) -> None:
    """Refuse arguments that are wrong for any method, before either starts; numbers become plain ones."""
    members, seed = check_counts(
        options.get("members"),
        options.get("tolerance"),
        options.get("probes"),
        options.get("first_layer", "auto"),
        options.get("seed", 0),
    )
    options["seed"], options["output"] = seed, checked_output(options.get("output", "all"))
    if members is not None:
        options["members"] = members
    if options.get("keep") is not None:
        options["keep"] = whole("keep", options["keep"], 1)
    check_places(*(options.get(name) for name in ("engine", "workers", "chunk", "vmapped", "progress")))
    checked_probe(options.get("probe"), shape)
    if options.get("device") is not None:
        checked_device(options["device"])


def _propagated(make: Family, shape: tuple[int, ...], **options: Any) -> Geometry:
    """The closed form; memory that runs out in a rule is told as that, not as a missing rule, and NaN as NaN."""
    try:
        G = closed_form_geometry(make, shape, **options)
    except (Unsupported, RuntimeError, MemoryError) as e:
        cause: BaseException | None = e
        while cause is not None:
            if short := shortage(cause):
                raise NetgrainError(short) from e
            cause = cause.__cause__
        raise
    # float32 ends at 3e38: beyond a part of it the networks themselves may overflow
    if not G.trace.value < 1e30:
        _check_member(make, shape, options)
        raise Unsupported(f"its second moments reach {G.trace.value:g}")
    return G


def _check_member(make: Family, shape: tuple[int, ...], options: dict[str, Any]) -> None:
    """One member as sampling would have it: it runs, its outputs depend on x and are finite."""
    model = member(make, options["seed"], 0)
    x = torch.randn(2, *shape, generator=torch.Generator().manual_seed(0)).to(model_dtype(model))
    check_differentiable(model, x, options["output"], advice=SHAPE_ADVICE)
    gradients(model, x, options["output"])
