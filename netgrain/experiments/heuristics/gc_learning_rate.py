"""Complexity and the learning rate: larger steps give smaller complexity, where losses are comparable and steps large.

Three protocols show it: squared error stopped at 0.05 from an initialisation 1.5 times He's, with learning rates up
to the edge of stability; cross-entropy with labels smoothed by 0.1; and plain cross-entropy with complexity over the
squared median margin. The trap is shown beside them: under plain cross-entropy for a fixed number of steps raw
complexity *rises*, because larger steps grow the margins faster. A ReLU perceptron 64-64-64-10 on digits, plain SGD.
Cost: smoke a second, laptop about a minute on two cores, paper for a GPU.
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

COST = 64  # processor seconds at laptop scale
Config = Scale
PRESETS = scales(steps=20_000)
ERROR_RATES = (0.02, 0.04, 0.08, 0.12, 0.16, 0.24)
SMOOTHED_RATES = (0.02, 0.05, 0.1, 0.2, 0.4)
ENTROPY_RATES = (0.05, 0.1, 0.2, 0.5, 1.0)
FIXED_STEPS = 2000


def run(config: Scale, runner: Runner) -> Curves:
    error = {"loss": "mse", "batch": 32, "stop_at_loss": 0.05, "stop_every": 10}
    steps = {"steps": min(FIXED_STEPS, config.steps)} if config.network == "perceptron" else {}
    protocols = {
        "squared error": {v: config.protocol({**error, "lr": v}, scale=1.5) for v in config.thinned(ERROR_RATES)},
        "smoothed labels": {
            v: config.protocol({**steps, "lr": v, "label_smoothing": 0.1}, scale=1.5)
            for v in config.thinned(SMOOTHED_RATES)
        },
        "cross-entropy": {v: config.protocol({**steps, "lr": v}) for v in config.thinned(ENTROPY_RATES)},
    }
    return Curves(
        config, {name: along(runner, "gc-learning-rate", p, config.seeds, name) for name, p in protocols.items()}
    )


def claims(result: Curves) -> list[Claim]:
    entropy = result.curves["cross-entropy"]
    return [
        monotone(
            result.curves["squared error"], "larger steps lower complexity at the same squared error", -1, paper="falls"
        ),
        monotone(
            result.curves["smoothed labels"], "larger steps lower complexity with smoothed labels", -1, paper="falls"
        ),
        monotone(
            entropy,
            "larger steps lower complexity over squared margin",
            -1,
            measure="margin_complexity",
            what="complexity over the squared median margin",
            paper="falls (of raw complexity)",
        ),
        monotone(
            entropy,
            "at fixed steps of plain cross-entropy raw complexity rises",
            1,
            paper="falls; at this protocol margins grow faster instead",
        ),
    ]


def panels(result: Curves) -> list[Panel]:
    entropy = result.curves["cross-entropy"]
    return [
        Panel("Learning rate, at squared error 0.05", result.curves["squared error"], "learning rate"),
        Panel("Learning rate, smoothed labels", result.curves["smoothed labels"], "learning rate"),
        Panel(
            "Learning rate, margin-normalised",
            entropy,
            "learning rate",
            "margin_complexity",
            "complexity / median margin²",
        ),
        Panel("Learning rate, the trap: raw, cross-entropy", entropy, "learning rate"),
    ]


def figure(result: Curves) -> Figure:
    from netgrain.experiments.heuristics.drawing import draw

    return draw(panels(result))
