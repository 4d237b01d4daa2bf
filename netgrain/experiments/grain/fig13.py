"""Figure 13: as figure 12, but with batches that grow with the data, so that the number of steps stays the same.

Claim: with the number of steps fixed the gap in train accuracy between data shaped like G and like flip(G) stays, also
with the most data. ResNet18 without normalisation, random labels, accuracy at the last epoch. Settings are those of
figure 12 but for the batches. Cost: smoke seconds, laptop about a minute on two cores, paper for a GPU.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from netgrain.experiments.claims import Claim
from netgrain.experiments.grain import fig12
from netgrain.experiments.grain.fig12 import Config, Result
from netgrain.runtime.run_folder import Runner

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["PRESETS", "Config", "Result", "claims", "figure", "run"]

COST = 99  # processor seconds at laptop scale
PRESETS = {
    "smoke": replace(fig12.PRESETS["smoke"], batches=[8, 16]),
    "laptop": replace(fig12.PRESETS["laptop"], batches=[64, 128, 256]),
    "paper": replace(fig12.PRESETS["paper"], batches=[128 * n for n in (1, 2, 4, 6, 8, 10)]),
}


def run(config: Config, runner: Runner) -> Result:
    return fig12.sizes(config, runner, claims)


def claims(result: Result) -> list[Claim]:
    paper = "a gap at every size, once the number of steps is fixed"
    ends = {"few": min(result.pairs), "many": max(result.pairs)}
    return [fig12.gap_with(kind, samples, result, paper) for kind, samples in ends.items()]


def figure(result: Result) -> Figure:
    return fig12.draw(result, "ResNet18, more data with larger batches: the same number of steps")
