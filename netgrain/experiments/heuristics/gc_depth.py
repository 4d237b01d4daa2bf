"""Complexity and depth at initialisation: deeper networks start simpler under Glorot and LeCun, not under He.

The mean over weights is known exactly: d · Π(σ²·width) · 2^−(L−1). It halves with every layer under LeCun and Glorot,
and is 2 × outputs at every depth under He, where only the median falls: each layer multiplies ‖Ju‖² by a factor of
mean one and variance 5/width, so that the product is nearly log-normal. ReLU perceptrons of width 100, Gaussian inputs,
without training. Cost: smoke a second, laptop about 20 s on two cores, paper the same with more networks.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import median_high
from typing import TYPE_CHECKING

from netgrain.complexity.sweeps import SweepCurve
from netgrain.experiments.claims import Claim, claim
from netgrain.experiments.heuristics.orders import monotone
from netgrain.experiments.heuristics.panels import Panel
from netgrain.experiments.heuristics.starts import at_start, expected_at_start
from netgrain.geometry.estimate import Estimate, mean
from netgrain.runtime.runners import Runner

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COST = 90  # processor seconds at laptop scale
COVERS = (90, 91)
SCHEMES = {"he": "He", "glorot": "Glorot", "lecun": "LeCun"}
WIDTH, OUTPUTS = 100, 10


@dataclass(frozen=True)
class Config:
    depths: tuple[int, ...]  # hidden layers
    networks: int  # units of He networks at each depth: their mean is compared with theory
    others: int  # units of networks of each other scheme
    seeds: int  # curves of one network per depth
    part: int = 100  # networks of one unit


PRESETS = {
    "smoke": Config(depths=(1, 2, 4), networks=1, others=1, seeds=2, part=8),
    "laptop": Config(depths=(1, 2, 4, 8, 16, 32), networks=10, others=1, seeds=5),
    "paper": Config(depths=(1, 2, 4, 8, 16, 32, 64), networks=100, others=10, seeds=5),
}


@dataclass(frozen=True, eq=False)
class Result:
    config: Config
    values: dict[str, dict[int, list[float]]]  # scheme → depth → complexities of networks

    def curve(self, scheme: str) -> SweepCurve:
        """One network per seed and depth, as anyone would look at it."""
        rows = [[self.values[scheme][d][s] for d in self.config.depths] for s in range(self.config.seeds)]
        return SweepCurve(tuple(self.config.depths), {"complexity": rows}, [[True] * len(row) for row in rows])


def run(config: Config, runner: Runner) -> Result:
    # the long ones first, so that processes end together
    asked = [
        (s, d, part)
        for d in sorted(config.depths, reverse=True)
        for s in SCHEMES
        for part in range(config.networks if s == "he" else config.others)
    ]
    units = [
        # schemes differ by factors only: with the same random numbers they would be one measurement
        {"sizes": _sizes(d), "scheme": s, "scale": 1.0, "seed": part + 1000 * order, "count": config.part}
        for s, d, part in asked
        for order in [list(SCHEMES).index(s)]
    ]
    found: dict[str, dict[int, list[float]]] = {s: {d: [] for d in config.depths} for s in SCHEMES}
    for (s, d, _), values in zip(asked, at_start(runner, "gc-depth", units, "depths"), strict=True):
        found[s][d] += values
    return Result(config, found)


def _sizes(depth: int) -> tuple[int, ...]:
    return (64, *[WIDTH] * depth, OUTPUTS)


def claims(result: Result) -> list[Claim]:
    he = {d: mean(v) for d, v in result.values["he"].items()}
    worst = max(he, key=lambda d: abs(he[d].value - 2 * OUTPUTS) / he[d].stderr)
    distance = (he[worst].value - 2 * OUTPUTS) / he[worst].stderr
    deepest = max(result.config.depths)
    lecun = mean([math.log2(v) for v in result.values["lecun"][deepest]])
    return [
        monotone(result.curve("glorot"), "depth lowers complexity under Glorot", -1, paper="falls"),
        monotone(result.curve("lecun"), "depth lowers complexity under LeCun", -1, paper="falls"),
        claim(
            "under He the mean does not depend on depth",
            f"at the worst depth the mean is within 3 standard errors of {2 * OUTPUTS}",
            Estimate(distance, 0.0, he[worst].n),
            low=-3,
            high=3,
            paper="falls",
            basis="counter",
            note=f"{worst} layers: {he[worst].value:.3g} ± {he[worst].stderr:.2g}; the median at {deepest} layers is "
            f"{median_high(result.values['he'][deepest]):.3g}",
        ),
        claim(
            f"under LeCun {deepest} layers divide complexity by 2^{deepest}",
            "the mean of log2 complexity is that of the theory, less at most the spread of a log-normal",
            lecun,
            low=math.log2(expected_at_start("lecun", _sizes(deepest))) - 2.5 * deepest / WIDTH / math.log(2) * 1.5,
            high=math.log2(expected_at_start("lecun", _sizes(deepest))),
            paper="falls",
            basis="derived",
        ),
    ]


def overview_panels(result: Result) -> list[Panel]:
    return [Panel(f"Depth at the start, {name}", result.curve(s), "hidden layers") for s, name in SCHEMES.items()]


def figure(result: Result) -> Figure:
    """One network per seed, the mean over all networks, their median, and the exact expectation."""
    from matplotlib.figure import Figure

    from netgrain.geometry.plots import COLOURS, LARGE, MEDIUM, SMALL

    figure = Figure(figsize=(12.0, 3.8), layout="constrained")
    for ax, (scheme, name) in zip(figure.subplots(1, 3), SCHEMES.items(), strict=True):
        depths = list(result.config.depths)
        for row in result.curve(scheme).numbers["complexity"]:
            ax.plot(depths, row, color=COLOURS[4], lw=0.8, alpha=0.7)
        values = result.values[scheme]
        means = [mean(values[d]) for d in depths]
        ax.errorbar(
            depths, means, yerr=[m.stderr for m in means], color=COLOURS[0], marker="o", ms=4, lw=0, elinewidth=1.4,
            capsize=3, label="mean of all networks",
        )  # fmt: skip
        ax.plot(depths, [median_high(values[d]) for d in depths], color=COLOURS[5], lw=1.6, label="median")
        theory = [expected_at_start(scheme, _sizes(d)) for d in depths]
        ax.plot(depths, theory, color="black", lw=1, ls="--", label="expectation, exact")
        ax.set(xscale="log", yscale="log")
        ax.set_xticks(depths, [str(d) for d in depths])
        ax.minorticks_off()
        ax.tick_params(labelsize=SMALL)
        ax.set_xlabel("hidden layers", fontsize=MEDIUM)
        ax.set_title(f"Depth at the start, {name}", fontsize=LARGE)
        if scheme == "he":
            ax.set_ylim(1, 200)
            ax.set_ylabel("geometric complexity", fontsize=MEDIUM)
            ax.legend(fontsize=SMALL, frameon=False)
    return figure
