"""Complexity and double descent: it peaks where the test error peaks, at as many random features as samples.

Minimum-norm least squares on p random ReLU features of n = 100 points in 20 dimensions, where everything is closed
form: the slope at x is Wᵀ diag(1[Wx > 0]) a. Cost: smoke a second, laptop a few seconds, paper the same with more
seeds.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from netgrain.complexity.sweeps import SweepCurve, spearman
from netgrain.experiments.claims import ROUNDING, Claim, claim
from netgrain.experiments.heuristics.panels import Panel
from netgrain.geometry.estimate import Estimate, mean
from netgrain.runtime.randomness import derived_seed
from netgrain.runtime.runners import Runner
from netgrain.runtime.units import Outcome

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COST = 1  # processor seconds at laptop scale
COVERS = (94,)
DIMENSION, NOISE, TESTS = 20, 0.3, 2000
FEATURES = (10, 20, 30, 40, 60, 80, 100, 120, 150, 200, 300, 500, 1000)


@dataclass(frozen=True)
class Config:
    features: tuple[int, ...]
    samples: int
    seeds: int


PRESETS = {
    "smoke": Config(features=(10, 40, 80), samples=40, seeds=2),
    "laptop": Config(FEATURES, samples=100, seeds=20),
    "paper": Config(FEATURES, samples=100, seeds=50),
}


@dataclass(frozen=True, eq=False)
class Result:
    config: Config
    curve: SweepCurve  # complexity and test error against the number of features

    def peaks(self, measure: str = "complexity") -> int:
        """The number of seeds in which a measure is largest at as many features as samples."""
        rows = self.curve.numbers[measure]
        return sum(self.curve.values[row.index(max(row))] == self.config.samples for row in rows)


def run(config: Config, runner: Runner) -> Result:
    units = [
        {"experiment": "gc-double-descent", "samples": config.samples, "seed": s, "features": list(config.features)}
        for s in range(config.seeds)
    ]
    outcomes = runner.map(_fit, units, "fits")
    numbers = {name: [o.numbers[name] for o in outcomes] for name in ("complexity", "error")}
    return Result(
        config, SweepCurve(tuple(config.features), numbers, [[True] * len(config.features) for _ in outcomes])
    )


def _fit(unit: Mapping[str, Any]) -> Outcome:
    generator = torch.Generator().manual_seed(derived_seed(unit["seed"], "double descent"))

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    n, most = unit["samples"], max(unit["features"])
    truth = normal(DIMENSION) / DIMENSION**0.5
    X, X_test, W_all = normal(n, DIMENSION), normal(TESTS, DIMENSION), normal(most, DIMENSION) / DIMENSION**0.5
    y, y_test = X @ truth + NOISE * normal(n), X_test @ truth
    complexity, error = [], []
    for p in unit["features"]:
        W = W_all[:p]
        a = torch.linalg.pinv((X @ W.T).relu()) @ y  # the solution of smallest norm
        slopes = ((X @ W.T > 0) * a) @ W  # (n, d)
        complexity.append(float(slopes.square().sum(1).mean()))
        error.append(float(((X_test @ W.T).relu() @ a - y_test).square().mean()))
    return Outcome({"complexity": complexity, "error": error})


def claims(result: Result) -> list[Claim]:
    rows = list(zip(result.curve.numbers["complexity"], result.curve.numbers["error"], strict=True))
    at_n, seeds = result.peaks(), result.curve.seeds
    together = [spearman(row, error) for row, error in rows]
    return [
        claim(
            "complexity peaks at as many features as samples",
            "in every seed",
            Estimate(at_n / seeds, 0.0, seeds),
            low=1 - ROUNDING,
            paper="follows double descent",
            note=f"{at_n} of {seeds} seeds; the test error in {result.peaks('error')}",
        ),
        claim(
            "complexity falls again with more features, as the test error does",
            "the logarithm (base 10) of its peak over both ends is at least 1",
            mean([math.log10(max(row) / max(row[0], row[-1])) for row, _ in rows]),
            low=1.0,
            paper="follows double descent",
            note=f"of the test error: {mean([math.log10(max(e) / max(e[0], e[-1])) for _, e in rows]).value:.2f}; "
            f"rank correlation of the two over all numbers of features {mean(together)!r}",
        ),
    ]


def overview_panels(result: Result) -> list[Panel]:
    n, seeds = result.config.samples, result.curve.seeds
    caption = f"peak at {n} features = samples in {result.peaks()} of {seeds} seeds"
    return [Panel("Double descent", result.curve, "random features", caption=caption)]


def figure(result: Result) -> Figure:
    from matplotlib.figure import Figure

    from netgrain.geometry.plots import COLOURS, LARGE, MARK, MEDIUM, SMALL

    figure = Figure(figsize=(6.4, 4.2), layout="constrained")
    ax = figure.subplots()
    curve = result.curve
    for name, colour, label in (
        ("complexity", COLOURS[0], "geometric complexity"),
        ("error", COLOURS[5], "test error"),
    ):
        for row in curve.numbers[name]:
            ax.plot(curve.values, row, color=colour, lw=0.7, alpha=0.4)
        ax.plot(curve.values, [m.value for m in curve.means(name)], color=colour, lw=2, marker="o", ms=3.5, label=label)
    ax.axvline(result.config.samples, color=MARK, lw=1, ls="--", label=f"{result.config.samples} samples")
    ax.set(xscale="log", yscale="log")
    ax.set_xlabel("random features", fontsize=MEDIUM)
    ax.tick_params(labelsize=SMALL)
    ax.legend(fontsize=SMALL, frameon=False)
    ax.set_title(f"Minimum-norm fits of {curve.seeds} seeds (thin) and their mean", fontsize=LARGE)
    return figure
