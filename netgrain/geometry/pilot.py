"""Is a cheap estimate of G good enough? A few dozen plainly sampled members decide, within a tolerance.

Corr of the two is corrected for sampling noise, so that a few dozen members tell 0.99 from 1 although their own matrix
is far from G. The scale is judged with it; what is off along the mean of the points or along the leading directions of
the sample, although the whole is not, is reported.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise

import torch
from torch import Tensor

from netgrain.families.members import Family
from netgrain.families.outputs import Output
from netgrain.families.probes import Data, Probe
from netgrain.families.reading import read
from netgrain.geometry.correlation import correlation, trace
from netgrain.geometry.energy_ratios import leading_ratio, ratio_along, ratio_of
from netgrain.geometry.estimate import Estimate, mean_of
from netgrain.geometry.first_layer import FirstLayer
from netgrain.geometry.forms import Form
from netgrain.geometry.gradient_rows import Rows
from netgrain.geometry.moment_forms import without_parts
from netgrain.geometry.options import Options
from netgrain.geometry.random_head import RandomHead, random_head_of
from netgrain.geometry.reduction import Reduction
from netgrain.runtime.errors import GrainWarning
from netgrain.runtime.progress import Bar

TRACED = 24  # further members at a time that are asked for their trace alone
MOST_TRACED = 384  # of all members
STAGES = (24, 48, 96)  # members looked at, one after the other, until they decide
POINTS = 16  # of each
SURE = 2.0  # standard errors
FAR_OFF = 3.0  # standard errors at which an estimate, or a single direction of it, counts as wrong
WORTH_SAYING = 0.1  # relative error of a single direction that is reported


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
    def of(cls, make: Family, asked: Options) -> Pilot:
        """Other members than those that a closed form may have observed."""
        seed = asked.seed + 1
        reading, device = read(make, asked.shape, seed), asked.place
        found = random_head_of(reading, asked.output)
        place = reading.probe_used(asked.probe, asked.output).probe
        head = found if isinstance(found, RandomHead) else None
        return cls(make, seed, asked.shape, place, asked.output, device, head, asked.progress)

    def agreements(self, estimate: Callable[[int], Form], *, leading: bool = True) -> Iterator[PilotComparison]:
        """The comparison after 24, 48 and 96 members; estimate: what to compare with, given that number.

        leading: along the leading directions of the sample, too, which takes longer than the rest.
        """
        rows = self._rows(None)
        collected = self._reduction(None)
        centre = self.probe.X.double().mean(0) if isinstance(self.probe, Data) else None
        with Bar("comparing with sampled members", STAGES[-1], self.progress) as bar:
            for start, stop in pairwise((0, *STAGES)):
                for i in range(start, stop):
                    collected.add(rows.one(i).arrays["rows"])
                    bar.advance()
                yield compared_with(estimate(stop), collected.form(), centre=centre, leading=leading)

    def judged(self, plan: FirstLayer, tolerance: float) -> PilotComparison:
        """What members say about integrating the first layer away from the origin."""
        rows, collected = self._rows(plan), self._reduction(plan)

        def integrated(members: int) -> Form:
            for i in range(collected.members, members):
                collected.add(rows.one(STAGES[-1] + i).arrays["rows"])  # other members than those that judge
            return collected.form()

        return decisive(self.agreements(integrated), tolerance)

    def trace(self, seen: PilotComparison, tolerance: float) -> Estimate:
        """The trace of G by those members and further ones, until its error is what the tolerance allows."""
        rows, found = self._rows(None), seen.trace
        assert found is not None
        points, more = len(rows.points(0)), found.n
        with Bar("measuring the scale", None, self.progress) as bar:
            while not known(found, tolerance) and more < MOST_TRACED:
                squares = []
                for i in range(more, more + TRACED):
                    squares.append(rows.one(STAGES[-1] + i).arrays["rows"].double().square().sum() / points)
                    bar.advance()
                found, more = joined(found, mean_of(torch.stack(squares))), more + TRACED
        return found

    def _rows(self, plan: FirstLayer | None) -> Rows:
        return Rows(self.make, self.seed, self.shape, self.probe, POINTS, self.output, plan, self.device, self.head)

    def _reduction(self, plan: FirstLayer | None) -> Reduction:
        points = len(self._rows(plan).points(0))
        if plan is None:
            return Reduction(math.prod(self.shape), 1 / points, lambda form: form, rows_memory=2**40)
        return Reduction(plan.positions, plan.scale / points, plan.form)


def decisive(agreements: Iterator[PilotComparison], tolerance: float, *, free_scale: bool = False) -> PilotComparison:
    """The first comparison that decides about the tolerance, or the last one.

    free_scale: the scale will be that of the members, so that it does not count.
    """
    for seen in agreements:
        settled = seen.shape_outside(tolerance) if free_scale else seen.outside(tolerance)
        if settled or seen.within(tolerance) or (free_scale and seen.shape_within(tolerance)):
            break
    return seen


def not_shown(seen: PilotComparison, tolerance: float) -> str:
    return f"{seen.members} members do not show the tolerance {tolerance:g} to be met ({seen.text})"


@dataclass(frozen=True)
class PilotComparison:
    """Sampled over estimated, with errors; `corr` of the two."""

    members: int
    corr: Estimate
    scale: Estimate
    along: dict[str, Estimate] = field(default_factory=dict)
    trace: Estimate | None = None  # of the sampled members

    def within(self, tolerance: float) -> bool:
        """Shown to be within it: Corr ≥ 1 − tolerance, and the scale as far off as that allows."""
        room = math.sqrt(2 * tolerance)  # 1 − Corr = ε²/2 for a relative error ε
        sure = abs(self.scale.value - 1) + SURE * self.scale.stderr <= room
        return sure and self.corr.value - SURE * self.corr.stderr >= 1 - tolerance

    def shape_within(self, tolerance: float) -> bool:
        """Corr alone shown to be within it; what noise adds beyond 1 shows nothing."""
        return min(self.corr.value, 1.0) - SURE * self.corr.stderr >= 1 - tolerance

    def outside(self, tolerance: float) -> bool:
        """Shown to be off by more."""
        room = math.sqrt(2 * tolerance)
        scale = abs(self.scale.value - 1) - FAR_OFF * self.scale.stderr > room
        return scale or self.shape_outside(tolerance)

    def shape_outside(self, tolerance: float) -> bool:
        """Corr alone shown to be off by more."""
        return self.corr.value + FAR_OFF * self.corr.stderr < 1 - tolerance

    @property
    def remarks(self) -> str:
        """Single directions that are off although the whole is not, to stand after "within the tolerance"; or ""."""
        off = {n: r for n, r in self.along.items() if abs(r.value - 1) > max(WORTH_SAYING, FAR_OFF * r.stderr)}
        return "".join(f"; along {n} sampled over estimated is {r.value:.2f} ± {r.stderr:.2f}" for n, r in off.items())

    @property
    def text(self) -> str:
        scale = f"{self.scale.value:.3f} ± {self.scale.stderr:.3f}"
        return f"Corr {self.corr.value:.4f} ± {self.corr.stderr:.4f}, scale {scale}"


def compared_with(
    estimate: Form, plain: Form, *, centre: Tensor | None = None, leading: bool = True
) -> PilotComparison:
    """Compare an estimate with plainly sampled members, other ones than it may be made of. centre: mean of the points.

    For Corr the estimate counts as it stands: its own noise is a part of its error.
    """
    if plain.trace() == 0 or estimate.trace() == 0:  # no direction to compare: both are zero, or one is wrong
        same = Estimate(float(plain.trace() == estimate.trace()), 0.0, plain.parts)
        return PilotComparison(plain.parts, same, same)
    fixed = without_parts(estimate)
    along = {}
    if centre is not None and float(centre.norm()) > 0:
        along["the mean of the points"] = ratio_along(fixed, plain, (centre / centre.norm()).flatten()[None])
    if leading and plain.parts >= 4:
        along["leading directions of the sample"] = leading_ratio(fixed, plain)
    with warnings.catch_warnings():
        # a Corr that a few members leave undefined shows nothing, quietly
        warnings.simplefilter("ignore", GrainWarning)
        corr = correlation(fixed, plain)
    sampled = trace(plain)
    return PilotComparison(plain.parts, corr, ratio_of(sampled, trace(estimate)), along, sampled)


def known(size: Estimate, tolerance: float) -> bool:
    """Whether a scale is known as well as the tolerance allows it to be off."""
    return SURE * size.stderr <= math.sqrt(2 * tolerance) * abs(size.value)


def joined(a: Estimate, b: Estimate) -> Estimate:
    """The mean over the members of both.

    >>> joined(Estimate(1.0, 0.3, 10), Estimate(4.0, 0.3, 20)).value
    3.0
    """
    n = a.n + b.n
    return Estimate((a.n * a.value + b.n * b.value) / n, math.hypot(a.n * a.stderr, b.n * b.stderr) / n, n)
