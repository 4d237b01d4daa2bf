"""What each layer lets through of the strongest direction, of one at the edge of the leading ones, and of the last."""

from __future__ import annotations

from typing import Any

import torch

from netgrain.auditing.layer_gains import layer_profile
from netgrain.auditing.sections.contract import Section, Subject, number
from netgrain.runtime.errors import NetgrainError

MEMBERS = 4


def measure(subject: Subject) -> dict[str, Any]:
    """The key layers: a row of gains for each layer; none where the module has no layers to look into."""
    axes = subject.axes
    d = len(axes.values)
    chosen = {"strongest": 0, "middle": min(axes.leading, d - 1), "weakest": d - 1}
    directions = torch.stack([axes.vectors[i].reshape(subject.shape) for i in chosen.values()])
    try:
        profile = layer_profile(subject.make, directions, probe=subject.place.probe, members=MEMBERS, seed=subject.seed)
    except NetgrainError:
        return {"layers": []}  # modules without layers of their own to look into
    rows = [
        {"name": name, **{g: number(profile.gains[j, l]) for j, g in enumerate(chosen)}}
        for l, name in enumerate(profile.names)
    ]
    return {"layers": rows}


SECTION = Section(order=80, measure=measure, title="Layers / what-if")
