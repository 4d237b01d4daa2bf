"""Figure 5: a step and a circle both tell the class; which of them a network takes depends on where the step lies.

Claim: as long as the step lies in the top eigenspace of G a network takes the step, the simpler feature; once it lies
deep in the spectrum a LeNet, a ResNet18 and a ViT take the circle, which lies among the leading directions. An MLP,
whose G favours nothing, always takes the step. Each feature is tested alone, the other projected out of the test set.

Eigenvectors are counted from 0 (the circle lies along 15 and 16, for ResNet18 along 5 and 6) and drawn at random
inside an eigenspace. G is that of the GELU family at the origin (in closed form where there is one), the networks that
are trained have ReLU. At laptop scale (1 × 16 × 16, 2,000 samples) a ViT does not learn the circle in 200 steps at the
paper's noise 1, and LeNet needs 1,500, so theirs (and the MLP's) is 0.5. ResNet18 learns it at noise 1, but half of the
trials took the step even along the last direction, while at 0.5 one took the circle even along the first: its noise,
0.8, was chosen between the two with both ends in view, so its claims say that a cross-over can be seen, not that it
is there at any noise.
Cost: smoke seconds, laptop about three minutes on two cores, paper (every tenth index) for a GPU.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from torch import Tensor

from netgrain.data.synthetic import linear_and_circle, without
from netgrain.experiments.claims import Claim, claim
from netgrain.experiments.grain.drawing import GREY, dotted, error_bars, panels
from netgrain.experiments.grain.grains import COLOURS, Grain, grains_of, in_order, model_config
from netgrain.experiments.grain.trials import (
    SeededConfig,
    Trials,
    curve_of,
    difference,
    joined,
    left_out,
    open_subjects,
    settings_of,
    trained_accuracy,
    until_decided,
)
from netgrain.geometry.estimate import Estimate, mean
from netgrain.runtime.errors import NetgrainError
from netgrain.runtime.randomness import derived_seed
from netgrain.runtime.run_folder import Runner
from netgrain.runtime.units import Outcome

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COST = 337  # processor seconds at laptop scale
PARTS = ("linear", "circle", "both")
CHANCE = 50.0


@dataclass(frozen=True, kw_only=True)
class Config(SeededConfig):
    networks: dict[str, dict[str, Any]]  # indices of u1, plane of the circle, width, noise and how it is trained
    epsilon: float = 1.0
    samples: int
    tests: int
    batch: int


USUAL: dict[str, Any] = {"clip": None, "width": 1.0, "radii": [1.5, 0.25], "plane": [15, 16]}
RESNET: dict[str, Any] = {**USUAL, "radii": [3.0, 0.25], "plane": [5, 6]}
PAPER: dict[str, Any] = {"indices": [*range(0, 1024, 10)], "steps": 20 * 78, "lr": 0.1, "noise": 1.0, "clip": 0.5}

PRESETS = {
    "smoke": Config(
        size=16,
        networks={
            "MLP": dict(USUAL, indices=[0, 255], steps=20, lr=0.1, noise=0.5),
            "LeNet": dict(USUAL, indices=[0, 255], steps=20, lr=0.1, noise=0.5),
            "ResNet18": dict(RESNET, indices=[0, 255], steps=2, lr=0.05, noise=1.0, width=1 / 64),
        },
        samples=128, tests=100, batch=32, seeds=2, most_seeds=2,
    ),
    "laptop": Config(
        size=16,
        networks={
            "MLP": dict(USUAL, indices=[0, 10, 60, 255], steps=600, lr=0.1, noise=0.5),
            "LeNet": dict(USUAL, indices=[0, 20, 60, 80, 100, 140, 255], steps=1000, lr=0.15, noise=0.5, clip=1.0),
            "ResNet18": dict(RESNET, indices=[0, 20, 100, 200, 255], steps=100, lr=0.05, noise=0.8, width=1 / 8),
            "ViT": dict(USUAL, indices=[0, 255], steps=200, lr=0.1, noise=0.5, clip=0.5, width=1 / 4),
        },
        samples=2000, tests=2000, batch=128, seeds=3, most_seeds=5,
    ),
    "paper": Config(
        size=32,
        networks={
            "MLP": {**USUAL, **PAPER},
            "LeNet": {**USUAL, **PAPER, "steps": 50 * 78},
            "ResNet18": {**RESNET, **PAPER},
            "ViT": {**USUAL, **PAPER},
        },
        samples=10_000, tests=2000, batch=128, seeds=5, most_seeds=5, device="best",
    ),
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class Result:
    config: Config
    accuracy: dict[str, dict[str, list[list[float]]]]  # network → part → per cent by seed and index
    eigenspaces: dict[str, list[int]]  # network → where each eigenspace of G begins
    diverged: dict[str, int]  # network → seeds left out since a training of theirs diverged

    def gaps(self, network: str) -> list[list[float]]:
        """Linear minus non-linear accuracy, by seed and index."""
        parts = self.accuracy[network]
        return [
            [a - b for a, b in zip(*both, strict=True)] for both in zip(parts["linear"], parts["circle"], strict=True)
        ]


def run(config: Config, runner: Runner) -> Result:
    models = {n: _model(config, n, "gelu") for n in in_order(config.networks)}
    grains = grains_of(runner, models)
    return until_decided(
        runner,
        partial(_one, grains),
        partial(_units, config),
        config.seeds_of(models),
        result=partial(result_of, config, grains),
        undecided=lambda result: open_subjects(claims(result)),
    )


def _model(config: Config, network: str, activation: str) -> dict[str, Any]:
    shape, width = (1, config.size, config.size), config.networks[network]["width"]
    return model_config(network, shape, activation=activation, normed=True, width=width)


def _units(config: Config, network: str, seed: int) -> list[dict[str, Any]]:
    settings = config.networks[network]
    shared = {"figure": 5, "model": _model(config, network, "relu"), "geometry": "gelu", "seed": seed}
    shared |= config.some("epsilon", "samples", "tests", "batch", "device")
    shared |= {key: settings[key] for key in ("steps", "lr", "noise", "clip", "radii", "plane")}
    return [{**shared, "index": index} for index in settings["indices"]]


def result_of(config: Config, grains: Mapping[str, Grain], trials: Mapping[str, Trials]) -> Result:
    scores = {n: {part: list(t.per_cent(part).values()) for part in PARTS} for n, t in trials.items()}
    starts = {n: [start for start, _ in grains[n].blocks] for n in trials}
    return Result(config, scores, starts, {n: t.left_out for n, t in trials.items()})


def _one(grains: Mapping[str, Grain], unit: Mapping[str, Any]) -> Outcome:
    """Train one network on both features; its accuracy on each of them alone and on both."""
    seed = unit["seed"]
    u1, u2, u3 = axes(grains[unit["model"]["network"]], unit["index"], unit["plane"], seed)
    features: dict[str, Any] = {"epsilon": unit["epsilon"], "radii": tuple(unit["radii"]), "noise": unit["noise"]}
    train, test = (
        linear_and_circle(u1, u2, u3, unit[part], seed=derived_seed(seed, "fig5", part), **features)
        for part in ("samples", "tests")
    )
    alone = {"linear": without(test, u2, u3), "circle": without(test, u1), "both": test}
    tests = {part: (data.X, data.y) for part, data in alone.items()}
    return Outcome(trained_accuracy(unit, train.X, train.y, settings_of(unit, steps=unit["steps"]), tests))


def axes(grain: Grain, index: int, plane: Sequence[int], seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """The step's direction and the two of the circle, orthonormal: each stays inside its own eigenspace."""
    u2 = grain.direction(plane[0], seed)
    u3 = _orthogonal(grain.direction(plane[1], seed), u2)
    return _orthogonal(grain.direction(index, seed), u2, u3), u2, u3


