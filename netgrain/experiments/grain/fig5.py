"""Figure 5: a step and a circle both tell the class; which of them a network takes depends on where the step lies.

Claim: as long as the step lies in the top eigenspace of G a network takes the step, the simpler feature; once it lies
deep in the spectrum a LeNet, a ResNet18 and a ViT take the circle, which lies among the leading directions. An MLP,
whose G favours nothing, always takes the step. Each feature is tested alone, the other projected out of the test set.

Eigenvectors are counted from 0 (the circle lies along 15 and 16, for ResNet18 along 5 and 6) and drawn at random
inside an eigenspace. G is that of the GELU family at the origin (in closed form where there is one, in place of 10,000
networks), the networks that are trained have ReLU. "Gradually" is judged where there are at least four indices. A ViT's
G has two eigenvalues, so nothing can be gradual there and only the two ends are judged.

The text gives figures 4 and 5 the optimiser of Ortiz-Jiménez et al. (2020), whose code has learning rate 0.5 without
momentum for 20 epochs; the authors' own code for this figure has 0.1 with momentum 0.9, clipped gradients and 50 epochs
for LeNet. They are the variants "text" and "code"; paper scale is the text. Laptop scale (1 × 16 × 16, 2,000 samples)
has settings of its own, close to the code's. The paper's noise is 1. Where so few samples and steps do not suffice for
it, a pilot chooses the largest at which the circle alone, with no step in the data, is learnt to 90 %. It has a seed of
its own and sees neither end of the spectrum. Cost: smoke seconds, laptop about five minutes of processor time, paper
(every tenth index) for a GPU.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from torch import Tensor

from netgrain.complexity.sweeps import spearman
from netgrain.data.synthetic import linear_and_circle, without
from netgrain.experiments.claims import Claim, claim
from netgrain.experiments.grain.drawing import GREY, dotted, error_bars, panels
from netgrain.experiments.grain.grains import COLOURS, Grain, grains_of, in_order, model_config
from netgrain.experiments.grain.planes import largest_passing, orthogonal
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
from netgrain.runtime.randomness import derived_seed
from netgrain.runtime.runners import Runner
from netgrain.runtime.units import Outcome

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COST = 330  # processor seconds at laptop scale
COVERS = (39,)
PARTS = ("linear", "circle", "both")
CHANCE, PERFECT, GUESSED = 50.0, 95.0, 60.0  # per cent: "perfect" is at least, "a random guess" at most
LEARNT = 75.0  # per cent of the circle at the bottom; more cannot be asked where the pilot has 90
LEARNABLE = 90.0  # per cent that the pilot asks of the circle alone
ORDERED, FEWEST = 0.8, 4  # rank correlation that counts as "gradually", and indices that it takes

EPOCH = 78  # steps through 10,000 samples in batches of 128
TRAINING: dict[str, dict[str, Any]] = {
    "text": {"lr": 0.5, "momentum": 0.0, "clip": None, "steps": 20 * EPOCH},
    "code": {"lr": 0.1, "momentum": 0.9, "clip": 0.5, "steps": 20 * EPOCH},
}  # variant → settings, where a network has none of its own
LONGER = {("code", "LeNet"): 50 * EPOCH}  # variant and network → steps


@dataclass(frozen=True, kw_only=True)
class Config(SeededConfig):
    networks: dict[str, dict[str, Any]]  # indices of u1, plane and radii of the circle, width, noises, settings
    variant: str = "text"  # whose optimiser, where a network has no settings of its own
    pilot_seed: int = 1000  # claims have seeds from 0
    epsilon: float = 1.0
    samples: int
    tests: int
    batch: int


USUAL: dict[str, Any] = {"width": 1.0, "radii": [1.5, 0.25], "plane": [15, 16], "noises": [1.0]}
RESNET: dict[str, Any] = {**USUAL, "radii": [3.0, 0.25], "plane": [5, 6]}
OWN: dict[str, Any] = {"momentum": 0.9, "clip": None, "noises": [0.4, 0.5, 0.65, 0.8, 1.0]}
TENTHS: dict[str, Any] = {"indices": [*range(0, 1024, 10)]}

PRESETS = {
    "smoke": Config(
        size=16,
        networks={
            "MLP": USUAL | OWN | {"indices": [0, 255], "steps": 20, "lr": 0.1, "noises": [0.5, 1.0]},
            "LeNet": USUAL | OWN | {"indices": [0, 255], "steps": 20, "lr": 0.1, "noises": [0.5]},
            "ResNet18": RESNET | OWN | {"indices": [0, 255], "steps": 2, "lr": 0.05, "noises": [1.0], "width": 1 / 64},
        },
        samples=128, tests=100, batch=32, seeds=2, most_seeds=2,
    ),
    "laptop": Config(
        size=16,
        networks={
            "MLP": USUAL | OWN | {"indices": [0, 60, 255], "steps": 600, "lr": 0.1},
            "LeNet": USUAL | OWN | {"indices": [0, 20, 60, 100, 140, 255], "steps": 1000, "lr": 0.15, "clip": 1.0},
            "ResNet18": RESNET | OWN | {"indices": [0, 20, 100, 200, 255], "steps": 100, "lr": 0.05, "width": 1 / 8},
            "ViT": USUAL | OWN | {"indices": [0, 255], "steps": 200, "lr": 0.1, "clip": 0.5, "width": 1 / 4},
        },
        samples=2000, tests=2000, batch=128, seeds=3, most_seeds=4,
    ),
    "paper": Config(
        size=32,
        networks={n: {**(RESNET if n == "ResNet18" else USUAL), **TENTHS} for n in ("MLP", "LeNet", "ResNet18", "ViT")},
        samples=10_000, tests=2000, batch=128, seeds=5, most_seeds=5, device="best",
    ),
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class Result:
    config: Config
    accuracy: dict[str, dict[str, list[list[float]]]]  # network → part → per cent by seed and index
    eigenspaces: dict[str, list[int]]  # network → where each eigenspace of G begins
    diverged: dict[str, int]  # network → seeds left out since a training of theirs diverged
    noise: dict[str, float]
    alone: dict[
        str, float | None
    ]  # network → per cent on the circle alone, of the pilot at that noise, if there was one

    def gaps(self, network: str) -> list[list[float]]:
        """Linear minus non-linear accuracy, by seed and index."""
        parts = self.accuracy[network]
        return [
            [a - b for a, b in zip(*both, strict=True)] for both in zip(parts["linear"], parts["circle"], strict=True)
        ]


def run(config: Config, runner: Runner) -> Result:
    models = {n: _model(config, n, "gelu") for n in in_order(config.networks)}
    grains = grains_of(runner, models)
    pilots = {n: _pilot(config, runner, grains, n) for n in models}
    noise = {n: found for n, (found, _) in pilots.items()}
    return until_decided(
        runner,
        partial(_one, grains),
        partial(_units, config, noise),
        config.seeds_of(models),
        result=partial(result_of, config, grains, pilots),
        undecided=lambda result: open_subjects(claims(result)),
    )


def _pilot(config: Config, runner: Runner, grains: Mapping[str, Grain], network: str) -> tuple[float, float | None]:
    """The largest noise at which the circle alone is learnt (or the smallest there is), and how well it is there."""
    found: dict[float, float] = {}

    def passes(noise: float) -> bool:
        unit = _units(config, {network: noise}, network, config.pilot_seed)[0]
        (outcome,) = runner.map(partial(_one, grains), [{**unit, "part": "circle alone"}], "pilots")
        found[noise] = math.nan if outcome.numbers["diverged"] else 100 * outcome.numbers["circle"]
        return found[noise] >= LEARNABLE

    levels = config.networks[network]["noises"]
    noise, _ = largest_passing(levels, passes) if len(levels) > 1 else (levels[0], True)
    return noise, found.get(noise)


def _model(config: Config, network: str, activation: str) -> dict[str, Any]:
    shape, width = (1, config.size, config.size), config.networks[network]["width"]
    return model_config(network, shape, activation=activation, normed=True, width=width)


def _units(config: Config, noise: Mapping[str, float], network: str, seed: int) -> list[dict[str, Any]]:
    own = config.networks[network]
    shared = {"figure": 5, "part": "both", "model": _model(config, network, "relu"), "geometry": "gelu", "seed": seed}
    shared |= config.some("epsilon", "samples", "tests", "batch", "device")
    shared |= {"noise": noise[network], "radii": own["radii"], "plane": own["plane"], **training(config, network)}
    return [{**shared, "index": index} for index in own["indices"]]


def training(config: Config, network: str) -> dict[str, Any]:
    """How a network is trained: as the variant says, but for settings of its own."""
    usual = TRAINING[config.variant]
    usual = {**usual, "steps": LONGER.get((config.variant, network), usual["steps"])}
    return {key: config.networks[network].get(key, usual[key]) for key in usual}


def result_of(
    config: Config,
    grains: Mapping[str, Grain],
    pilots: Mapping[str, tuple[float, float | None]],
    trials: Mapping[str, Trials],
) -> Result:
    scores = {n: {part: list(t.per_cent(part).values()) for part in PARTS} for n, t in trials.items()}
    starts = {n: [start for start, _ in grains[n].blocks] for n in trials}
    noise, alone = {n: pilots[n][0] for n in trials}, {n: pilots[n][1] for n in trials}
    return Result(config, scores, starts, {n: t.left_out for n, t in trials.items()}, noise, alone)


def _one(grains: Mapping[str, Grain], unit: Mapping[str, Any]) -> Outcome:
    """Train one network on both features (a pilot on the circle alone); its accuracy on each alone and on both."""
    seed = unit["seed"]
    u1, u2, u3 = axes(grains[unit["model"]["network"]], unit["index"], unit["plane"], seed)
    features: dict[str, Any] = {"epsilon": unit["epsilon"], "radii": tuple(unit["radii"]), "noise": unit["noise"]}
    train, test = (
        linear_and_circle(u1, u2, u3, unit[part], seed=derived_seed(seed, "fig5", part), **features)
        for part in ("samples", "tests")
    )
    alone = {"linear": without(test, u2, u3), "circle": without(test, u1), "both": test}
    tests = {part: (data.X, data.labels) for part, data in alone.items()}
    shown = train if unit["part"] == "both" else without(train, u1)
    settings = replace(settings_of(unit, steps=unit["steps"]), momentum=unit["momentum"])
    return Outcome(trained_accuracy(unit, shown.X, shown.labels, settings, tests))


def axes(grain: Grain, index: int, plane: Sequence[int], seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """The step's direction and the two of the circle, orthonormal: each stays inside its own eigenspace."""
    u2 = grain.direction(plane[0], seed)
    u3 = orthogonal(grain.direction(plane[1], seed), u2)
    return orthogonal(grain.direction(index, seed), u2, u3), u2, u3


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
        return _at_every_index(result, note)
    top = "when u₁ is in the first eigenspace"
    bottom = "when u₁ is in the last eigenspace of the grid"
    linear, circle = (result.accuracy[network][part] for part in ("linear", "circle"))
    late = "half way from chance to perfect, a level set after the first seeds had been seen"
    wins = partial(judged, paper="non-linear part learnt, contrary to a bias towards the simple", note=note)
    out = [
        judged(
            "linear part perfect at the top", f"accuracy on the step alone is at least {PERFECT:g} % {top}",
            mean([row[0] for row in linear]), low=PERFECT, paper="linear part perfect", note=note,
        ),
        judged(
            "circle at chance at the top", f"accuracy on the circle alone is at most {GUESSED:g} % {top}",
            mean([row[0] for row in circle]), high=GUESSED, paper="no better than a random guess", note=note,
        ),
        wins(
            "circle wins at the bottom", f"linear minus non-linear accuracy is negative {bottom}",
            difference([gap[-1] for gap in gaps]), high=0,
        ),
        wins(
            "circle learnt at the bottom", f"accuracy on the circle alone is at least {LEARNT:g} % {bottom}",
            mean([row[-1] for row in circle]), low=LEARNT, note=joined(late, note),
        ),
    ]  # fmt: skip
    indices = result.config.networks[network]["indices"]
    if len(result.eigenspaces[network]) <= 2 or len(indices) < FEWEST:
        return out
    return [*out, *_along_the_spectrum(indices, gaps, note, network)]


