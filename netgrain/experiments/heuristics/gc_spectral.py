"""Complexity under spectral norms: the larger λ in L + (λ/2) Σ σ_max(W)², the smaller the geometric complexity.

A ReLU perceptron 64-64-64-10 on digits, cross-entropy, plain SGD (learning rate 0.1, batch 64) for 2,000 steps;
singular values by one step of persistent power iteration. Bound behind it: GC ≤ (smallest width)·Π σ_max². Cost:
smoke a second, laptop about 25 s on two cores, paper for a GPU.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from netgrain.experiments.claims import Claim
from netgrain.experiments.heuristics.orders import monotone, pooled
from netgrain.experiments.heuristics.protocol import along
from netgrain.experiments.heuristics.scales import Curves, Panel, Scale, scales
from netgrain.runtime.run_folder import Runner

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COST = 41  # processor seconds at laptop scale
Config = Scale
PRESETS = scales(steps=2000)
STRENGTHS = (0.0, 1e-3, 3e-3, 1e-2, 3e-2, 1e-1)
PAPER_STRENGTHS = (0.0, 1e-4, 1e-3, 1e-2, 3e-2, 1e-1)


def run(config: Scale, runner: Runner) -> Curves:
    values = config.thinned(STRENGTHS if config.network == "perceptron" else PAPER_STRENGTHS)
    protocols = {v: config.protocol({"lr": 0.1}, regularizer="SpectralNorm", strength=v) for v in values}
    return Curves(config, {"spectral norm": along(runner, "gc-spectral", protocols, config.seeds, "spectral norm")})


def claims(result: Curves) -> list[Claim]:
    (curve,) = result.curves.values()
    return [
        monotone(curve, "spectral norm regularisation lowers complexity", -1, paper="falls"),
        pooled(curve, "spectral norm regularisation lowers complexity, all runs together", -1, paper="falls"),
    ]


def panels(result: Curves) -> list[Panel]:
    return [Panel("Spectral norm", result.curves["spectral norm"], "λ, loss + (λ/2) Σ σ_max²")]


def figure(result: Curves) -> Figure:
    from netgrain.experiments.heuristics.drawing import draw

    return draw(panels(result))
