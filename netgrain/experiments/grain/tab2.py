"""Table 2: dropping samples by score against dropping them at random, at the levels that Table 1 leaves out.

Claim: at every share of dropped samples a network tests better when the lowest-scored go than when random ones go.
Laptop: LeNet at 10 and 70 % with the settings of Table 1, which has 50 and 90 %; all nine levels of LeNet, ResNet18 and
ViT, 27 cells, are for paper scale only. Cost: smoke seconds, laptop about a minute on two cores, paper for a GPU.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from netgrain.experiments.grain import tab1
from netgrain.experiments.grain.pruning import LEVELS, NETWORKS, Config, Result, claims, draw, run

__all__ = ["PRESETS", "Config", "Result", "claims", "figure", "run"]

COST = 114  # processor seconds at laptop scale
FEW = {"LeNet": {"width": 1.0, "levels": [10, 70]}}
PRESETS = {
    "smoke": replace(tab1.PRESETS["smoke"], networks=FEW),
    "laptop": replace(tab1.PRESETS["laptop"], networks=FEW, seeds=5, most_seeds=8),
    "paper": replace(tab1.PRESETS["paper"], networks={n: {"width": 1.0, "levels": list(LEVELS)} for n in NETWORKS}),
}
figure = partial(draw, title="Training samples dropped by score or at random, further levels")
