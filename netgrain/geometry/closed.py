"""Any supported nn.Module → Geometry without sampling networks.

At the origin one pass gives the answer. Elsewhere G is averaged over probe points. There a unit's slope and its own
gradient depend on each other (`dependence`). Passes with directions follow that: G is the product with all unit vectors
where activations have few positions, or with those that a search for leading directions asks for. Where a channel's law
has no formula (a maximum, an activation after a residual sum) slopes come from members whose forward pass is really
computed. `about.leaves_out` lists what such a pass, or one over many positions, does not follow.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from netgrain.closed_form.channels import NeedsMembers
from netgrain.closed_form.moments import Moment
from netgrain.closed_form.propagation import Propagation
from netgrain.closed_form.rules.attention import first_attention
from netgrain.families.batch_statistics import DataStatistics
from netgrain.families.ends import Entry
from netgrain.families.members import Family, family_name, member, model_dtype, tensors_of
from netgrain.families.origin import Resolved
from netgrain.families.outputs import Output, checked_output, describe_output
from netgrain.families.probes import Data, Probe
from netgrain.families.reading import Reading
from netgrain.families.reasons import Reason
from netgrain.families.trace import Trace, Unsupported, outputs_of, record
from netgrain.geometry.correlation import fidelity
from netgrain.geometry.estimate import Estimate
from netgrain.geometry.forms import Factored, Form
from netgrain.geometry.moment_forms import MatrixParts, PointMoments, form_of_moments, mean_over_points, without_parts
from netgrain.geometry.products import Products
from netgrain.geometry.provenance import Integration, ProbeUsed, Provenance, StepNote
from netgrain.geometry.spectrum import decompose
from netgrain.geometry.structured_forms import Kronecker
from netgrain.geometry.value import Geometry
from netgrain.runtime.errors import NetgrainError
from netgrain.runtime.progress import Bar
from netgrain.runtime.randomness import derived_seed
from netgrain.runtime.threads import one_thread

DEFAULT_TOLERANCE = 0.01
MOST_POINTS = 512
AT_ONCE = 2**22  # entries of one batch of moments over positions
MOST_POSITIONS = 300  # of an activation, for a whole matrix with all terms: positions² · d numbers a layer and point
WHOLE_AT_ONCE = 5e8  # such numbers over all points: beyond it, networks are sampled where nobody asks for a closed form
MOST_INPUTS = 4096  # for that matrix itself
FOLLOWED_AT_ONCE = 2**20  # entries of one batch of directions over pairs of positions: what a cache holds
WIDE_FAN_IN = 100  # weights per unit of a first layer above which it does not matter that they are not normal
MANY_PARTS, MARGIN = 8, 3.0  # with fewer parts the noise must be below what is allowed by so many standard errors
SMALLEST_NORM = 32  # channels of a norm below which its wide limit is not taken without being asked for
LEADING_POINTS = 8  # probe points behind leading directions, unless asked otherwise
TRACE_VECTORS = 16  # random vectors that estimate the trace beside them


@one_thread()
def closed_form_geometry(
    reading: Reading,
    *,
    probe: Probe | None = None,
    output: Output = "all",
    probes: int | None = None,
    tolerance: float | None = None,
    progress: bool | None = None,
    narrowest: int = 0,
    keep: int | None = None,
) -> Geometry:
    """G = E[JᵀJ] by propagating second moments through the traced module.

    probes: points to average over away from the origin; without it, as many as the tolerance asks for (expected Corr
    with the average over infinitely many points of 1 − tolerance, default 0.01). narrowest: refuse a wide limit of
    layers with fewer channels. keep: away from the origin, this many leading directions with all terms instead of a
    matrix that leaves some out.

    Raises Unsupported, which names the layer that has no closed form.
    """
    job = _job(reading, output, narrowest)
    place = reading.probe_used(probe, output)
    try:
        if place.at_origin:
            return job.at_origin(place)
        if keep is not None:
            return job.leading(place, keep, LEADING_POINTS if probes is None else probes, progress)
        return job.over_points(place, probes, tolerance, progress)
    except NeedsMembers as e:  # a step that formulas follow at one point, or in one direction, and not here
        raise Unsupported(str(e)) from e


@one_thread()
def energies_along_points(reading: Reading, *, probe: Probe | None, output: Output, count: int) -> Tensor | None:
    """xᵀG(x)x / ‖x‖² of the closed form at some of its probe points, (points,); None at the origin."""
    job = _job(reading, output, 0)
    place = reading.probe_used(probe, output)
    if place.at_origin:
        return None
    way = job._way(place)
    found = []
    for i in range(min(count, job._available(place))):
        x = job._points(place, i, 1)
        assert x is not None
        unit = x.double() / x.double().norm().clamp(min=1e-300)  # a sample of zeros has no direction and counts as zero
        if way.whole:
            product = job.products(x, unit.flatten(1), way.run.positions)
        else:
            run = job._pass(x, i if way.observing else None)
            product = job._form(run, run.run()).matvec(unit.flatten(1))
        found.append((unit.flatten() * product.flatten()).sum())
    return torch.stack(found)


def _job(reading: Reading, output: Output, narrowest: int) -> _Job:
    """The module read and recorded, ready for passes."""
    if not any(True for _ in reading.model.parameters()):
        name = type(reading.model).__name__
        raise NetgrainError(f"the model ({name}) has no parameters, so there is no family to average over.")
    trace = reading.traced()
    return _Job(reading, trace, checked_output(output, outputs_of(trace)), narrowest)


@dataclass(frozen=True, eq=False)
class _Job:
    reading: Reading
    trace: Trace
    output: Output
    narrowest: int

    @property
    def make(self) -> Family:
        return self.reading.make

    @property
    def shape(self) -> tuple[int, ...]:
        return self.reading.input_shape

    @property
    def seed(self) -> int:
        return self.reading.seed

    @property
    def data_statistics(self) -> bool:
        return isinstance(self.make, DataStatistics)

    @cached_property
    def entry(self) -> Entry | None:
        """The convolution through which x enters, if it has far fewer positions at its output."""
        found = self.reading.entry()
        if isinstance(found, Reason) or not found.name:
            return None
        if found.stem is None:  # patches, or a linear layer that leaves positions alone
            return found if found.positions < math.prod(self.shape[1:]) else None
        return found if 2 * found.stem.out_size <= found.stem.size else None

    def _pass(
        self,
        points: Tensor | None,
        index: int | None = None,
        directions: Tensor | None = None,
        *,
        dry: bool = False,
    ) -> Propagation:
        """index: which member to observe; None: Gaussian formulas only. directions: to multiply G with.

        dry: without numbers that depend on the points.
        """
        entry = "" if directions is not None or self.entry is None else self.entry.name
        common: dict[str, Any] = {
            "points": points,
            "data_statistics": self.data_statistics,
            "directions": directions,
            "entry": entry,
        }
        if index is None:
            return Propagation(self.trace, self.reading.initialisation, self.output, **common, dry=dry)
        model = member(self.make, self.seed, index) if index else self.reading.member
        real = torch.zeros(1, *self.shape) if points is None else points
        seen = record(model, real.to(model_dtype(model)))
        if [s.name for s in seen.steps] != [s.name for s in self.trace.steps]:
            raise Unsupported("its members do not all take the same steps")
        laws, tensors = self.reading.initialisation, tensors_of(model)
        return Propagation(self.trace, laws, self.output, seen=seen, tensors=tensors, **common)

    def at_origin(self, place: Resolved) -> Geometry:
        run = self._pass(None)
        try:
            moment = run.run()
        except NeedsMembers:
            return self.over_points(place, None, None, None)
        return self._geometry(self._form(run, moment), place, run)

    def _form(self, run: Propagation, moment: Moment) -> Form:
        """What a single pass found, over the inputs."""
        return form_of_moments([moment], [1], self.shape, self.entry if run.at_entry else None)

    # --- away from the origin ---------------------------------------------------------------------------------

    def over_points(
        self, place: Resolved, probes: int | None, tolerance: float | None, progress: bool | None
    ) -> Geometry:
        if self.narrowest and (attends := first_attention(self.trace)) is not None:
            # a few members show that as fast, and its small eigenvalues with it
            raise Unsupported(f"{attends.where} is followed at the maps of members only")
        goal = 1 - (DEFAULT_TOLERANCE if tolerance is None else tolerance)
        stops = [probes] if probes is not None else _stops(place)
        available = self._available(place)
        way = self._way(place)
        if self.narrowest and way.whole:
            self._check_cost(min(stops[0], available), way.run.positions)
        found = MatrixParts(self.shape) if way.whole else PointMoments(self.shape, self.entry)
        run, done = way.run, 0
        with Bar("probe points", stops[-1] if probes is not None else None, progress) as bar:
            for stop in stops:
                stop = min(stop, available)
                while done < stop:
                    alone = way.observing or way.whole
                    count = 1 if alone else min(self._batch(), math.ceil(stop / 8), stop - done)
                    points = self._points(place, done, count)
                    if isinstance(found, MatrixParts):
                        assert points is not None
                        found.add(self.products(points, None, way.run.positions))
                    else:
                        run = self._pass(points, done if way.observing else None)
                        found.add(mean_over_points(run.run()), count, at_entry=run.at_entry)
                    done += count
                    bar.advance(count)
                form: Form = found.form()
                if done >= available or (probes is None and _reaches(goal, form)):
                    break
        if isinstance(place.probe, Data) and done >= len(place.probe.X) and not way.observing:
            form = without_parts(form)
        members, averaged = done if way.observing else 0, 0 if place.at_origin else done
        return self._geometry(form, place, run, members, averaged, (*way.leaves_out, *_local(run)))

    def _check_cost(self, points: int, positions: int) -> None:
        """Sampling takes over where a whole matrix with all terms takes minutes."""
        d = math.prod(self.shape)
        if points * positions**2 * d > WHOLE_AT_ONCE:
            raise Unsupported(f"all its terms over {points} points, {positions} positions and {d} inputs cost too much")

    def _way(self, place: Resolved) -> _Way:
        """How points are passed, found at the largest of the first eight: at a point of zeros nothing would show."""
        point = self._points(place, 0, min(8, self._available(place)))
        if point is not None:
            largest = int(point.flatten(1).double().norm(dim=1).argmax())
            point = point[largest : largest + 1]
        run = self._pass(point, dry=True)
        try:
            run.run()
        except NeedsMembers:
            # at the origin itself gradients do not depend on what is left out
            apart = "" if point is None else "slopes are observed on members, apart from their own gradients"
            return _Way(run, observing=True, apart=apart)
        if point is None or run.exact:
            return _Way(run)
        few = run.fan_in is not None and run.fan_in < WIDE_FAN_IN
        narrow = f"the first layer sums over {run.fan_in} weights that are not normal" if few else ""
        d = math.prod(self.shape)
        if run.positions > MOST_POSITIONS:  # something depends on something there; to look would take memory
            return _Way(run, apart=_apart(f"{run.positions} positions"), narrow=narrow)
        unknown, tied = self._followed(point)
        apart = _apart(f"{d} inputs") if tied and d > MOST_INPUTS else ""
        return _Way(run, whole=tied and not apart, apart=apart, unknown=unknown, narrow=narrow)

    def _followed(self, point: Tensor) -> tuple[str, bool]:
        """Steps for which dependences are not worked out, and whether there are any at this point."""
        direction = torch.randn(1, *self.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
        run = self._pass(point, directions=direction)
        run.run()
        return _first_of(run.left_out), run.weights is not None and bool(run.weights.full().values.any())

    def products(self, points: Tensor, vectors: Tensor | None, positions: int) -> Tensor:
        """G v averaged over points for every row v (all unit vectors: None), (vectors, d)."""
        d = math.prod(self.shape)
        rows = torch.eye(d, dtype=torch.float64) if vectors is None else vectors
        several = max(1, FOLLOWED_AT_ONCE // max(positions**2, d))
        pieces = []
        for some in rows.split(several):
            along = some.reshape(-1, *self.shape)
            passes = [self._pass(x[None], directions=along).products() for x in points]
            pieces.append(torch.stack(passes).mean(0))
        return torch.cat(pieces)

    def leading(self, place: Resolved, keep: int, probes: int, progress: bool | None) -> Geometry:
        """The leading directions with all terms, by products with vectors; the trace by random ones beside them."""
        way = self._way(place)
        if place.at_origin or way.observing:
            raise Unsupported(
                "leading directions with all terms need a probe away from the origin and Gaussian channels"
            )
        points = self._points(place, 0, min(probes, self._available(place)))
        assert points is not None
        d = math.prod(self.shape)
        positions = way.run.positions
        with Bar("products with G", None, progress) as bar:

            def product(V: Tensor) -> Tensor:
                bar.advance(len(V))
                return self.products(points, V, positions)

            operator = Products(d, product)
            found = decompose(operator, min(keep, d))
            values, vectors = found.values[:keep].clamp(min=0), found.vectors[:keep]
            signs = (
                torch.randint(2, (TRACE_VECTORS, d), generator=torch.Generator().manual_seed(self.seed)).double() * 2
                - 1
            )
            # what the leading directions do not hold: their own part of the trace is known
            rest = signs - (signs @ vectors.T) @ vectors
            along = (rest * product(rest)).sum(1)
        total = Estimate(float(values.sum() + along.mean()), float(along.std()) / math.sqrt(TRACE_VECTORS))
        rows = vectors * values.sqrt()[:, None]
        left = replace(way, apart="", unknown=self._followed(points[:1])[0]).leaves_out
        return self._geometry(Factored(rows), place, way.run, 0, len(points), left, total)

    def _available(self, place: Resolved) -> int:
        return len(place.probe.X) if isinstance(place.probe, Data) else 2**31

    def _points(self, place: Resolved, start: int, count: int) -> Tensor | None:
        if place.at_origin:
            return None
        if isinstance(place.probe, Data):
            X = place.probe.points(self.shape, len(place.probe.X), 0)
            order = torch.randperm(len(X), generator=torch.Generator().manual_seed(derived_seed(self.seed, "probe")))
            return X[order[start : start + count]]
        return torch.cat(
            [
                place.probe.points(self.shape, 1, derived_seed(self.seed, "probe", i))
                for i in range(start, start + count)
            ]
        )

    def _batch(self) -> int:
        positions = math.prod(self.shape[1:]) if len(self.shape) > 1 else 1
        return max(1, min(16, AT_ONCE // positions**2))

    # --- the result -------------------------------------------------------------------------------------------

    def _geometry(
        self,
        form: Form,
        place: Resolved,
        run: Propagation,
        members: int = 0,
        points: int = 0,
        leaves_out: tuple[str, ...] = (),
        full_trace: Estimate | None = None,
    ) -> Geometry:
        if not run.exact and run.narrowest < self.narrowest:
            raise Unsupported(f"a layer sums over {run.narrowest} channels, too few for the wide limit")
        if self.narrowest and run.smallest_norm < SMALLEST_NORM:
            raise Unsupported(f"a norm averages over {run.smallest_norm} channels, too few for the wide limit")
        about = Provenance(
            "closed-form",
            model=family_name(self.make, self.reading.model),
            probe=ProbeUsed.of(place),
            output=describe_output(self.output),
            seed=self.seed,
            members=members,
            points=points,
            exact=run.exact and form.parts == 0,
            integration=Integration("all layers"),
            steps=tuple(StepNote(kind, where) for kind, where in run.steps()),
            leaves_out=leaves_out,
        )
        return Geometry(form, self.shape, about, math.hypot(*run.errors.values()) if run.errors else 0.0, full_trace)


def _stops(place: Resolved) -> list[int]:
    """Numbers of points after which to look whether they are enough.

    Samples of data come in kinds, and a few of one kind agree: eight at least.
    """
    more = [8, 16, 32, 64, 128, 256, MOST_POINTS]
    return more if isinstance(place.probe, Data) else [3, 4, 6, *more]


def _reaches(goal: float, form: Form) -> bool:
    """Whether the expected Corr with infinitely many points reaches the goal; with a margin where points are few.

    The noise share 1 − fidelity² is a mean over about (parts − 1) · effective rank squares, so it is known to a share
    √(2 / that).
    """
    found = fidelity(form)
    if form.parts >= MANY_PARTS or not found > 0:
        return found >= goal
    core = form.core if isinstance(form, Kronecker) else form  # copies of one matrix tell nothing new
    rank = core.trace() ** 2 / core.norm2()
    margin = 1 + MARGIN * math.sqrt(2 / ((form.parts - 1) * rank))
    return (1 - found**2) * margin <= 1 - goal**2


def _local(run: Propagation) -> tuple[str, ...]:
    """What is left out by steps that are followed at the values of members only."""
    found = [where for kind, where in run.steps() if kind == "local"]
    if not found:
        return ()
    count = "one step without a formula is" if len(found) == 1 else f"{len(found)} steps without a formula are"
    return (f"{count} followed at the values of members ({'' if len(found) == 1 else 'first '}{found[0]})",)


def _first_of(texts: list[str]) -> str:
    """The first of what is left out, with the number of others: a deep network repeats itself."""
    found = list(dict.fromkeys(texts))
    return f"{found[0]} (and {len(found) - 1} more such steps)" if len(found) > 2 else "; ".join(found)


def _apart(size: str) -> str:
    return f"slopes are taken apart from their own gradients ({size})"


@dataclass(frozen=True, eq=False)
class _Way:
    """How points are passed: with observed members, with all directions, or by moments alone."""

    run: Propagation
    observing: bool = False
    whole: bool = False
    apart: str = ""  # why slopes are not tied to their gradients
    unknown: str = ""  # steps for which that is not worked out
    narrow: str = ""  # why a first layer is not Gaussian

    @property
    def leaves_out(self) -> tuple[str, ...]:
        return tuple(text for text in (self.apart, self.unknown, self.narrow) if text)
