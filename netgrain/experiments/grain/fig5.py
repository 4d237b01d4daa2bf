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
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from torch import Tensor

from netgrain.data.synthetic import linear_and_circle, without
from netgrain.experiments.claims import UNDECIDED, Claim, claim
from netgrain.experiments.grain.grains import (
    COLOURS,
    Grain,
    device_named,
    grains_of,
    make_of,
    model_config,
    until_decided,
)
from netgrain.experiments.grain.pruning import difference
from netgrain.geometry.estimate import Estimate, mean
from netgrain.runtime.errors import NetgrainError
from netgrain.runtime.randomness import derived_seed
from netgrain.runtime.run_folder import Runner
from netgrain.runtime.units import Outcome
from netgrain.training.loop import accuracy
from netgrain.training.settings import Settings
from netgrain.training.trained_members import train_member

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COST = 337  # processor seconds at laptop scale
NETWORKS = ("MLP", "LeNet", "ResNet18", "ViT")
PARTS = ("linear", "circle", "both")
CHANCE = 50.0


@dataclass(frozen=True)
class Config:
    size: int
    networks: dict[str, dict[str, Any]]  # indices of u1, plane of the circle and other settings of `_network`
    epsilon: float
    samples: int
    tests: int
    batch: int
    seeds: int  # to begin with
    most_seeds: int  # for networks whose claims are undecided
    device: str


def _network(
    indices: Sequence[int],
    *,
    steps: int,
    lr: float,
    noise: float,
    clip: float | None = None,
    width: float = 1.0,
    radii: tuple[float, float] = (1.5, 0.25),
    plane: tuple[int, int] = (15, 16),
) -> dict[str, Any]:
    return {
        "indices": list(indices),
        "steps": steps,
        "lr": lr,
        "noise": noise,
        "clip": clip,
        "width": width,
        "radii": list(radii),
        "plane": list(plane),
    }


_RESNET: dict[str, Any] = {"radii": (3.0, 0.25), "plane": (5, 6)}
_EVERY_TENTH = range(0, 1024, 10)

