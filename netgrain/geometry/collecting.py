"""Members one after the other until there are enough: a number that was asked for, or what a tolerance takes."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from netgrain.runtime.progress import Bar
from netgrain.runtime.streams import MemberStream
from netgrain.runtime.units import Outcome

MOST_MEMBERS = 10_000
UNMEASURED_MEMBERS = 256  # where a tolerance cannot be measured
CHUNK = 4  # members of a unit of work


@dataclass(frozen=True)
class Collected:
    """How many members there are, and whether the tolerance was reached (None: none was asked for, or unknown)."""

    members: int
    reached: bool | None = None


def collect(
    stream: MemberStream,
    take: Callable[[Outcome], None],
    corr: Callable[[], float | None],
    bar: Bar,
    *,
    members: int | None,
    tolerance: float | None,
) -> Collected:
    """Hand every member to `take`, in order, until there are enough.

    corr: the expected Corr of what was taken with the truth; None if that cannot be measured.
    """
    total = 0
    for stop in schedule(members):
        for sample in stream.map(range(total, stop), remaining=(members or 0) - total):
            take(sample)
            bar.advance()
        total = stop
        if tolerance is None:
            continue
        reached = corr()
        if reached is None:
            if total >= UNMEASURED_MEMBERS:
                return Collected(total)
            continue
        bar.advance(0, note=f"Corr with the truth about {reached:.3f}")
        if reached >= 1 - tolerance:
            return Collected(total, reached=True)
    return Collected(total, reached=None if tolerance is None else False)


def schedule(members: int | None) -> list[int]:
    """Where to stop and look: once at the end, or at growing sizes when a tolerance decides."""
    if members is not None:
        return [members]
    stops = [8]
    while stops[-1] < MOST_MEMBERS:
        stops.append(min(MOST_MEMBERS, math.ceil(stops[-1] * 1.5)))
    return stops
