"""Any module → Geometry by sampling members, with error bars; the first layer integrated where that is exact."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from torch import Tensor, nn

from netgrain.families.failures import SHAPE_ADVICE
from netgrain.families.gradients import POINTS_AT_ONCE, check_deterministic, check_differentiable
from netgrain.families.members import Family, check_family, family_name
from netgrain.families.origin import Resolved
from netgrain.families.probes import Gaussian, Origin
from netgrain.families.reading import Reading
from netgrain.families.reasons import Reason
from netgrain.families.sizes import bytes_of_a_point, lattices, operations, strides_behind
from netgrain.geometry.cells import Partition
from netgrain.geometry.collecting import CHUNK, about_sample, collect, kept_as, schedule
from netgrain.geometry.first_layer import FirstLayer, first_layer_of
from netgrain.geometry.gradient_rows import Rows, random_inputs
from netgrain.geometry.options import KEEP, Options, points_per_member
from netgrain.geometry.pilot import Pilot, not_shown
from netgrain.geometry.provenance import ASKED_FOR, Integration, Provenance
from netgrain.geometry.random_head import RandomHead, random_head_of, random_outputs
from netgrain.geometry.reduction import Reduction
from netgrain.geometry.spectrum import FULL_LIMIT
from netgrain.geometry.stem_bias import STAGES, StemBias, StemRows, stem_bias
from netgrain.geometry.streamed import StreamedReduction
from netgrain.geometry.structured_forms import Kronecker
from netgrain.geometry.value import Geometry
from netgrain.runtime.engines import engine_for
from netgrain.runtime.errors import GrainWarning, NetgrainError
from netgrain.runtime.memory import budget
from netgrain.runtime.processes import Processes, most_workers
from netgrain.runtime.progress import Bar
from netgrain.runtime.streams import AHEAD, MemberStream
from netgrain.runtime.threads import one_thread
from netgrain.runtime.units import Engine, Outcome

MOST_PILOTED = FULL_LIMIT  # inputs up to which plainly sampled members judge an integrated first layer
PASS_SHARE = 4  # of the memory budget, one part in so many is for the pass of a member
ROWS_SHARE = 3  # of the memory budget, one part in so many is for rows
LARGE_AHEAD = 2  # units per worker of a large input that may be finished before their turn
FEWEST_KEPT = 12  # members of a large input that are sampled even if their rows do not fit
LARGE_START = 4  # members of a large input after which to look for the first time
MANY_OUTPUTS = 16  # outputs above which one random vector stands for them, also at the origin
WORK = 6e12  # floating-point operations spent on the default tolerance: about two minutes of one core
LONG = 1e10  # operations of a member of a large input from which its members run on all cores: a quarter of a second
PER_WEIGHT, PER_TENSOR = 360, 8e6  # the work of drawing one weight and of making one tensor, in operations
COARSER, CELLS = 4, 2  # cells are so many strides of the first pool wide, and so many sizes of them are tried
CHUNK_VMAPPED = 32  # members of a unit that computes them in one pass


@one_thread()
def sampled(reading: Reading, asked: Options) -> Geometry:
    """Average input geometry of a family, from sampled members."""
    shape, device = asked.shape, asked.place
    via = engine_for(asked.engine, asked.workers, device)
    make, model = reading.make, reading.member
    large = math.prod(shape) > FULL_LIMIT
    _, outputs = check_member(make, model, asked, SHAPE_ADVICE, few=2 if large else 3, other=reading.model)
    resolved = reading.probe_used(asked.probe, asked.output)
    count = points_per_member(resolved.probe, asked.probes, large=large)
    if via is None and large and _is_long(reading, count) and most_workers() > 1:
        via = Processes()
    ends = _ends(reading, asked, resolved, outputs)
    rows = Rows(
        *(make, asked.seed, shape, resolved.probe, count, asked.output, ends.plan, device, ends.head),
        at_once=_points_at_once(reading, count) if large else POINTS_AT_ONCE,
    )
    known: list[Outcome] = []
    if ends.to_judge:
        ends, known = _judged_stem(ends, rows, outputs, via, asked)
        rows = replace(rows, plan=ends.plan)
    points = len(rows.points(0))
    task, several, remark = _task(rows, asked)
    about = replace(
        about_sample(family_name(make, model), asked, resolved, points),
        integration=ends.integration,
        last_layer=None if ends.head is None or not ends.head.name else Integration("last layer", ends.head.name),
        remarks=remark,
    )
    how = {"points": count, "first layer": about.averaged}
    chunk = asked.chunk or (1 if large else several)  # members of large inputs send many rows
    ahead = LARGE_AHEAD if large else AHEAD
    stream = MemberStream(task, via, chunk, {"geometry": {**kept_as(about, asked, resolved), **how}}, ahead, known)
    keep = KEEP if asked.keep is None else asked.keep
    reduction = (
        _streamed(reading, rows, points, keep, ends.bias, asked.goal) if large else _reduction(rows, points, keep)
    )

    def take(sample: Outcome) -> bool:
        reduction.add(sample.arrays["rows"])
        return bool(sample.numbers["zero"])

    def corr(zero: int) -> float | None:
        return 1.0 if zero == reduction.members else reduction.corr()

    bar = Bar(f"sampling {about.model}", asked.members, asked.progress)
    stops = schedule(asked.members)
    if large and asked.members is None:
        if not known:  # how large a member is tells how many fit
            known = list(stream.map(range(LARGE_START), LARGE_START))
            stream.known = known
        affordable = _most_members(reading, count) if asked.tolerance is None else None
        stops = schedule(None, first=LARGE_START, most=_within_memory(affordable, known))
    give_up = large and asked.tolerance is None
    about = collect(stream, about, take, corr, stops=stops, tolerance=asked.goal, bar=bar, give_up=give_up)
    form, full_trace = reduction.finish()
    full_rank = None
    if isinstance(reduction, StreamedReduction):
        chosen, full_rank = reduction.best(), reduction.full_rank
        kept = full_rank is None or asked.goal is None or chosen.corr >= 1 - asked.goal
        about = replace(about, expected=chosen.corr, projection=chosen.projection, reached=about.reached and kept)
    about = replace(about, remarks=(*about.remarks, *_remarks(about)))
    error = 0.0 if ends.plan is None or ends.plan.by_symmetry else ends.plan.law.error
    error = error if ends.bias is None else math.hypot(error, ends.bias.scale.stderr)
    return Geometry(form, shape, about, error, full_trace, full_rank)


def check_member(
    make: Family, model: nn.Module, asked: Options, advice: str, few: int = 3, other: nn.Module | None = None
) -> tuple[Tensor, int]:
    """Whether member 0 is what can be sampled; a few inputs it was tried with, and the number of its outputs.

    other: a module of the family that was made with another seed.
    """
    check_family(make, model, asked.seed, other)
    x = random_inputs(model, asked.shape, few)
    y = check_differentiable(model, x, asked.output, advice=advice)
    check_deterministic(model, x)
    return x, y.shape[1]


# --- both ends of the network -----------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Ends:
    """What is averaged by a formula at the first and at the last layer."""

    plan: FirstLayer | None
    head: RandomHead | None
    integration: Integration | Reason
    bias: StemBias | None = None  # of a first layer that is integrated away from the origin, of a large input
    to_judge: bool = False  # whether it is still to be measured


def _ends(reading: Reading, asked: Options, resolved: Resolved, outputs: int) -> _Ends:
    if asked.first_layer == "never":
        return _Ends(None, None, ASKED_FOR)
    head = None
    if asked.first_layer == asked.last_layer == "auto":
        ending = random_head_of(reading, asked.output)
        if isinstance(ending, RandomHead) and not (resolved.at_origin and ending.outputs <= MANY_OUTPUTS):
            head = ending
        elif isinstance(ending, Reason) and asked.output == "all" and outputs > MANY_OUTPUTS:
            head = random_outputs(outputs)
    plan = _plan(reading, asked, resolved)
    if isinstance(plan, Reason):
        return _Ends(None, head, plan)
    symmetries = ["tokens exchanged"] if plan.exchangeable and plan.positions > 1 else []
    symmetries += ["images transposed"] if plan.transposed is not None else []
    if plan.by_symmetry:
        symmetries.insert(0, "entries exchanged")
        return _Ends(plan, head, Integration("symmetries", plan.name, symmetries=tuple(symmetries)))
    integration = Integration("first layer", plan.name, plan.law_text, resolved.at_origin, tuple(symmetries))
    if asked.goal is None or resolved.at_origin or asked.first_layer != "auto":
        return _Ends(plan, head, integration)
    if math.prod(asked.shape) > MOST_PILOTED:
        return _Ends(plan, head, integration, to_judge=True)
    pilot = Pilot(
        reading.make, asked.seed, asked.shape, resolved.probe, asked.output, asked.place, head, asked.progress
    )
    seen = pilot.judged(plan, asked.goal)
    if not seen.within(asked.goal):
        return _Ends(None, head, Reason("not shown", plan.name, not_shown(seen, asked.goal)))
    return _Ends(plan, head, replace(integration, shown_by=seen.members, remark=seen.remarks))


def _judged_stem(
    ends: _Ends, rows: Rows, outputs: int, via: Engine | None, asked: Options
) -> tuple[_Ends, list[Outcome]]:
    """Both ends with the bias of the first layer, or without that layer; the members that were computed for it."""
    assert ends.plan is not None
    assert asked.goal is not None
    assert isinstance(ends.integration, Integration)
    judging = StemRows(**vars(replace(rows, head=ends.head or random_outputs(outputs))))
    stream = MemberStream(judging.one_by_one, via, 1, {"stem": ends.plan.name, "shape": rows.shape, "seed": rows.seed})
    found: list[Outcome] = []
    for stage in STAGES:
        found += stream.map(range(len(found), stage), stage - len(found))
        bias = stem_bias(ends.plan, rows.seed, found)
        if bias.within(asked.goal):
            break
    else:
        return _Ends(None, ends.head, Reason("not shown", ends.plan.name, bias.text)), []
    integration = replace(ends.integration, shown_by=bias.scale.n, remark=f"; {bias.text}")
    return _Ends(ends.plan, ends.head, integration, bias), [] if ends.head is None else found


def _plan(reading: Reading, asked: Options, resolved: Resolved) -> FirstLayer | Reason:
    """How to integrate the first layer, or why not; away from the origin, with a tolerance, members will judge it."""
    if not resolved.at_origin and asked.first_layer == "auto" and asked.goal is None:
        return Reason("away from the origin", "", "away from the origin the forward pass depends on the first layer")
    plan = first_layer_of(reading)
    if isinstance(plan, Reason):
        if asked.first_layer == "always":
            raise NetgrainError(f"the first layer cannot be integrated: {plan}; use first_layer='auto'.")
        return plan
    if not isinstance(resolved.probe, Origin | Gaussian):
        return replace(plan, exchangeable=False, transposed=None)  # the points themselves tell positions apart
    exact = asked.first_layer == "auto" and plan.symmetric and not resolved.at_origin
    return replace(plan, by_symmetry=True) if exact else plan


# --- members ------------------------------------------------------------------------------------------------------


def _task(rows: Rows, asked: Options) -> tuple[Callable[[range], list[Outcome]], int, tuple[str, ...]]:
    """How a chunk of members is computed, how many it has, and why not side by side where that was wanted."""
    wanted = rows.device.type != "cpu" if asked.vmapped is None else asked.vmapped
    if not wanted:
        return rows.one_by_one, CHUNK, ()
    if (why_not := rows.why_one_by_one()) is None:
        return rows.side_by_side, CHUNK_VMAPPED, ()
    return rows.one_by_one, CHUNK, (f"members one by one: {why_not}",)


def _reduction(rows: Rows, points: int, keep: int) -> Reduction:
    plan = rows.plan
    if plan is None:
        return Reduction(math.prod(rows.shape), 1 / points, keep=keep)
    return Reduction(plan.positions, plan.scale / points, plan.form, keep=keep)


def _streamed(
    reading: Reading, rows: Rows, points: int, keep: int, bias: StemBias | None, tolerance: float | None
) -> StreamedReduction:
    """How members of a large input are added up, with the scale that their own first layers give."""
    plan, memory = rows.plan, budget() // ROWS_SHARE
    if plan is None:
        return StreamedReduction(math.prod(rows.shape), 1 / points, keep=keep, memory=memory)
    grid, periods = lattices(reading, plan.name, (plan.positions,) if plan.stem is None else plan.stem.out)
    standardised = (plan.copies, plan.order) if plan.row else None
    return StreamedReduction(
        plan.positions,
        plan.scale / points * (1.0 if bias is None else bias.scale.value),
        stem=plan.stem,
        grid=grid,
        periods=periods,
        partitions=_partitions(reading, plan, grid) if plan.stem is not None else (),
        standardised=standardised,
        around=lambda core: Kronecker(core, plan.copies, plan.order),
        keep=keep,
        memory=memory,
        goal=0.0 if tolerance is None else 1 - tolerance,
    )


def _partitions(reading: Reading, plan: FirstLayer, grid: tuple[int, ...]) -> tuple[Partition, ...]:
    """Cells of the strides behind the first layer that are several times the first of them, whose phases stay apart.

    A window of the first pool reaches half a stride beyond its cell.
    """
    strides = strides_behind(reading, plan.name, plan.positions)
    if not strides:
        return ()
    phases = strides[0]
    cells = [s for s in strides if all(n >= COARSER * p for n, p in zip(s, phases, strict=True))]
    return tuple(Partition(grid, cell, phases, tuple(p // 2 for p in phases)) for cell in cells[:CELLS])


def _most_members(reading: Reading, points: int) -> int:
    """What the default tolerance may take, by a fixed model of the cost of a member."""
    return max(LARGE_START, round(WORK / _work(reading, points)))


def _within_memory(most: int | None, known: Sequence[Outcome]) -> int | None:
    """No more members than rows fit, which say far more of G than the few directions that a sketch could keep."""
    if not known:
        return most
    fit = max(FEWEST_KEPT, budget() // ROWS_SHARE // (4 * known[0].arrays["rows"].numel()))
    return fit if most is None else min(most, fit)


def _points_at_once(reading: Reading, count: int) -> int:
    """Points of one pass, in passes of equal size that a worker's share of the memory budget holds."""
    most = max(1, min(POINTS_AT_ONCE, budget() // PASS_SHARE // bytes_of_a_point(reading)))
    return math.ceil(count / math.ceil(count / most))


def _is_long(reading: Reading, points: int) -> bool:
    """Whether a member is worth a process of its own."""
    shapes = [p.numel() for p in reading.model.parameters()]
    return _work(reading, points) + PER_WEIGHT * sum(shapes) + PER_TENSOR * len(shapes) >= LONG


def _work(reading: Reading, points: int) -> float:
    """Operations of one member: a forward pass, and about two of them back."""
    return 3 * points * operations(reading)


def _remarks(about: Provenance) -> list[str]:
    """What is to be said of the members, with warnings where that is bad news."""
    found, say = [], partial(warnings.warn, category=GrainWarning, stacklevel=6)
    if about.reached is False:
        say(f"{about.model}: {about.notes[-1]}.")
    if about.tolerance is not None and about.reached is None:
        found.append(f"a tolerance cannot be measured on a sketch: stopped after {about.members} members")
    if about.zero_share == 1:
        found.append("every member has a zero input gradient, so G = 0")
        say(
            f"{about.model}: the input gradient is exactly zero for all {about.members} members (a zero-initialised "
            "last layer?), so G = 0; pass switched_on=True, or probe the features below it or a trained checkpoint."
        )
    return found