PRESETS = {
    "smoke": Config(
        size=16,
        networks={
            "MLP": _network([0, 255], steps=20, lr=0.1, noise=0.5),
            "LeNet": _network([0, 255], steps=20, lr=0.1, noise=0.5),
            "ResNet18": _network([0, 255], steps=2, lr=0.05, noise=1.0, width=1 / 64, **_RESNET),
        },
        epsilon=1.0, samples=128, tests=100, batch=32,
        seeds=2, most_seeds=2, device="cpu",
    ),
    "laptop": Config(
        size=16,
        networks={
            "MLP": _network([0, 10, 60, 255], steps=600, lr=0.1, noise=0.5),
            "LeNet": _network([0, 20, 60, 80, 100, 140, 255], steps=1000, lr=0.15, noise=0.5, clip=1.0),
            "ResNet18": _network([0, 20, 100, 200, 255], steps=100, lr=0.05, noise=0.8, width=1 / 8, **_RESNET),
            "ViT": _network([0, 255], steps=200, lr=0.1, noise=0.5, clip=0.5, width=1 / 4),
        },
        epsilon=1.0, samples=2000, tests=2000, batch=128,
        seeds=3, most_seeds=5, device="cpu",
    ),
    "paper": Config(
        size=32,
        networks={
            "MLP": _network(_EVERY_TENTH, steps=20 * 78, lr=0.1, noise=1.0, clip=0.5),
            "LeNet": _network(_EVERY_TENTH, steps=50 * 78, lr=0.1, noise=1.0, clip=0.5),
            "ResNet18": _network(_EVERY_TENTH, steps=20 * 78, lr=0.1, noise=1.0, clip=0.5, **_RESNET),
            "ViT": _network(_EVERY_TENTH, steps=20 * 78, lr=0.1, noise=1.0, clip=0.5),
        },
        epsilon=1.0, samples=10_000, tests=2000, batch=128,
        seeds=5, most_seeds=5, device="best",
    ),
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class Result:
    config: Config
    accuracy: dict[str, dict[str, list[list[float]]]]  # network → part → per cent by seed and index
    eigenspaces: dict[str, list[int]]  # network → where each eigenspace of G begins
    diverged: dict[str, int]  # network → seeds left out since a training of theirs diverged

    @property
    def networks(self) -> list[str]:
        return [n for n in NETWORKS if n in self.accuracy]

    def gaps(self, network: str) -> list[list[float]]:
        """Linear minus non-linear accuracy, by seed and index."""
        parts = self.accuracy[network]
        return [
            [a - b for a, b in zip(*both, strict=True)] for both in zip(parts["linear"], parts["circle"], strict=True)
        ]


def run(config: Config, runner: Runner) -> Result:
    networks = [n for n in NETWORKS if n in config.networks]
    grains = grains_of(runner, {n: _model(config, n, "gelu") for n in networks})
    return until_decided(
        runner,
        networks,
        seeds=config.seeds,
        most=config.most_seeds,
        units=partial(_units, config),
        collect=partial(_collect, config, runner, grains),
        undecided=_undecided,
        step=1,
    )


def _model(config: Config, network: str, activation: str) -> dict[str, Any]:
    shape, width = (1, config.size, config.size), config.networks[network]["width"]
    return model_config(network, shape, activation=activation, normed=True, width=width)


def _units(config: Config, seeds: Mapping[str, int]) -> list[dict[str, Any]]:
    return [
        {
            "figure": 5,
            "model": _model(config, network, "relu"),
            "geometry": "gelu",
            "epsilon": config.epsilon,
            "samples": config.samples,
            "tests": config.tests,
            "batch": config.batch,
            "device": config.device,
            **{key: value for key, value in config.networks[network].items() if key not in ("indices", "width")},
            "index": index,
            "seed": seed,
        }
        for network in seeds
        for seed in range(seeds[network])
        for index in config.networks[network]["indices"]
    ]


def _collect(config: Config, runner: Runner, grains: Mapping[str, Grain], seeds: Mapping[str, int]) -> Result:
    units = _units(config, seeds)
    outcomes: Iterator[Outcome] = iter(runner.map(partial(_one, grains), units, "trainings"))
    scores: dict[str, dict[str, list[list[float]]]] = {n: {p: [] for p in PARTS} for n in seeds}
    diverged = dict.fromkeys(seeds, 0)
    for network, count in seeds.items():
        for _ in range(count):
            curve = [next(outcomes).numbers for _ in config.networks[network]["indices"]]
            if any(point["diverged"] for point in curve):
                diverged[network] += 1  # indices are compared seed by seed, so a seed leaves as a whole
                continue
            for part in PARTS:
                scores[network][part].append([100 * point[part] for point in curve])
    starts = {n: [start for start, _ in grains[n].blocks] for n in seeds}
    return Result(config, scores, starts, diverged)


def _one(grains: Mapping[str, Grain], unit: Mapping[str, Any]) -> Outcome:
    """Train one network on both features; its accuracy on each of them alone and on both."""
    seed = unit["seed"]
    u1, u2, u3 = axes(grains[unit["model"]["network"]], unit["index"], unit["plane"], seed)
    train, test = (
        linear_and_circle(
            u1,
            u2,
            u3,
            unit[part],
            epsilon=unit["epsilon"],
            radii=tuple(unit["radii"]),
            noise=unit["noise"],
            seed=derived_seed(seed, "fig5", part),
        )
        for part in ("samples", "tests")
    )
    make = make_of(unit["model"])
    settings = Settings(
        lr=unit["lr"], steps=unit["steps"], batch=unit["batch"], clip=unit["clip"], decay="linear"
    )  # momentum 0.9, no weight decay
    trained = train_member(make, train.X, train.y, settings, seed=seed, i=0, device=device_named(unit["device"]))
    if trained.diverged:
        return Outcome({"diverged": True, **dict.fromkeys(PARTS), "train": None})
    model = trained.model(make)
    tests = {"linear": without(test, u2, u3), "circle": without(test, u1), "both": test}
    numbers = {part: accuracy(model, data.X, data.y) for part, data in tests.items()}
    return Outcome({"diverged": False, **numbers, "train": trained.train_accuracy})


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
    out = []
    for network in result.networks:
        gaps, notes = result.gaps(network), _notes(result, network)
        if network == "MLP":
            out.append(_always_the_step(gaps, notes))
            continue
        first, last = (difference([gap[i] for gap in gaps]) for i in (0, -1))
        top = claim(
            "linear part wins at the top",
            "linear minus non-linear accuracy is positive when u₁ is in the first eigenspace",
            first,
            low=0,
            paper="linear part perfect, non-linear part at chance",
            note="; ".join(notes),
            subject=network,
        )
        bottom = claim(
            "circle wins at the bottom",
            "linear minus non-linear accuracy is negative when u₁ is in the last eigenspace of the grid",
            last,
            high=0,
            paper="non-linear part learnt, contrary to a bias towards the simple",
            note="; ".join(notes),
            subject=network,
        )
        out += [top, bottom]
        if len(result.eigenspaces[network]) > 2:
            out.append(_crossover(result, network, gaps, notes))
    return out


def _always_the_step(gaps: Sequence[Sequence[float]], notes: Sequence[str]) -> Claim:
    smallest = "the smallest gap of each seed, which selection makes too small; G ∝ I, so indices are repetitions"
    return claim(
        "always the linear part",
        "linear minus non-linear accuracy is positive at every index",
        difference([min(gap) for gap in gaps]),
        low=0,
        paper="linear part perfect, non-linear part at chance, at all indices",
        note="; ".join([smallest, *notes]),
        subject="MLP",
    )


def _crossover(result: Result, network: str, gaps: Sequence[Sequence[float]], notes: Sequence[str]) -> Claim:
    indices = result.config.networks[network]["indices"]
    places = [crossing(indices, gap) for gap in gaps]
    place = mean(places)
    ends = [math.log2(i + 1) for i in (indices[0], indices[-1])]
    outside = sum(not ends[0] <= p <= ends[1] for p in places)
    told = [_as_index(place), f"{outside} of {len(places)} seeds do not cross" if outside else "", *notes]
    return claim(
        "cross-over",
        f"log₂(index + 1) where both parts are equal lies inside the grid of indices {indices[0]} to {indices[-1]}",
        place,
        low=ends[0],
        high=ends[1],
        paper="gradually more non-linear with the index",
        note="; ".join(t for t in told if t),
        subject=network,
    )


def _as_index(place: Estimate) -> str:
    if not math.isfinite(place.value):
        return ""
    if math.isnan(place.stderr):
        return f"index {2**place.value - 1:.0f}"
    a, b = place.interval(0.95)
    return f"index {2**place.value - 1:.0f}, 95 % interval {max(2**a - 1, 0):.0f} to {2**b - 1:.0f}"


def _notes(result: Result, network: str) -> list[str]:
    rows = result.accuracy[network]["both"]
    seen = (
        [f"with both parts at least {min(mean(list(c)).value for c in zip(*rows, strict=True)):.0f} %"] if rows else []
    )
    gone = result.diverged[network]
    return seen + ([f"{gone} diverged seeds left out"] if gone else [])


def _undecided(result: Result) -> set[str]:
    return {c.subject for c in claims(result) if c.verdict == UNDECIDED}


# --- drawing ------------------------------------------------------------------------------------------------------


def figure(result: Result) -> Figure:
    from matplotlib.figure import Figure

    networks = result.networks
    figure = Figure(figsize=(3.3 * len(networks), 3.6), layout="constrained")
    grid = figure.subplots(1, len(networks), sharey=True, squeeze=False)[0]
    for ax, network in zip(grid, networks, strict=True):
        _panel(ax, result, network)
    grid[0].set_ylabel("test accuracy (%)")
    grid[0].legend(fontsize=9, loc="center left", frameon=False)
    figure.suptitle(
        "A step along u₁ and a circle in the plane of two leading directions, each tested alone", fontsize=12
    )
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
        points = [mean(list(column)) for column in zip(*curves[part], strict=True)]
        if points:
            errors = [0.0 if math.isnan(p.stderr) else p.stderr for p in points]
            ax.errorbar(indices, [p.value for p in points], yerr=errors, ms=4.5, capsize=2.5, lw=1.6, **look)
    ax.axhline(CHANCE, color="#999999", lw=0.8, ls=":")
    if two:
        for side, text in (("right", "first eigenspace "), ("left", " second")):
            ax.annotate(text, (borders[1], 43), fontsize=7, color="#666666", ha=side)
        ax.axvline(borders[1], color="#999999", lw=0.8)
    ax.set_xscale("symlog", linthresh=10, linscale=0.6)
    ax.set_xlim(-0.8, 1.25 * indices[-1])
    ax.set_ylim(40, 103)
    ax.set_title(f"{network}, {len(curves['linear'])} seeds", fontsize=11)
    ax.set_xlabel("index of u₁ in the spectrum of G")
