"""Table 1: training samples that lie where a family's geometry is small are the ones that can be spared.

Claim: with the lowest-scored 50 or 90 % of the training samples dropped, class by class, a network tests better than
with as many random ones dropped; Score(x) = xᵀGx / ‖x‖². Laptop: LeNet on 5,000 CIFAR-10 images of 16 × 16, the same
number of steps however many samples are dropped (the authors' code; the text speaks of epochs: fixed="epochs").
Cost: smoke seconds, laptop about 120 core-seconds (180 at most), paper (three networks, 30 to 90 %) for a GPU.
"""

from __future__ import annotations

from functools import partial

from netgrain.experiments.grain.pruning import NETWORKS, Config, Result, claims, draw, run

__all__ = ["PRESETS", "Config", "Result", "claims", "figure", "run"]

COST = 117  # processor seconds at laptop scale
FEW = {"LeNet": {"width": 1.0, "levels": [50, 90]}}
PRESETS = {
    "smoke": Config(
        networks=FEW, images="digits", size=16, pool=600, samples=400, tests=100, epochs=4, batch=50, lr=0.1,
        seeds=2, most_seeds=2,
    ),
    "laptop": Config(
        networks=FEW, images="auto", size=16, pool=40_000, samples=5000, tests=10_000, epochs=20,
        seeds=10, most_seeds=16,
    ),
    "paper": Config(
        networks={n: {"width": 1.0, "levels": [30, 50, 70, 90]} for n in NETWORKS},
        images="cifar10", size=32, pool=50_000, samples=50_000, tests=10_000, epochs=50,
        seeds=5, most_seeds=5, device="best",
    ),
}  # fmt: skip
figure = partial(draw, title="Training samples dropped by score or at random")