def _orthogonal(u: Tensor, *others: Tensor) -> Tensor:
    for _ in range(2):  # twice, for the rounding of the first time
        for v in others:
            u = u - (u * v).sum() * v
        length = float(u.norm())
        if length < 1e-3:
            raise NetgrainError(
                "the step lies in the plane of the circle, expected a third direction; choose another index."
            )
        u = u / length
    return u


def crossing(indices: Sequence[int], gaps: Sequence[float]) -> float:
    """log₂(index + 1) where the gap first falls below zero, interpolated on that scale.

    A gap that is negative from the start, or never, gets a value one octave outside the grid.

    >>> crossing([0, 3, 15], [10.0, 10.0, -10.0])
    3.0
    >>> crossing([0, 3, 15], [10.0, 10.0, 10.0]), crossing([0, 3, 15], [-1.0, -1.0, -1.0])
    (5.0, -1.0)
    """
    x = [math.log2(index + 1) for index in indices]
    if gaps[0] < 0:
        return x[0] - 1
    for i in range(1, len(x)):
        before, after = gaps[i - 1], gaps[i]
        if after < 0:
            return x[i - 1] + (x[i] - x[i - 1]) * before / (before - after)
    return x[-1] + 1


# --- claims -------------------------------------------------------------------------------------------------------


