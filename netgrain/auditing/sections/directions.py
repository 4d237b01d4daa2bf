"""Single directions, strongest, middle and weakest: how strong each is, what it looks like, what it says of a label."""

from __future__ import annotations

import math
from typing import Any

from netgrain.auditing import pictures
from netgrain.auditing.axes import Axes
from netgrain.auditing.sections.contract import Section, Subject, number, numbers

SHOWN = {"strongest": 16, "middle": 16, "weakest": 16}  # directions on the page
MOST_BARS = 512  # entries of a direction that is no picture


def measure(subject: Subject) -> dict[str, Any]:
    """The key directions: a list."""
    return {"directions": [_direction(subject, i, group) for group, i in _shown(subject.axes)]}


def _shown(axes: Axes) -> list[tuple[str, int]]:
    """Directions for the page: the first ones, some around the edge of the leading ones, the last ones if known."""
    d, edge = len(axes.values), axes.leading
    top = list(range(min(SHOWN["strongest"], d)))
    last = list(range(max(d - SHOWN["weakest"], len(top)), d)) if axes.complete else []
    between = range(len(top), last[0] if last else d)
    middle = sorted(between, key=lambda i: abs(i - edge))[: SHOWN["middle"]]
    return [("strongest", i) for i in top] + [("middle", i) for i in sorted(middle)] + [("weakest", i) for i in last]


def _direction(subject: Subject, i: int, group: str) -> dict[str, Any]:
    axes, found = subject.axes, subject.relevance
    u = axes.vectors[i].reshape(subject.shape)
    drawn = pictures.can_be_drawn(subject.shape)
    tested = (found.tested == i).nonzero()
    mean_variance = found.mean_variance
    return {
        "index": i,
        "group": group,
        "eigenvalue": number(axes.values[i] / axes.mean) if i < axes.known else None,
        "cumulative": number(axes.values[: i + 1].sum() / axes.trace),
        "block": list(next(b for b in axes.blocks if b[0] <= i < b[1])),
        "data_variance": number(float(found.variance[i]) / mean_variance if mean_variance else 0.0),
        "label_relevance": number(found.explained[i]),
        "nonlinear": number(math.sqrt(float(found.dependence[tested[0, 0]]))) if len(tested) else None,
        "picture": pictures.direction(u) if drawn else None,
        "fourier": pictures.fourier(u) if drawn else None,
        "bars": None if drawn else numbers(u.flatten()[:MOST_BARS]),
    }


SECTION = Section(order=20, measure=measure, title="Directions")
