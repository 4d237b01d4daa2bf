"""Complexity in one dimension: large steps and small initial weights give short curves through noisy points.

One hidden layer of 100 ReLU units fits 20 points of sin 3x with noise by full-batch gradient descent on half the mean
squared error, all runs for the same time (learning rate × steps = 500). Below the edge of stability, 2 / sharpness,
runs of all learning rates end at the same curve; above it they cannot keep a sharp one, and the arc gets shorter.
Complexity is measured on a dense grid, since 20 points are too few. Units that are off at all points are counted: the
largest steps kill some networks whole. Cost: smoke a second, laptop about 25 s on two cores, paper the same with more
seeds.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from netgrain.complexity.sweeps import SweepCurve
from netgrain.experiments.claims import Claim, claim
from netgrain.experiments.heuristics.orders import monotone
from netgrain.experiments.heuristics.panels import Panel
from netgrain.geometry.estimate import Estimate
from netgrain.runtime.randomness import derived_seed
from netgrain.runtime.runners import Runner
from netgrain.runtime.units import Outcome
from netgrain.training.settings import Settings
from netgrain.training.trained_members import train_member

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COST = 87  # processor seconds at laptop scale
COVERS = (88, 90)
HIDDEN, SAMPLES, NOISE = 100, 20, 0.3
GRID = 1001
SHARP = 1.05  # a curve may be this much sharper than 2 / learning rate at the moment it is looked at


@dataclass(frozen=True)
class Config:
    rates: tuple[float, ...]
    scales: tuple[float, ...]  # of the initial weights, at half the smallest learning rate
    time: float  # learning rate × steps
    seeds: int


PRESETS = {
    "smoke": Config(rates=(0.04, 0.16, 0.32), scales=(0.5, 1.0, 1.5), time=10.0, seeds=2),
    "laptop": Config(
        rates=(0.04, 0.08, 0.12, 0.16, 0.24, 0.32), scales=(0.25, 0.5, 1.0, 1.5, 2.0), time=500.0, seeds=5
    ),
    "paper": Config(
        rates=(0.02, 0.04, 0.08, 0.12, 0.16, 0.24, 0.32), scales=(0.25, 0.5, 1.0, 1.5, 2.0), time=500.0, seeds=20
    ),
}


@dataclass(frozen=True, eq=False)
class Result:
    config: Config
    rates: SweepCurve
    scales: SweepCurve
    data: tuple[Tensor, Tensor]  # of the first seed
    fits: dict[float, Tensor]  # learning rate → curve of the first seed on the grid
    sharpest: float  # largest sharpness × learning rate / 2 at the end of any run
    dead: dict[float, float]  # learning rate → mean share of units that are off at all points


def run(config: Config, runner: Runner) -> Result:
    base: dict[str, Any] = {"experiment": "gc-regression", "time": config.time}
    by_rate = [{**base, "lr": r, "scale": 1.0, "seed": s} for s in range(config.seeds) for r in config.rates]
    # half the smallest learning rate, which large initial weights can still take, for half the time
    slow = {**base, "lr": min(config.rates) / 2, "time": config.time / 2}
    by_scale = [{**slow, "scale": c, "seed": s} for s in range(config.seeds) for c in config.scales]
    outcomes = runner.map(_fit, by_rate + by_scale, "fits")
    rated, scaled = outcomes[: len(by_rate)], outcomes[len(by_rate) :]
    first = {u["lr"]: o.arrays["curve"] for u, o in zip(by_rate, rated, strict=True) if u["seed"] == 0}
    finished = [(u, o.numbers) for u, o in zip(by_rate, rated, strict=True) if not o.numbers["diverged"]]
    dead = {r: [n["dead"] for u, n in finished if u["lr"] == r] for r in config.rates}
    return Result(
        config,
        _curve(tuple(config.rates), rated),
        _curve(tuple(config.scales), scaled),
        points(0),
        first,
        max((n["sharpness"] * u["lr"] / 2 for u, n in finished), default=math.nan),
        {r: sum(v) / len(v) if v else math.nan for r, v in dead.items()},
    )


def _curve(values: tuple[float, ...], outcomes: list[Outcome]) -> SweepCurve:
    rows = [outcomes[i : i + len(values)] for i in range(0, len(outcomes), len(values))]
    names = ("complexity", "arc", "train_loss")
    numbers = {n: [[math.nan if o.numbers["diverged"] else o.numbers[n] for o in row] for row in rows] for n in names}
    return SweepCurve(values, numbers, [[not o.numbers["diverged"] for o in row] for row in rows])


def points(seed: int) -> tuple[Tensor, Tensor]:
    """(x, y) of a seed, both (SAMPLES, 1)."""
    generator = torch.Generator().manual_seed(derived_seed(seed, "one dimension"))
    x = torch.linspace(-1, 1, SAMPLES)[:, None]
    return x, torch.sin(3 * x) + NOISE * torch.randn(SAMPLES, 1, generator=generator)


def _network(scale: float) -> nn.Sequential:
    """He's weights, kinks spread over the interval by uniform biases; all of them times a scale."""
    first, last = nn.Linear(1, HIDDEN), nn.Linear(HIDDEN, 1)
    nn.init.normal_(first.weight, std=scale * math.sqrt(2))
    nn.init.uniform_(first.bias, -scale, scale)
    nn.init.normal_(last.weight, std=scale * math.sqrt(2 / HIDDEN))
    nn.init.zeros_(last.bias)
    return nn.Sequential(first, nn.ReLU(), last)


