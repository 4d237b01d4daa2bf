"""Changes of the architecture, each tried alone where G was taken: what it does to the spectrum and to the label."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn

from netgrain.auditing.axes import Axes, axes_of
from netgrain.auditing.label_relevance import relevance
from netgrain.auditing.sections.contract import Section, Subject, numbers
from netgrain.auditing.sections.grain import curve_index
from netgrain.auditing.swaps import what_if


def measure(subject: Subject) -> dict[str, Any]:
    """The key what_if: a row for each change."""
    return {"what_if": [_row(subject, name, layer) for name, layer in subject.swaps.items()]}


def _row(subject: Subject, name: str, layer: nn.Module) -> dict[str, Any]:
    place = subject.place
    changed = what_if(
        subject.make,
        {name: layer},
        subject.shape,
        probe=place.probe,
        members=place.members,
        tolerance=place.tolerance,
        seed=subject.seed,
        progress=False,
    )
    axes = axes_of(changed.after)
    found = relevance(axes, subject.X, subject.y, seed=subject.seed).dependence_leading.value
    before, after = (None if math.isnan(v) else v for v in (subject.relevance.dependence_leading.value, found))
    change, counts = f"{name} → {layer}", (subject.axes.leading, axes.leading)
    share = "" if before is None or after is None else f"; label in them {before:.0%} → {after:.0%}"
    return {
        "change": change,
        "sentence": f"{change}: leading directions {counts[0]} → {counts[1]} of {changed.after.d}{share}.",
        "leading": {"before": counts[0], "after": counts[1]},
        "labels": {"before": before, "after": after},
        "spectrum": _spectrum(axes),
    }


def _spectrum(axes: Axes) -> list[float | None]:
    return numbers(axes.values[torch.tensor(curve_index(len(axes.values)))] / axes.values.mean())


SECTION = Section(order=90, measure=measure, panel="layers")
