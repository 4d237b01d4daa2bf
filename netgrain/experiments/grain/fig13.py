"""Figure 13: as figure 12, but with batches that grow with the data, so that the number of steps stays the same.

Claim: with the number of steps fixed the gap in train accuracy between data shaped like G and like flip(G) stays, also
with the most data, and the parameters end about as far from their initialisation. ResNet18 without normalisation,
random labels, accuracy at the last epoch. Settings are those of figure 12 but for the batches. Cost: smoke seconds,
laptop one to two minutes on two cores, paper for a GPU.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from netgrain.experiments.claims import Claim, claim
from netgrain.experiments.grain import fig12
from netgrain.experiments.grain.fig12 import Config, Result
from netgrain.runtime.runners import Runner

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["PRESETS", "Config", "Result", "claims", "figure", "run"]

COST = 140  # processor seconds at laptop scale
COVERS = (48, 49)
SIMILAR = 1.25  # the factor by which similar distances may differ
PRESETS = {
    "smoke": replace(fig12.PRESETS["smoke"], batches=[8, 12, 16]),
    "laptop": replace(fig12.PRESETS["laptop"], batches=[64, 128, 192, 256]),
    "paper": replace(fig12.PRESETS["paper"], batches=[128 * n for n in (1, 2, 4, 6, 8, 10)]),
}


def run(config: Config, runner: Runner) -> Result:
    return fig12.sizes(config, runner, claims)


def claims(result: Result) -> list[Claim]:
    paper = "a gap at every size, once the number of steps is fixed"
    ends = {"few": min(result.pairs), "many": max(result.pairs)}
    gaps = [fig12.gap_with(kind, samples, result, paper) for kind, samples in ends.items()]
    turns = [fig12.velocity_with(kind, samples, result) for kind, samples in ends.items()]
    similar = claim(
        "distance from initialisation",
        f"on flip(G) the parameters end about as far from their initialisation with {ends['many']} samples as with "
        f"{ends['few']}: logarithm of the ratio of ‖θ_t − θ_0‖ within ±log {SIMILAR:g}",
        fig12.farther(result),
        subject="ResNet18",
        low=-math.log(SIMILAR),
        high=math.log(SIMILAR),
        paper="a similar distance in the parameter space for all sizes",
        note=fig12.explained(result),
    )
    return [*gaps, *turns, similar]


def figure(result: Result) -> Figure:
    return fig12.draw(result, "ResNet18, more data with larger batches: the same number of steps")