def _fit(unit: Mapping[str, Any]) -> Outcome:
    x, y = points(unit["seed"])
    make = partial(_network, unit["scale"])
    settings = Settings(loss="mse", lr=unit["lr"], momentum=0.0, batch=None, steps=round(unit["time"] / unit["lr"]))
    trained = train_member(make, x, y, settings, seed=unit["seed"], i=0)
    grid = torch.linspace(-1, 1, GRID)[:, None]
    if trained.diverged:
        return Outcome({"diverged": True}, {"curve": torch.full((GRID,), math.nan)})
    net = trained.model(make)
    with torch.enable_grad():
        where = grid.clone().requires_grad_(True)
        curve = net(where)
        (slope,) = torch.autograd.grad(curve.sum(), where)
    hidden = net.get_submodule("0")
    numbers = {
        "diverged": False,
        "complexity": float(slope.square().mean()),
        "arc": 2 * float((1 + slope.square()).sqrt().mean()),
        "train_loss": float((net(x) - y).square().mean() / 2),
        "sharpness": _sharpness(net, x),
        "dead": float((hidden(x) <= 0).all(0).float().mean()),
    }
    return Outcome(numbers, {"curve": curve.detach().squeeze(1)})


def _sharpness(net: nn.Module, x: Tensor) -> float:
    """Largest eigenvalue of the Gauss–Newton matrix JᵀJ/n of the loss, through J Jᵀ/n (n × n)."""
    weights = [p.requires_grad_(True) for p in net.parameters()]
    with torch.enable_grad():
        rows = [torch.autograd.grad(net(one[None]).sum(), weights) for one in x]
    J = torch.stack([torch.cat([g.flatten() for g in row]) for row in rows]).double()
    return float(torch.linalg.eigvalsh(J @ J.T / len(x))[-1])


def claims(result: Result) -> list[Claim]:
    return [
        monotone(result.rates, "larger steps lower complexity in one dimension", -1, paper="falls"),
        monotone(result.rates, "larger steps give shorter curves", -1, measure="arc", paper="falls"),
        monotone(result.scales, "smaller initial weights give shorter curves", 1, measure="arc", paper="rises"),
        claim(
            "no run ends sharper than its steps allow",
            f"sharpness is at most {SHARP} × 2 / learning rate in every run",
            Estimate(result.sharpest, 0.0, result.rates.seeds * len(result.rates.values)),
            high=SHARP,
            paper="implicit regularisation by the size of steps",
            basis="derived",
            note="the largest sharpness × learning rate / 2 at the end of a run",
        ),
    ]


def overview_panels(result: Result) -> list[Panel]:
    return [
        Panel("One dimension, learning rate", result.rates, "learning rate"),
        Panel("One dimension, initial scale", result.scales, "scale of the weights, He = 1"),
    ]


def figure(result: Result) -> Figure:
    from matplotlib.figure import Figure

    from netgrain.experiments.heuristics.drawing import complexity
    from netgrain.geometry.plots import COLOURS, LARGE, MARK, MEDIUM, SMALL

    figure = Figure(figsize=(13.0, 4.2), layout="constrained")
    left, middle, right = figure.subplots(1, 3, width_ratios=[1.5, 1, 1])
    x, y = result.data
    grid = torch.linspace(-1, 1, GRID)
    shown = result.config.rates[::2]
    for rate, colour in zip(shown, (COLOURS[0], COLOURS[1], COLOURS[5]), strict=False):
        arc = result.rates.numbers["arc"][0][result.rates.values.index(rate)]
        label = f"learning rate {rate:g}: arc {arc:.2f}, {result.dead[rate]:.0%} of units dead on average"
        left.plot(grid, result.fits[rate], color=colour, lw=1.8, label=label)
    left.plot(grid, torch.sin(3 * grid), color="black", lw=1, ls="--", label="sin 3x")
    left.scatter(x, y, s=18, color=MARK, zorder=3, label="samples")
    left.set_title("Fits of one seed after the same time", fontsize=LARGE)
    left.legend(fontsize=SMALL, frameon=False)
    left.tick_params(labelsize=SMALL)
    for ax, panel in zip((middle, right), overview_panels(result), strict=True):
        complexity(panel, ax)
        ax.set_title(panel.title, fontsize=LARGE)
        ax.set_xlabel(panel.setting, fontsize=MEDIUM)
        ax.set_ylabel("mean squared slope on the grid", fontsize=MEDIUM)
    return figure