def claims(result: Result) -> list[Claim]:
    return [c for network in in_order(result.accuracy) for c in _claims(result, network)]


def _claims(result: Result, network: str) -> list[Claim]:
    gaps, note = result.gaps(network), _note(result, network)
    judged = partial(claim, subject=network)
    if network == "MLP":
        smallest = "the smallest gap of each seed, which selection makes too small; G ∝ I, so indices are repetitions"
        always = judged(
            "always the linear part",
            "linear minus non-linear accuracy is positive at every index",
            difference([min(gap) for gap in gaps]),
            low=0,
            paper="linear part perfect, non-linear part at chance, at all indices",
            note=joined(smallest, note),
        )
        return [always]
    top = judged(
        "linear part wins at the top",
        "linear minus non-linear accuracy is positive when u₁ is in the first eigenspace",
        difference([gap[0] for gap in gaps]),
        low=0,
        paper="linear part perfect, non-linear part at chance",
        note=note,
    )
    bottom = judged(
        "circle wins at the bottom",
        "linear minus non-linear accuracy is negative when u₁ is in the last eigenspace of the grid",
        difference([gap[-1] for gap in gaps]),
        high=0,
        paper="non-linear part learnt, contrary to a bias towards the simple",
        note=note,
    )
    if len(result.eigenspaces[network]) <= 2:
        return [top, bottom]
    indices = result.config.networks[network]["indices"]
    places = [crossing(indices, gap) for gap in gaps]
    first, last = (math.log2(i + 1) for i in (indices[0], indices[-1]))
    outside = sum(not first <= p <= last for p in places)
    crossover = judged(
        "cross-over",
        f"log₂(index + 1) where both parts are equal lies inside the grid of indices {indices[0]} to {indices[-1]}",
        mean(places),
        low=first,
        high=last,
        paper="gradually more non-linear with the index",
        note=joined(_as_index(mean(places)), f"{outside} of {len(places)} seeds do not cross" if outside else "", note),
    )
    return [top, bottom, crossover]


def _as_index(place: Estimate) -> str:
    if not math.isfinite(place.value):
        return ""
    if math.isnan(place.stderr):
        return f"index {2**place.value - 1:.0f}"
    a, b = place.interval(0.95)
    return f"index {2**place.value - 1:.0f}, 95 % interval {max(2**a - 1, 0):.0f} to {2**b - 1:.0f}"


def _note(result: Result, network: str) -> str:
    both = curve_of(result.accuracy[network]["both"])
    seen = f"with both parts at least {min(p.value for p in both):.0f} %" if both else ""
    return joined(seen, left_out(result.diverged[network]))


# --- drawing ------------------------------------------------------------------------------------------------------


def figure(result: Result) -> Figure:
    title = "A step along u₁ and a circle in the plane of two leading directions, each tested alone"
    columns = len(result.accuracy)
    figure, axes = panels(title, (3.3 * columns, 3.6), rows=1, columns=columns, sharey=True)
    for ax, network in zip(axes, in_order(result.accuracy), strict=True):
        _panel(ax, result, network)
    axes[0].set_ylabel("test accuracy (%)")
    axes[0].legend(fontsize=9, loc="center left", frameon=False)
    return figure


def _panel(ax: Axes, result: Result, network: str) -> None:
    indices = result.config.networks[network]["indices"]
    curves = result.accuracy[network]
    looks: dict[str, dict[str, Any]] = {
        "linear": {"color": COLOURS[network], "marker": "o", "label": "step (linear)"},
        "circle": {"color": "#000000", "marker": "s", "ls": "--", "mfc": "white", "label": "circle (non-linear)"},
    }
    borders = result.eigenspaces[network]
    two = len(borders) == 2
    for part, look in looks.items():
        if two:
            look["ls"] = "none"  # two eigenspaces are compared, nothing lies between
        if points := curve_of(curves[part]):
            error_bars(ax, indices, points, ms=4.5, capsize=2.5, lw=1.6, **look)
    dotted(ax, CHANCE)
    if two:
        for side, text in (("right", "first eigenspace "), ("left", " second")):
            ax.annotate(text, (borders[1], 43), fontsize=7, color="#666666", ha=side)
        ax.axvline(borders[1], color=GREY, lw=0.8)
    ax.set_xscale("symlog", linthresh=10, linscale=0.6)
    ax.set(xlim=(-0.8, 1.25 * indices[-1]), ylim=(40, 103), xlabel="index of u₁ in the spectrum of G")
    ax.set_title(f"{network}, {len(curves['linear'])} seeds", fontsize=11)
