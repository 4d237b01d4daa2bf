"""Table 1: training samples that lie where a family's geometry is small are the ones that can be spared.

Claim: with the lowest-scored 50 or 90 % of the training samples dropped a network tests better than with as many random
ones dropped; Score(x) = xᵀGx / ‖x‖². Twice: as the text has it (all samples sorted together, as many epochs) and as the
authors' code does (class by class, as many steps).

Laptop: LeNet on 5,000 CIFAR-10 images of 16 × 16, a narrow ResNet18 and ViT on 2,000 in batches of 32 for three epochs,
which is too few to fit them. Batch and epochs of these two were set by the accuracy of trainings with nothing dropped,
on a seed (1000) that no claim uses. Cost: smoke seconds, laptop about four minutes of processor time, paper (three
networks, 30 to 90 %) for a GPU.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from netgrain.experiments.grain.pruning import NETWORKS, Config, Result, claims, draw, run, with_levels

__all__ = ["PRESETS", "Config", "Result", "claims", "figure", "run"]

COST = 240  # processor seconds at laptop scale
COVERS = (51,)
FEW: dict[str, Any] = {"samples": 2000, "batch": 32, "epochs": 3, "seeds": [3, 4]}
SMALL: dict[str, dict[str, Any]] = {
    "LeNet": {"width": 1.0},
    "ResNet18": {"width": 1 / 8, **FEW},
    "ViT": {"width": 1 / 4, **FEW},
}
WHOLE = {n: {"width": 1.0} for n in NETWORKS}
PRESETS = {
    "smoke": Config(
        networks=with_levels({"LeNet": {"width": 1.0}}, [50, 90]),
        images="digits", size=16, pool=600, samples=400, tests=100, epochs=4, batch=50, lr=0.1,
        seeds=2, most_seeds=2,
    ),
    "laptop": Config(
        networks=with_levels(SMALL, [50, 90]),
        images="auto", size=16, pool=40_000, samples=5000, tests=5000, epochs=20,
        seeds=5, most_seeds=8,
    ),
    "paper": Config(
        networks=with_levels(WHOLE, [30, 50, 70, 90]),
        images="cifar10", size=32, pool=50_000, samples=50_000, tests=10_000, epochs=50,
        seeds=5, most_seeds=5, device="best",
    ),
}  # fmt: skip
figure = partial(draw, title="Training samples dropped by score or at random")
