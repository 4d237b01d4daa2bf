"""Figure 8: what the geometry of networks looks like while they learn random labels, with Adam.

Claim: as in figure 2, Corr(Gᵗ, G S G) rises within the first 20 steps and lies above Corr(Gᵗ, S), though there is
nothing to learn but the labels by heart. MLP, LeNet, VGG11 and ResNet18 without normalisation, full-batch Adam with its
default learning rate. Cost: smoke seconds, laptop two minutes on two cores, paper for a GPU.
"""

from __future__ import annotations

from netgrain.experiments.grain.fig2 import Config, Result, claims, figure, presets, run

__all__ = ["PRESETS", "Config", "Result", "claims", "figure", "run"]

COST = 327  # processor seconds at laptop scale, on a busy machine
COVERS = (22, 42)
NETWORKS = ("MLP", "LeNet", "VGG11", "ResNet18")
PRESETS = presets(NETWORKS, "random", "adam", dict.fromkeys(NETWORKS, 1e-3))
