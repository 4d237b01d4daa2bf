"""Complexity under weight decay: the larger λ in L + λ‖θ‖², the smaller the geometric complexity.

A ReLU perceptron 64-64-64-10 on digits, cross-entropy, plain SGD (learning rate 0.1, batch 64) for 2,000 steps. Bound
behind it: GC ≤ Π‖W‖² ≤ (Σ‖W‖²/L)^L. Cost: smoke a second, laptop about 20 s on two cores, paper for a GPU.
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
STRENGTHS = (0.0, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2)
PAPER_STRENGTHS = (0.0, 1e-6, 1e-5, 1e-4, 3e-4, 1e-3)


def run(config: Scale, runner: Runner) -> Curves:
    values = config.thinned(STRENGTHS if config.network == "perceptron" else PAPER_STRENGTHS)
    protocols = {v: config.protocol({"lr": 0.1}, regularizer="L2", strength=v) for v in values}
    return Curves(config, {"weight decay": along(runner, "gc-l2", protocols, config.seeds, "weight decay")})


def claims(result: Curves) -> list[Claim]:
    (curve,) = result.curves.values()
    return [
        monotone(curve, "weight decay lowers complexity", -1, paper="falls"),
        pooled(curve, "weight decay lowers complexity, all runs together", -1, paper="falls"),
    ]


def panels(result: Curves) -> list[Panel]:
    return [Panel("L2", result.curves["weight decay"], "λ, loss + λ‖θ‖²")]


def figure(result: Curves) -> Figure:
    from netgrain.experiments.heuristics.drawing import draw

    return draw(panels(result))
