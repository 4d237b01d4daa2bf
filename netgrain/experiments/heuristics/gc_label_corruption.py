"""Complexity of memorising: the more training labels are wrong once and for all, the larger the geometric complexity.

The counterpart of gc-label-noise: wrong labels that stay must be interpolated, which takes steeper slopes. A ReLU
perceptron 64-128-128-10 on 400 digits, cross-entropy, momentum 0.9, batch 32, stopped at a training loss of 0.01.
Cost: smoke a second, laptop about 10 s on two cores, paper for a GPU.
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

COST = 28  # processor seconds at laptop scale
Config = Scale
PRESETS = scales(steps=20_000)
SHARES = (0.0, 0.1, 0.2, 0.4, 0.7, 1.0)


def run(config: Scale, runner: Runner) -> Curves:
    settings = {"lr": 0.02, "momentum": 0.9, "batch": 32, "stop_at_loss": 0.01, "stop_every": 10}
    protocols = {
        v: config.protocol(settings, samples=min(400, config.samples), hidden=(128, 128), corrupted=v)
        for v in config.thinned(SHARES)
    }
    return Curves(config, {"corruption": along(runner, "gc-label-corruption", protocols, config.seeds, "corruption")})


def claims(result: Curves) -> list[Claim]:
    return [
        monotone(
            result.curves["corruption"],
            "labels that are wrong for good raise complexity",
            1,
            paper="rises (random labels)",
        )
    ]


def panels(result: Curves) -> list[Panel]:
    return [Panel("Label corruption (memorised)", result.curves["corruption"], "share of labels replaced for good")]


def figure(result: Curves) -> Figure:
    from netgrain.experiments.heuristics.drawing import draw

    return draw(panels(result))
