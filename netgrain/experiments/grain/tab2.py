"""Table 2: dropping samples by score against dropping them at random, at the levels that Table 1 leaves out.

Claim: at every share of dropped samples a network tests better when the lowest-scored go than when random ones go.
Laptop: LeNet, a narrow ResNet18 and ViT at 10 and 70 % with the settings of Table 1, which has 50 and 90 %; all nine
levels, 27 cells in two variants, are for paper scale only. Cost: smoke seconds, laptop about four minutes of processor
time, paper for a GPU.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from netgrain.experiments.grain import tab1
from netgrain.experiments.grain.pruning import LEVELS, Config, Result, claims, draw, run, with_levels

__all__ = ["PRESETS", "Config", "Result", "claims", "figure", "run"]

COST = 324  # processor seconds at laptop scale, on a busy machine
COVERS = (52,)
LEVELS_AT = {"smoke": (10, 70), "laptop": (10, 70), "paper": LEVELS}
PRESETS = {
    scale: replace(tab1.PRESETS[scale], networks=with_levels(tab1.PRESETS[scale].networks, levels))
    for scale, levels in LEVELS_AT.items()
}
figure = partial(draw, title="Training samples dropped by score or at random, further levels")
