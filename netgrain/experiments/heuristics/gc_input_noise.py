"""Complexity under input noise: the larger σ in x + σN(0, I), the smaller the geometric complexity.

For a squared error and an affine map the noise adds exactly (σ²/2)·GC to the loss. A ReLU perceptron 64-64-64-10 on
digits, cross-entropy, plain SGD (learning rate 0.1, batch 64) for 2,000 steps; the grid begins at 0.05, below which
the noise only augments the data and nothing falls. Cost: smoke a second, laptop about 15 s on two cores, paper for a
GPU.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from netgrain.experiments.claims import Claim
from netgrain.experiments.heuristics.orders import monotone
from netgrain.experiments.heuristics.protocol import along
from netgrain.experiments.heuristics.scales import Curves, Panel, Scale, scales
from netgrain.runtime.run_folder import Runner

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COST = 27  # processor seconds at laptop scale
Config = Scale
PRESETS = scales(steps=2000)
STRENGTHS = (0.05, 0.1, 0.2, 0.3, 0.5)
PAPER_STRENGTHS = (0.05, 0.1, 0.2, 0.3, 0.5)


def run(config: Scale, runner: Runner) -> Curves:
    values = config.thinned(STRENGTHS if config.network == "perceptron" else PAPER_STRENGTHS)
    protocols = {v: config.protocol({"lr": 0.1}, regularizer="InputNoise", strength=v) for v in values}
    return Curves(config, {"input noise": along(runner, "gc-input-noise", protocols, config.seeds, "input noise")})


def claims(result: Curves) -> list[Claim]:
    (curve,) = result.curves.values()
    return [monotone(curve, "input noise lowers complexity", -1, paper="falls")]


def panels(result: Curves) -> list[Panel]:
    return [Panel("Input noise", result.curves["input noise"], "σ")]


def figure(result: Curves) -> Figure:
    from netgrain.experiments.heuristics.drawing import draw

    return draw(panels(result))
