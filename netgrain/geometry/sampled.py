"""Any module → Geometry by sampling members, with error bars; the first layer integrated where that is exact."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace

import torch
from torch import nn

from netgrain.families.failures import SHAPE_ADVICE
from netgrain.families.gradients import check_deterministic, check_differentiable
from netgrain.families.members import (
    Family,
    check_family,
    family_name,
    member,
    model_dtype,
)
from netgrain.families.origin import Resolved, probe_used
from netgrain.families.outputs import Output, checked_output, describe_output
from netgrain.families.probes import Gaussian, Origin, Probe, checked_probe
from netgrain.geometry.correlation import fidelity
from netgrain.geometry.first_layer import CannotIntegrate, FirstLayer, find_first_layer
from netgrain.geometry.forms import DENSE_LIMIT, Form
from netgrain.geometry.gradient_rows import Rows
from netgrain.geometry.options import check_counts, check_places, points_per_member
from netgrain.geometry.pilot import Pilot, not_shown
from netgrain.geometry.provenance import Provenance
from netgrain.geometry.random_head import RandomHead, find_random_head
from netgrain.geometry.reduction import Reduction
from netgrain.geometry.value import Geometry
from netgrain.runtime.arguments import checked_shape, whole
from netgrain.runtime.devices import best_device, checked_device
from netgrain.runtime.engines import engine_for
from netgrain.runtime.errors import GrainWarning, NetgrainError
from netgrain.runtime.progress import Bar
from netgrain.runtime.streams import MemberStream
from netgrain.runtime.threads import one_thread
from netgrain.runtime.units import Engine

DEFAULT_TOLERANCE = 0.01
MOST_MEMBERS = 10_000
SKETCH_MEMBERS = 256
MOST_PILOTED = 16_384  # inputs up to which first-layer integration away from the origin is tried on members
CHUNK = 4  # members of a unit of work
CHUNK_VMAPPED = 32  # of one that computes them in one pass


@one_thread()
def sampled_geometry(
    make: Family,
    input_shape: Sequence[int],
    *,
    probe: Probe | None = None,
    members: int | None = None,
    tolerance: float | None = None,
    seed: int = 0,
    output: Output = "all",
    first_layer: str = "auto",
    last_layer: str = "auto",
    probes: int | None = None,
    keep: int = 64,
    engine: Engine | str | None = None,
    workers: int | None = None,
    chunk: int | None = None,
    device: torch.device | str | None = None,
    vmapped: bool | None = None,
    progress: bool | None = None,
) -> Geometry:
    """G = E_θ E_x[J(x)ᵀJ(x)] from fresh members of a family.

    members: how many networks; or tolerance: stop when the expected Corr with the true G reaches 1 − tolerance
    (default 0.01). first_layer: "auto" integrates it where that is exact, and away from the origin, with a tolerance,
    where a few dozen members show it to be within that; "never" samples it, "always" integrates it also where it is
    only nearly exact. last_layer: "auto" replaces its outputs by a random vector at its input where that is exact
    (and the first layer is not asked for); "never" does not. probes: points per member. keep: directions to keep when
    the input is too large for anything but a sketch. engine: where members are computed ("processes", "ray", …; None:
    decided by the work), workers: how many at a time. device: default a GPU where there is one. The result depends on
    the seed, not on engine, workers or chunk. vmapped: members of a chunk side by side in one pass, by default on a
    GPU; the result is the same up to rounding.
    """
    shape = checked_shape(input_shape)
    members, seed = check_counts(members, tolerance, probes, first_layer, seed)
    output, keep = checked_output(output), whole("keep", keep, 1)
    check_places(engine, workers, chunk, vmapped, progress)
    checked_probe(probe, shape)
    dev = best_device() if device is None else checked_device(device)
    via = engine_for(engine, workers, dev)
    model = member(make, seed, 0)
    name = family_name(make, model)
    check_family(make, model, seed)
    x = torch.randn(3, *shape, generator=torch.Generator().manual_seed(0)).to(model_dtype(model))
    check_differentiable(model, x, output, advice=SHAPE_ADVICE)
    check_deterministic(model, x)
    resolved = probe_used(probe, model, shape, output)

    head = None
    if first_layer == last_layer == "auto" and not resolved.at_origin:
        ending = find_random_head(make, model, shape, seed=seed, output=output)
        head = ending if isinstance(ending, RandomHead) else None
    goal = None if members is not None else (DEFAULT_TOLERANCE if tolerance is None else tolerance)
    piloted = goal is not None and math.prod(shape) <= MOST_PILOTED
    plan, integration = _plan(make, model, shape, resolved, first_layer, piloted, seed=seed, output=output)
    if goal is not None and plan is not None and not resolved.at_origin and first_layer == "auto":
        pilot = Pilot(make, seed, shape, resolved.probe, output, dev, head, progress)
        seen = pilot.judged(plan, goal)
        if seen.within(goal):
            integration += f", within the tolerance as {seen.members} sampled members show{seen.remarks}"
        else:
            plan, integration = None, f"plain sampling: {not_shown(seen, goal)}"
    if head is not None:
        integration += f"; last layer integrated ('{head.name}')"
    count = points_per_member(resolved.probe, probes)
    asked = Rows(make, seed, shape, resolved.probe, count, output, plan, dev, head)
    notes = [resolved.note] if resolved.note else []
    task, several = asked.one_by_one, CHUNK
    if dev.type != "cpu" if vmapped is None else vmapped:
        if (why_not := asked.why_one_by_one()) is None:
            task, several = asked.side_by_side, CHUNK_VMAPPED
        else:
            notes.append(f"members one by one: {why_not}")
    points = len(resolved.probe.points(shape, count, 0))
    scale = (1.0 if plan is None else plan.scale) / points
    as_form: Callable[[Form], Form] = (lambda f: f) if plan is None else plan.form
    size = math.prod(shape) if plan is None else plan.positions
    too_large = plan is not None and plan.stem is not None and plan.stem.size > DENSE_LIMIT
    reduction = Reduction(size, scale, as_form, keep=keep, sketch=too_large)
    zero = 0
    # what tells these members from those of another call, where units are kept in one folder
    kept_as = {"model": name, "seed": seed, "shape": shape, "probe": resolved.text, "output": describe_output(output)}
    how = {"points": count, "first layer": integration}
    stream_of = MemberStream(task, via, several if chunk is None else chunk, {"geometry": {**kept_as, **how}})
    with Bar(f"sampling {name}", members, progress) as bar:
        total = 0
        for target in _schedule(members):
            for sample in stream_of.map(range(total, target), remaining=(members or 0) - total):
                reduction.add(sample.arrays["rows"])
                zero += sample.numbers["zero"]
                bar.advance()
            total = target
            if goal is None:
                continue
            if reduction.sketching:
                if total >= SKETCH_MEMBERS:
                    notes.append(f"a tolerance cannot be measured on a sketch: stopped after {total} members")
                    break
                continue
            reached = fidelity(reduction.form())
            bar.advance(0, note=f"Corr with the truth about {reached:.3f}")
            if reached >= 1 - goal or zero == total:
                break
        else:
            if goal is not None:
                notes.append(f"the tolerance {goal:g} was not reached with {total} members")
                warnings.warn(f"{name}: {notes[-1]}.", GrainWarning, stacklevel=3)
    if zero == total:
        notes.append("every member has a zero input gradient, so G = 0")
        warnings.warn(
            f"{name}: the input gradient is exactly zero for all {total} members (a zero-initialised last layer?), "
            "so G = 0; probe the features below it or a trained checkpoint.",
            GrainWarning,
            stacklevel=3,
        )
    about = Provenance(
        "sampled",
        model=name,
        probe=resolved.text,
        output=describe_output(output),
        seed=seed,
        members=total,
        integration=integration,
        zero_share=zero / total,
        notes=tuple(notes),
    )
    form, full_trace = reduction.finish()
    return Geometry(form, shape, about, 0.0 if plan is None else plan.law.error, full_trace)


# --- members ------------------------------------------------------------------------------------------------------


def _plan(
    make: Family,
    model: nn.Module,
    shape: tuple[int, ...],
    resolved: Resolved,
    first_layer: str,
    piloted: bool,
    *,
    seed: int,
    output: Output,
) -> tuple[FirstLayer | None, str]:
    """Integrate the first layer, or say why not; piloted: away from the origin members will judge it."""
    if first_layer == "never":
        return None, "plain sampling (asked for)"
    if not resolved.at_origin and first_layer == "auto" and not piloted:
        return None, "plain sampling: away from the origin the forward pass depends on the first layer"
    try:
        plan = find_first_layer(make, model, shape, seed=seed, output=output)
    except CannotIntegrate as e:
        if first_layer == "always":
            raise NetgrainError(f"the first layer cannot be integrated: {e}; use first_layer='auto'.") from e
        return None, f"plain sampling: {e}"
    if not isinstance(resolved.probe, Origin | Gaussian):
        plan = replace(plan, exchangeable=False, transposed=None)  # the points themselves tell positions apart
    kind = "exactly" if resolved.at_origin else "approximately: the probe is not the origin"
    symmetry = ", tokens exchanged" if plan.exchangeable and plan.positions > 1 else ""
    symmetry += ", images transposed" if plan.transposed is not None else ""
    return plan, f"first layer integrated {kind} ('{plan.name}', {plan.law.text}{symmetry})"


def _schedule(members: int | None) -> list[int]:
    """Where to stop and look: once at the end, or at growing sizes when a tolerance decides."""
    if members is not None:
        return [members]
    stops = [8]
    while stops[-1] < MOST_MEMBERS:
        stops.append(min(MOST_MEMBERS, math.ceil(stops[-1] * 1.5)))
    return stops


# --- checks -------------------------------------------------------------------------------------------------------
