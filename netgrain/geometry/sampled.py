"""Any module → Geometry by sampling members, with error bars; the first layer integrated where that is exact."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from netgrain.families.failures import ADVICE, NotFinite, unwrapped_model
from netgrain.families.gradients import check_deterministic, check_differentiable, gradients
from netgrain.families.members import Family, check_weights, frozen, member, model_dtype, without_gradients
from netgrain.families.origin import Resolved, probe_used
from netgrain.families.outputs import Output, checked_output, describe_output
from netgrain.families.probes import Data, Gaussian, Origin, Probe, checked_probe
from netgrain.families.side_by_side import rows_of_members, why_not_side_by_side
from netgrain.geometry.agreement import POINTS, STAGES, Agreement, agreement
from netgrain.geometry.correlation import fidelity
from netgrain.geometry.first_layer import CannotIntegrate, FirstLayer, find_first_layer
from netgrain.geometry.forms import DENSE_LIMIT, Form
from netgrain.geometry.provenance import Provenance
from netgrain.geometry.random_head import RandomHead, find_random_head
from netgrain.geometry.reduction import Reduction
from netgrain.geometry.value import Geometry
from netgrain.runtime.arguments import checked_shape, found, number, switch, whole
from netgrain.runtime.devices import best_device, checked_device
from netgrain.runtime.engines import engine_for
from netgrain.runtime.errors import GrainWarning, NetgrainError
from netgrain.runtime.progress import Bar
from netgrain.runtime.randomness import derived_seed
from netgrain.runtime.streams import MemberStream
from netgrain.runtime.threads import one_thread
from netgrain.runtime.units import Engine, Outcome

DEFAULT_TOLERANCE = 0.01
MOST_MEMBERS = 10_000
SKETCH_MEMBERS = 256
PROBES = 8  # Gaussian points per member: beyond this, more members help more than more points
DATA_PROBES = 16  # samples per member, for the same reason
MOST_PILOTED = 16_384  # inputs up to which first-layer integration away from the origin is tried on members
CHUNK = 4  # members of a unit of work
CHUNK_VMAPPED = 32  # of one that computes them in one pass
SHAPE_ADVICE = "pass the input shape it expects"


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
    _check_family(make, model, seed)
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
    count = probe_count(resolved.probe, probes)
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


@one_thread()
def geometry_of(
    models: nn.Module | Sequence[nn.Module],
    probe: Probe,
    *,
    input_shape: Sequence[int] | None = None,
    output: Output = "all",
    probes: int | None = None,
    seed: int = 0,
    keep: int = 64,
    progress: bool | None = None,
) -> Geometry:
    """G of given (trained) members: the mean of J(x)ᵀJ(x) over the models and the probe's points.

    With Data(X) all samples are used. The models are left as they are found; they must be in eval mode.

    >>> import torch
    >>> net = torch.nn.Linear(2, 1)
    >>> _ = net.weight.data.copy_(torch.tensor([[1.0, 2.0]]))
    >>> geometry_of(net, Data(torch.zeros(3, 2))).matrix().tolist()
    [[1.0, 2.0], [2.0, 4.0]]
    """
    listed = listed_models(models)
    checked_probe(probe)
    if probe is None:
        raise NetgrainError("probe expects Origin(), Gaussian(σ) or Data(X), found None; pass one of them.")
    if input_shape is None:
        if not isinstance(probe, Data):
            raise NetgrainError("expected input_shape=, as in (3, 32, 32): only a Data probe knows its own.")
        input_shape = tuple(probe.X.shape[1:])
    shape = checked_shape(input_shape)
    checked_probe(probe, shape)
    seed = check_counts(None, None, probes, "never", seed)[1]
    output, keep = checked_output(output), whole("keep", keep, 1)
    switch("progress", progress)
    count = probes or (len(probe.X) if isinstance(probe, Data) else probe_count(probe, None))
    reduction = Reduction(math.prod(shape), 1 / len(probe.points(shape, count, 0)), lambda f: f, keep=keep)
    zero = 0
    note = ""
    with Bar("geometry of models", len(listed), progress) as bar:
        for i, model in enumerate(listed):
            _check_given(model, i)
            resolved = Resolved(probe, probe.describe())
            if isinstance(probe, Origin):
                resolved = probe_used(probe, _frozen_copy(model), shape, output)
                note = note or resolved.note
            points = resolved.probe.points(shape, count, derived_seed(seed, "probe", i)).to(
                _place(model), model_dtype(model)
            )
            call = frozen(model)
            check_differentiable(call, points[:1], output, advice=ADVICE if isinstance(probe, Data) else SHAPE_ADVICE)
            if i == 0:
                check_deterministic(call, points[:3] if len(points) > 1 else points)
            nonzero = False
            reduction.start_member()
            # points in slices, so that a data set of any size passes through bounded memory
            for piece in points.split(256):
                rows = gradients(call, piece, output).flatten(1).float().cpu()
                _check_rows(rows, f"model {i}")
                nonzero = nonzero or bool(rows.any())
                reduction.extend(rows)
            zero += not nonzero
            bar.advance()
    about = Provenance(
        "sampled",
        model=", ".join(sorted({type(unwrapped_model(m)).__name__ for m in listed})),
        probe=resolved.text,
        output=describe_output(output),
        seed=seed,
        members=len(listed),
        integration="given members",
        zero_share=zero / len(listed),
        notes=(note,) if note else (),
    )
    form, full_trace = reduction.finish()
    return Geometry(form, shape, about, 0.0, full_trace)


# --- members ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Rows:
    """What members are asked for: gradient rows (rows, size) in float32, and whether all of them are zero."""

    make: Family
    seed: int
    shape: tuple[int, ...]
    probe: Probe
    count: int  # points of each member
    output: Output
    plan: FirstLayer | None
    device: torch.device
    head: RandomHead | None = None

    def one(self, i: int) -> Outcome:
        model = member(self.make, self.seed, i, self.device)
        points = self._points(i).to(self.device, model_dtype(model))
        if self.head is not None:
            call = self.head.on(model, derived_seed(self.seed, "head", i))
            rows = gradients(call, points) if self.plan is None else self.plan.rows(model, points, "all", call)
            return self._outcome(i, rows.flatten(1))
        if self.plan is None:
            return self._outcome(i, gradients(model, points, self.output).flatten(1))
        return self._outcome(i, self.plan.rows(model, points, self.output))

    def one_by_one(self, members: range) -> list[Outcome]:
        return [self.one(i) for i in members]

    def side_by_side(self, members: range) -> list[Outcome]:
        """Several members in one pass."""
        models = [member(self.make, self.seed, i, self.device) for i in members]
        points = torch.stack([self._points(i) for i in members]).to(self.device, model_dtype(models[0]))
        if self.plan is None:
            found = rows_of_members(models, points, self.output)
        else:
            found = self.plan.rows_of_members(models, points, self.output)
        return [self._outcome(i, rows) for i, rows in zip(members, found, strict=True)]

    def why_one_by_one(self) -> str | None:
        """None if members may run side by side."""
        if self.head is not None:
            return "each has a random vector in the place of its last layer"
        models = [member(self.make, self.seed, i, self.device) for i in range(2)]
        points = torch.stack([self._points(i)[:1] for i in range(2)]).to(self.device, model_dtype(models[0]))
        return why_not_side_by_side(models, points, self.output, at=None if self.plan is None else self.plan.name)

    def _points(self, i: int) -> Tensor:
        return self.probe.points(self.shape, self.count, derived_seed(self.seed, "probe", i))

    @staticmethod
    def _outcome(i: int, rows: Tensor) -> Outcome:
        rows = rows.float().cpu()
        _check_rows(rows, f"member {i}")
        return Outcome({"zero": not bool(rows.any())}, {"rows": rows})


@dataclass(frozen=True, eq=False)
class Pilot:
    """A few dozen members, sampled plainly, that judge whether an estimate is good enough."""

    make: Family
    seed: int
    shape: tuple[int, ...]
    probe: Probe
    output: Output
    device: torch.device
    head: RandomHead | None
    progress: bool | None = None

    @classmethod
    def of(cls, make: Family, shape: tuple[int, ...], options: Mapping[str, Any]) -> Pilot:
        """Other members than those that a closed form may have observed; options: those of `sampled_geometry`."""
        seed, output = options.get("seed", 0) + 1, options.get("output", "all")
        device = best_device() if options.get("device") is None else checked_device(options["device"])
        model = member(make, seed, 0)
        found = find_random_head(make, model, shape, seed=seed, output=output)
        place = probe_used(options.get("probe"), model, shape, output).probe
        head = found if isinstance(found, RandomHead) else None
        return cls(make, seed, shape, place, output, device, head, options.get("progress"))

    def agreements(self, estimate: Callable[[int], Form]) -> Iterator[Agreement]:
        """The comparison after 24, 48 and 96 members; estimate: what to compare with, given that number."""
        rows = self._rows(None)
        collected = self._reduction(None)
        centre = self.probe.X.double().mean(0) if isinstance(self.probe, Data) else None
        with Bar("comparing with sampled members", STAGES[-1], self.progress) as bar:
            for start, stop in pairwise((0, *STAGES)):
                for i in range(start, stop):
                    collected.add(rows.one(i).arrays["rows"])
                    bar.advance()
                yield agreement(estimate(stop), collected.form(), centre=centre)

    def judged(self, plan: FirstLayer, tolerance: float) -> Agreement:
        """What members say about integrating the first layer away from the origin."""
        rows, collected = self._rows(plan), self._reduction(plan)

        def integrated(members: int) -> Form:
            for i in range(collected.members, members):
                collected.add(rows.one(STAGES[-1] + i).arrays["rows"])  # other members than those that judge
            return collected.form()

        return decisive(self.agreements(integrated), tolerance)

    def _rows(self, plan: FirstLayer | None) -> Rows:
        return Rows(self.make, self.seed, self.shape, self.probe, POINTS, self.output, plan, self.device, self.head)

    def _reduction(self, plan: FirstLayer | None) -> Reduction:
        points = len(self.probe.points(self.shape, POINTS, 0))
        if plan is None:
            return Reduction(math.prod(self.shape), 1 / points, lambda form: form, rows_memory=2**40)
        return Reduction(plan.positions, plan.scale / points, plan.form)


def decisive(agreements: Iterator[Agreement], tolerance: float) -> Agreement:
    """The first comparison that decides about the tolerance, or the last one."""
    for seen in agreements:
        if seen.within(tolerance) or seen.outside(tolerance):
            break
    return seen


def not_shown(seen: Agreement, tolerance: float) -> str:
    return f"{seen.members} members do not show the tolerance {tolerance:g} to be met ({seen.text})"


def _check_rows(rows: Tensor, who: str) -> None:
    if not bool(torch.isfinite(rows).all()):
        raise NetgrainError(
            f"the input gradient of {who} has NaN or Inf; look for a division by zero or an overflow in it."
        )


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
    except (CannotIntegrate, NotFinite) as e:  # it was also looked at away from the origin
        if first_layer == "always":
            raise NetgrainError(f"the first layer cannot be integrated: {e}; use first_layer='auto'.") from e
        return None, f"plain sampling: {e}"
    if not isinstance(resolved.probe, Origin | Gaussian):
        plan = replace(plan, exchangeable=False, transposed=None)  # the points themselves tell positions apart
    kind = "exactly" if resolved.at_origin else "approximately: the probe is not the origin"
    symmetry = ", tokens exchanged" if plan.exchangeable and plan.positions > 1 else ""
    symmetry += ", images transposed" if plan.transposed is not None else ""
    return plan, f"first layer integrated {kind} ('{plan.name}', {plan.law.name}{symmetry})"


def _schedule(members: int | None) -> list[int]:
    """Where to stop and look: once at the end, or at growing sizes when a tolerance decides."""
    if members is not None:
        return [members]
    stops = [8]
    while stops[-1] < MOST_MEMBERS:
        stops.append(min(MOST_MEMBERS, math.ceil(stops[-1] * 1.5)))
    return stops


# --- checks -------------------------------------------------------------------------------------------------------


def check_counts(
    members: int | None, tolerance: float | None, probes: int | None, first_layer: str, seed: int = 0
) -> tuple[int | None, int]:
    """Refuse numbers that are none; members and seed as plain numbers."""
    if members is not None and tolerance is not None:
        raise NetgrainError("expected members= or tolerance=, found both; keep one.")
    if members is not None and (members := whole("members", members)) < 1:
        raise NetgrainError(f"expected at least one member, found {members}.")
    if tolerance is not None and not 0 < number("tolerance", tolerance) < 1:
        raise NetgrainError(f"expected a tolerance between 0 and 1 (0.01 asks for Corr 0.99), found {tolerance}.")
    if probes is not None and whole("probes", probes) < 1:
        raise NetgrainError(f"expected at least one probe point per member, found {probes}.")
    if first_layer not in ("auto", "never", "always"):
        raise NetgrainError(f"first_layer expects 'auto', 'never' or 'always', found {found(first_layer)}.")
    return members, whole("seed", seed)


def check_places(engine: object, workers: object, chunk: object, vmapped: object, progress: object) -> None:
    """Refuse what is no engine, no number of workers, no switch."""
    if engine is not None and not isinstance(engine, str) and not hasattr(engine, "run"):
        raise NetgrainError(f"engine expects a name such as 'processes', or an engine, found {found(engine)}.")
    if workers is not None:
        whole("workers", workers)  # how many it may be, engines say
    if chunk is not None:
        whole("chunk", chunk, 1)
    switch("vmapped", vmapped)
    switch("progress", progress)


def listed_models(models: object) -> list[nn.Module]:
    """One or more given models as a list; else a sentence."""
    if isinstance(models, nn.Module):
        return [models]
    wanted = "models expects a torch.nn.Module or a list of them"
    if isinstance(models, type) or (callable(models) and not hasattr(models, "__iter__")):
        raise NetgrainError(
            f"{wanted}, found {found(models)}; call it to get a model, or use average_geometry for the whole family."
        )
    if isinstance(models, str | bytes | dict | Tensor) or not hasattr(models, "__iter__"):
        raise NetgrainError(f"{wanted}, found {found(models)}.")
    listed = list(models)
    if not listed:
        raise NetgrainError("expected at least one model, found none.")
    for i, model in enumerate(listed):
        if not isinstance(model, nn.Module):
            raise NetgrainError(f"expected torch.nn.Module members, found {type(model).__name__} at index {i}.")
    return listed


def probe_count(probe: Probe, probes: int | None) -> int:
    if probes is not None:
        return probes
    return DATA_PROBES if isinstance(probe, Data) else PROBES


def _check_family(make: Family, first: nn.Module, seed: int) -> None:
    """Members must be a function of the seed, and differ from each other."""
    again, other = member(make, seed, 0), member(make, seed, 1)

    def same(a: nn.Module, b: nn.Module) -> bool:
        pairs = zip(a.parameters(), b.parameters(), strict=False)
        return all(p.shape == q.shape and torch.equal(p, q) for p, q in pairs)

    if other is first or again is first:
        raise NetgrainError(
            "the family returned the same module twice; expected a fresh one on every call. "
            "For one given model use geometry_of(model, probe)."
        )
    if same(first, other):
        raise NetgrainError(
            "two members have equal weights; average_geometry averages over random initialisation. "
            "For one given model use geometry_of(model, probe)."
        )
    if not same(first, again):
        warnings.warn(
            "the family's weights do not follow torch's global seed, so this result cannot be repeated exactly.",
            GrainWarning,
            stacklevel=4,
        )


def _check_given(model: nn.Module, i: int) -> None:
    check_weights(model, f"model {i}")
    batch = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm)
    for name, module in model.named_modules():
        if isinstance(module, batch) and module.training:
            raise NetgrainError(
                f"batch norm '{name}' of model {i} is in train mode, where samples see each other; "
                "call model.eval() first."
            )


def _frozen_copy(model: nn.Module) -> nn.Module:
    import copy

    model = unwrapped_model(model)
    # a copy of a scripted module cannot be frozen; it is only looked at, so it may be the model itself
    return model if isinstance(model, torch.jit.ScriptModule) else without_gradients(copy.deepcopy(model))


def _place(model: nn.Module) -> torch.device:
    return next(model.parameters()).device


def family_name(make: Family, model: nn.Module) -> str:
    """How the family is called in tables: the class, and the options of a partial."""
    spec = getattr(make, "name", None)
    if isinstance(spec, str):
        return spec
    options = getattr(make, "keywords", None) or {}
    inside = ", ".join(f"{k}={getattr(v, '__name__', v)}" for k, v in options.items())
    return f"{type(model).__name__}({inside})" if inside else type(model).__name__
