"""Members one after the other until there are enough: a number that was asked for, or what a tolerance takes."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from netgrain.families.origin import Resolved
from netgrain.families.outputs import describe_output
from netgrain.geometry.options import Options
from netgrain.geometry.provenance import ProbeUsed, Provenance
from netgrain.runtime.progress import Bar
from netgrain.runtime.streams import MemberStream
from netgrain.runtime.units import Outcome

MOST_MEMBERS = 10_000
UNMEASURED_MEMBERS = 256  # where a tolerance cannot be measured
CHUNK = 4  # members of a unit of work
SEEN = 9  # members from which it can be told that a tolerance is out of reach
OUT_OF_REACH = 8  # times as many members as will be sampled at most


def about_sample(name: str, asked: Options, resolved: Resolved, points: int) -> Provenance:
    """What is known of a sample before its members are; name: of the family or the models."""
    return Provenance(
        "sampled",
        model=name,
        probe=ProbeUsed.of(resolved),
        output=describe_output(asked.output),
        seed=asked.seed,
        points=points,
    )


def kept_as(about: Provenance, asked: Options, resolved: Resolved) -> dict[str, Any]:
    """What tells these members from those of another call, where units are kept in one folder."""
    where = {"shape": asked.shape, "probe": resolved.text}
    on = {"switched on": True} if asked.switched_on else {}
    return {"model": about.model, "seed": asked.seed, **where, "output": about.output, **on}


def collect(
    stream: MemberStream,
    about: Provenance,
    take: Callable[[Outcome], bool],
    corr: Callable[[int], float | None],
    *,
    stops: list[int],
    tolerance: float | None,
    bar: Bar,
    give_up: bool = False,
) -> Provenance:
    """Hand every member to `take`, in order, until there are enough; about them as they are then.

    take: answers whether the gradient of the member is zero. corr: the expected Corr of what was taken with the truth,
    given how many gradients are zero; None if that cannot be measured. stops: where to look whether there are enough.
    give_up: stop as soon as the tolerance is seen to be out of reach of the last of them.
    """
    total = zero = 0
    reached = None if tolerance is None else False
    with bar:
        for stop in stops:
            fixed = stop if len(stops) == 1 else 0
            for sample in stream.map(range(total, stop), remaining=fixed - total):
                zero += take(sample)
                bar.advance()
            total = stop
            if tolerance is None:
                continue
            found = corr(zero)
            if found is None and total >= UNMEASURED_MEMBERS:
                reached = None
                break
            if found is None:
                continue
            bar.advance(0, note=f"Corr with the truth about {found:.3f}")
            if found >= 1 - tolerance:
                reached = True
                break
            if give_up and total >= SEEN and members_for(tolerance, found, total) > OUT_OF_REACH * stops[-1]:
                break
    return replace(about, members=total, tolerance=tolerance, reached=reached, zero_share=zero / total)


def members_for(tolerance: float, corr: float, members: int) -> float:
    """Members that the tolerance takes, given the expected Corr of some: 1/Corr² − 1 falls as one over their number.

    >>> round(members_for(0.01, 0.9, 10))
    116
    """
    if corr <= 0:
        return math.inf
    return members * (1 / corr**2 - 1) / (1 / (1 - tolerance) ** 2 - 1)


def schedule(members: int | None, *, first: int = 8, most: int | None = None) -> list[int]:
    """Where to stop and look: once at the end, or at growing sizes when a tolerance decides.

    >>> schedule(5), schedule(None, first=4, most=10)
    ([5], [4, 6, 9, 10])
    """
    if members is not None:
        return [members]
    most = MOST_MEMBERS if most is None else min(most, MOST_MEMBERS)
    stops = [min(first, most)]
    while stops[-1] < most:
        stops.append(min(most, math.ceil(stops[-1] * 1.5)))
    return stops
