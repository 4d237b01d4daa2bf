"""Complexity penalised directly: the larger λ in L + λ·GC, the smaller the geometric complexity.

A ReLU perceptron 64-64-64-10 on digits, cross-entropy, plain SGD (learning rate 0.1, batch 64) for 2,000 steps; the
penalty comes from one random sign vector a step. Cost: smoke a second, laptop about 25 s on two cores, paper for a
GPU.
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

COST = 54  # processor seconds at laptop scale
Config = Scale
PRESETS = scales(steps=2000)
STRENGTHS = (0.0, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1)
PAPER_STRENGTHS = (0.0, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3)


def run(config: Scale, runner: Runner) -> Curves:
    values = config.thinned(STRENGTHS if config.network == "perceptron" else PAPER_STRENGTHS)
    protocols = {v: config.protocol({"lr": 0.1}, regularizer="GeometricComplexity", strength=v) for v in values}
    return Curves(
        config, {"explicit penalty": along(runner, "gc-explicit", protocols, config.seeds, "explicit penalty")}
    )


def claims(result: Curves) -> list[Claim]:
    (curve,) = result.curves.values()
    return [
        monotone(curve, "the explicit penalty lowers complexity", -1, paper="falls"),
        pooled(curve, "the explicit penalty lowers complexity, all runs together", -1, paper="falls"),
    ]


def panels(result: Curves) -> list[Panel]:
    return [Panel("Explicit GC", result.curves["explicit penalty"], "λ, loss + λ GC")]


def figure(result: Curves) -> Figure:
    from netgrain.experiments.heuristics.drawing import draw

    return draw(panels(result))