def _along_the_spectrum(
    indices: Sequence[int], gaps: Sequence[Sequence[float]], note: str, network: str
) -> list[Claim]:
    judged = partial(claim, subject=network, paper="gradually more reliant on the non-linear part")
    places = [crossing(indices, gap) for gap in gaps]
    first, last = (math.log2(i + 1) for i in (indices[0], indices[-1]))
    outside = sum(not first <= p <= last for p in places)
    return [
        judged(
            "gradually",
            f"rank correlation of non-linear minus linear accuracy with the index of u₁ is at least {ORDERED:g}",
            mean([spearman(list(indices), [-g for g in gap]) for gap in gaps]),
            low=ORDERED,
            note=joined(f"{len(indices)} indices", note),
        ),
        judged(
            "cross-over",
            f"log₂(index + 1) where both parts are equal lies inside the grid of indices {indices[0]} to {indices[-1]}",
            mean(places),
            low=first,
            high=last,
            note=joined(
                _as_index(mean(places)), f"{outside} of {len(places)} seeds do not cross" if outside else "", note
            ),
        ),
    ]


def _at_every_index(result: Result, note: str) -> list[Claim]:
    """Claims on the MLP, whose G favours nothing."""
    judged = partial(claim, subject="MLP", paper="linear part perfect, non-linear part at chance, at all indices")
    told = "of each seed the worst index, which selection makes too bad; G ∝ I, so indices are repetitions"
    linear, circle = (result.accuracy["MLP"][part] for part in ("linear", "circle"))
    return [
        judged(
            "always the linear part",
            f"accuracy on the step alone is at least {PERFECT:g} % at every index",
            mean([min(row) for row in linear]),
            low=PERFECT,
            note=joined(told, note),
        ),
        judged(
            "never the circle",
            f"accuracy on the circle alone is at most {GUESSED:g} % at every index",
            mean([max(row) for row in circle]),
            high=GUESSED,
            note=joined(told, note),
        ),
    ]


def _as_index(place: Estimate) -> str:
    if not math.isfinite(place.value):
        return ""
    if math.isnan(place.stderr):
        return f"index {2**place.value - 1:.0f}"
    a, b = place.interval(0.95)
    return f"index {2**place.value - 1:.0f}, 95 % interval {max(2**a - 1, 0):.0f} to {2**b - 1:.0f}"


def _note(result: Result, network: str) -> str:
    both, alone = curve_of(result.accuracy[network]["both"]), result.alone[network]
    seen = f"with both parts at least {min(p.value for p in both):.0f} %" if both else ""
    noise = f"noise {result.noise[network]:g}"
    if alone is not None:
        rule = "chosen" if alone >= LEARNABLE else "the smallest there is, as none was chosen"
        noise += f", {rule} by a pilot that has {alone:.0f} % on the circle alone"
    return joined(seen, noise, _whose(result.config, network), left_out(result.diverged[network]))


def _whose(config: Config, network: str) -> str:
    own = any(key in config.networks[network] for key in TRAINING[config.variant])
    return "" if own else f"optimiser of the {config.variant}"


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
