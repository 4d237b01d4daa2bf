"""Changes of the architecture, each tried alone where G was taken: what it does to the spectrum and to the label."""

from __future__ import annotations

import math
from typing import Any

from torch import nn

from netgrain.auditing.axes import axes_of
from netgrain.auditing.label_relevance import relevance
from netgrain.auditing.sections.contract import Section, Subject
from netgrain.auditing.sections.grain import spectrum_of
from netgrain.auditing.swapped import Swapped

WHEN = ("before", "after")


def measure(subject: Subject) -> dict[str, Any]:
    """The key what_if: a row for each change."""
    return {"what_if": [_row(subject, name, layer) for name, layer in subject.swaps.items()]}


def _row(subject: Subject, name: str, layer: nn.Module) -> dict[str, Any]:
    family = Swapped(subject.make, {name: layer})
    family.check_fits(subject.shape)
    after = subject.place.geometry(family, subject.shape, seed=subject.seed, device=subject.device, progress=False)
    axes = axes_of(after)
    found = relevance(axes, subject.X, subject.y, seed=subject.seed).dependence_leading.value
    labels = [None if math.isnan(v) else v for v in (subject.relevance.dependence_leading.value, found)]
    change, counts = f"{name} → {layer}", (subject.axes.leading, axes.leading)
    share = "" if None in labels else f"; label in them {labels[0]:.0%} → {labels[1]:.0%}"
    return {
        "change": change,
        "sentence": f"{change}: leading directions {counts[0]} → {counts[1]} of {after.d}{share}.",
        "leading": dict(zip(WHEN, counts, strict=True)),
        "labels": dict(zip(WHEN, labels, strict=True)),
        "spectrum": spectrum_of(axes),
    }


SECTION = Section(order=90, measure=measure, panel="layers")
