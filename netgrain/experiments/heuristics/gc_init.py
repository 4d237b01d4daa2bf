"""Complexity and the initialisation: smaller weights at the start give smaller complexity, at the start and at the end.

At initialisation a bias-free ReLU network with L layers has complexity ∝ scale^(2L), an identity seed by seed, and for
each scheme the mean E GC = d · Π(σ²·width) · 2^−(L−1), exact at any width. After training to a cross-entropy of 0.02
(400 digits, momentum 0.9, learning rate 0.01) the order is still that of the start, from 0.75 of He's scale on. Cost:
smoke a second, laptop about 10 s on two cores, paper for a GPU.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from netgrain.complexity.sweeps import SweepCurve
from netgrain.experiments.claims import Claim, claim
from netgrain.experiments.heuristics.orders import monotone
from netgrain.experiments.heuristics.protocol import along
from netgrain.experiments.heuristics.scales import Panel, Scale, scales
from netgrain.experiments.heuristics.starts import at_start, expected_at_start
from netgrain.geometry.estimate import Estimate, mean
from netgrain.runtime.run_folder import Runner

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COST = 17  # processor seconds at laptop scale
Config = Scale
PRESETS = scales(steps=20_000)
START_SCALES = (0.25, 0.5, 0.75, 1.0, 1.5, 2.0)
END_SCALES = (0.75, 1.0, 1.5, 2.0, 3.0)
SCHEMES = ("he", "glorot", "lecun", "torch")
SIZES = (64, 100, 100, 10)
NETWORKS = 300  # fresh networks of each scheme


@dataclass(frozen=True, eq=False)
class Result:
    config: Scale
    start: SweepCurve
    end: SweepCurve
    schemes: dict[str, list[float]]  # complexities of fresh networks


def run(config: Scale, runner: Runner) -> Result:
    steps, count = config.thinned(START_SCALES), NETWORKS if config.every == 1 else 20
    he = {"sizes": list(SIZES), "scheme": "he", "scale": 1.0}
    singles = [{**he, "scale": c, "seed": s, "count": 1} for s in range(config.seeds) for c in steps]
    # schemes differ by factors only: with the same random numbers they would be one measurement
    many = [{**he, "scheme": s, "seed": 100 + i, "count": count} for i, s in enumerate(SCHEMES)]
    flat = [v for (v,) in at_start(runner, "gc-init", singles, "initialisations")]
    rows = [flat[i : i + len(steps)] for i in range(0, len(flat), len(steps))]
    settings = {"lr": 0.01, "momentum": 0.9, "stop_at_loss": 0.02, "stop_every": 10}
    protocols = {
        v: config.protocol(settings, samples=min(400, config.samples), scale=v) for v in config.thinned(END_SCALES)
    }
    return Result(
        config,
        SweepCurve(steps, {"complexity": rows}, [[True] * len(steps) for _ in rows]),
        along(runner, "gc-init", protocols, config.seeds, "trainings"),
        dict(zip(SCHEMES, at_start(runner, "gc-init", many, "schemes"), strict=True)),
    )


def claims(result: Result) -> list[Claim]:
    power = 2 * (len(SIZES) - 1)
    ends = (0, len(result.start.values) - 1)
    ratio = math.log(result.start.values[ends[1]] / result.start.values[ends[0]])
    slopes = [math.log(row[ends[1]] / row[ends[0]]) / ratio for row in result.start.numbers["complexity"]]
    return [
        claim(
            f"complexity at the start grows with the power {power} of the scale",
            f"the slope of log complexity in log scale is {power} to 0.001",
            mean(slopes),
            low=power - 0.001,
            high=power + 0.001,
            paper="grows with the scale of the initialisation",
            note="an identity: without biases a ReLU network is homogeneous",
        ),
        monotone(result.start, "larger initial weights raise complexity at the start", 1, paper="rises"),
        monotone(result.end, "larger initial weights raise complexity after training", 1, paper="rises"),
        *(
            claim(
                f"{scheme} initialisation has the predicted complexity",
                f"the mean over networks is within 3 standard errors of {expected_at_start(scheme, SIZES):.4g}",
                Estimate((m.value - expected_at_start(scheme, SIZES)) / m.stderr, 0.0, m.n),
                low=-3,
                high=3,
                paper="common initialisations have low complexity",
                note=f"mean {m.value:.4g} ± {m.stderr:.2g}; the value is their distance in standard errors",
            )
            for scheme, values in result.schemes.items()
            for m in [mean(values)]
        ),
    ]


def panels(result: Result) -> list[Panel]:
    return [
        Panel("Initial scale, at the start", result.start, "scale of the weights, He = 1"),
        Panel("Initial scale, after training", result.end, "scale of the weights, He = 1"),
    ]


def figure(result: Result) -> Figure:
    from netgrain.experiments.heuristics.drawing import draw

    return draw(panels(result))
