"""Complexity under label noise: the more labels are wrong in each step, the smaller the geometric complexity.

The noise is drawn again in every step, so that it cannot be memorised (see gc-label-corruption for noise that can). A
ReLU perceptron 64-64-64-10 on digits, cross-entropy, plain SGD (learning rate 0.1, batch 64) for 2,000 steps. Cost:
smoke a second, laptop about 15 s on two cores, paper for a GPU.
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

COST = 28  # processor seconds at laptop scale
Config = Scale
PRESETS = scales(steps=2000)
STRENGTHS = (0.0, 0.05, 0.1, 0.2, 0.3, 0.4)
PAPER_STRENGTHS = (0.0, 0.05, 0.1, 0.2, 0.3, 0.4)


def run(config: Scale, runner: Runner) -> Curves:
    values = config.thinned(STRENGTHS if config.network == "perceptron" else PAPER_STRENGTHS)
    protocols = {v: config.protocol({"lr": 0.1}, regularizer="LabelNoise", strength=v) for v in values}
    return Curves(config, {"label noise": along(runner, "gc-label-noise", protocols, config.seeds, "label noise")})


def claims(result: Curves) -> list[Claim]:
    (curve,) = result.curves.values()
    return [
        monotone(curve, "label noise lowers complexity", -1, paper="falls"),
        pooled(curve, "label noise lowers complexity, all runs together", -1, paper="falls"),
    ]


def panels(result: Curves) -> list[Panel]:
    return [Panel("Label noise", result.curves["label noise"], "share of random labels in each step")]


def figure(result: Curves) -> Figure:
    from netgrain.experiments.heuristics.drawing import draw

    return draw(panels(result))
