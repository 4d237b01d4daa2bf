"""Complexity under flatness: SAM with a larger radius and a larger penalty on ‖∇L‖² give smaller geometric complexity.

Both also change how fast a network fits, so trainings are compared at the same training loss: SAM at a cross-entropy
of 0.02 (learning rate 0.1), the gradient norm at a squared error of 0.05 (learning rate 0.05; penalties from 3 on
diverge). A ReLU perceptron 64-64-64-10 on digits, plain SGD, batch 64. At fixed steps the effect drowns. Cost: smoke
a second, laptop about 45 s on two cores, paper for a GPU.
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

COST = 94  # processor seconds at laptop scale
Config = Scale
PRESETS = scales(steps=20_000)
RADII = (0.0, 0.05, 0.1, 0.2, 0.3, 0.5)
PENALTIES = (0.0, 0.05, 0.1, 0.3, 0.6, 1.0)


def run(config: Scale, runner: Runner) -> Curves:
    to_entropy = {"lr": 0.1, "stop_at_loss": 0.02, "stop_every": 10}
    to_error = {"lr": 0.05, "loss": "mse", "stop_at_loss": 0.05, "stop_every": 10}
    sam = {v: config.protocol(to_entropy, regularizer="SAM", strength=v) for v in config.thinned(RADII)}
    norm = {v: config.protocol(to_error, regularizer="GradientNorm", strength=v) for v in config.thinned(PENALTIES)}
    return Curves(
        config,
        {
            "SAM": along(runner, "gc-flatness", sam, config.seeds, "SAM"),
            "gradient norm": along(runner, "gc-flatness", norm, config.seeds, "gradient norm"),
        },
    )


def claims(result: Curves) -> list[Claim]:
    return [
        monotone(result.curves["SAM"], "SAM lowers complexity at the same loss", -1, paper="falls"),
        monotone(
            result.curves["gradient norm"],
            "the gradient norm penalty lowers complexity at the same loss",
            -1,
            paper="falls",
        ),
    ]


def panels(result: Curves) -> list[Panel]:
    return [
        Panel("SAM, at cross-entropy 0.02", result.curves["SAM"], "radius"),
        Panel("Gradient norm, at squared error 0.05", result.curves["gradient norm"], "α, loss + α‖∇L‖²"),
    ]


def figure(result: Curves) -> Figure:
    from netgrain.experiments.heuristics.drawing import draw

    return draw(panels(result))
