"""Complexity and the batch size: smaller batches give smaller geometric complexity.

Two protocols: squared error stopped at 0.05 (learning rate 0.1), and cross-entropy with labels smoothed by 0.1 for
1,500 steps; both from an initialisation 1.5 times He's. A ReLU perceptron 64-64-64-10 on digits, plain SGD. Cost:
smoke a second, laptop about 20 s on two cores, paper for a GPU.
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

COST = 39  # processor seconds at laptop scale
Config = Scale
PRESETS = scales(steps=20_000)
ERROR_SIZES = (4, 8, 16, 32, 64, 128)
SMOOTHED_SIZES = (4, 8, 16, 32, 64)
PAPER_SIZES = (16, 32, 64, 128, 256, 512)
FIXED_STEPS = 1500


def run(config: Scale, runner: Runner) -> Curves:
    error = {"lr": 0.1, "loss": "mse", "stop_at_loss": 0.05, "stop_every": 10}
    smoothed = {"lr": 0.1, "label_smoothing": 0.1}
    if config.network == "perceptron":
        smoothed["steps"] = min(FIXED_STEPS, config.steps)
    sizes = (ERROR_SIZES, SMOOTHED_SIZES) if config.network == "perceptron" else (PAPER_SIZES, PAPER_SIZES)
    curves = {}
    for name, settings, grid in (("squared error", error, sizes[0]), ("smoothed labels", smoothed, sizes[1])):
        protocols = {v: config.protocol({**settings, "batch": int(v)}, scale=1.5) for v in config.thinned(grid)}
        curves[name] = along(runner, "gc-batch-size", protocols, config.seeds, name)
    return Curves(config, curves)


def claims(result: Curves) -> list[Claim]:
    return [
        monotone(curve, f"larger batches raise complexity ({name})", 1, paper="smaller batches lower it")
        for name, curve in result.curves.items()
    ]


def panels(result: Curves) -> list[Panel]:
    return [
        Panel("Batch size, at squared error 0.05", result.curves["squared error"], "batch size"),
        Panel("Batch size, smoothed labels", result.curves["smoothed labels"], "batch size"),
    ]


def figure(result: Curves) -> Figure:
    from netgrain.experiments.heuristics.drawing import draw

    return draw(panels(result))
