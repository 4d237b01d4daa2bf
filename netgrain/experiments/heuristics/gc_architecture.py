"""Complexity and architecture at equal loss: width, depth, skips, normalisation and pooling of a convolutional network.

Each network differs from the base (8 and 16 channels, no further convolutions, no norm, average pooling) in one part,
and all are trained by plain SGD until their cross-entropy is at most the target, so that what is compared is not how
fast they fit. Width and depth are judged as the source states them: over-parametrised networks with many layers are
simple. For skips, norms and pooling the source says nothing: which side of a pair is more complex was seen on seeds
100 to 102, at twice the rate, and is judged on other ones. The control compares two networks of the same architecture.
CIFAR-10 at 16 × 16 (or digits where there is none). Cost: smoke a second, laptop about four minutes, paper a GPU.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from netgrain.complexity.sweeps import SweepCurve, curve_of
from netgrain.experiments.claims import Claim, claim
from netgrain.experiments.heuristics.orders import monotone
from netgrain.experiments.heuristics.panels import Panel
from netgrain.experiments.heuristics.protocol import Protocol, one
from netgrain.experiments.image_sets import images_found
from netgrain.geometry.estimate import Estimate, mean
from netgrain.runtime.runners import Runner

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COST = 245  # processor seconds at laptop scale
COVERS = (91,)
DEEP = 2  # further convolutions of each round, for skips


@dataclass(frozen=True)
class Choice:
    """One part in two versions; the second is claimed to be more complex (sign 1) or less (−1)."""

    first: str
    second: str
    parts: dict[str, Any]  # of the second
    base: dict[str, Any]  # of both
    sign: int


CHOICES = {
    "skips": Choice("no skips", "a skip around each further convolution", {"skip": True}, {"depth": DEEP}, 1),
    "batch norm": Choice("no norm", "batch norm", {"norm": "batch"}, {}, 1),
    "layer norm": Choice("no norm", "layer norm", {"norm": "layer"}, {}, 1),
    "max pooling": Choice("average pooling", "max pooling", {"pool": "max"}, {}, 1),
    "strides": Choice("average pooling", "a stride", {"pool": "stride"}, {}, 1),
}


@dataclass(frozen=True)
class Config:
    seeds: int
    images: str = "auto"  # cifar10 where it is found, else digits
    samples: int = 256
    size: int = 16
    widths: tuple[int, ...] = (4, 8, 16, 32)  # narrower ones miss the target
    depths: tuple[int, ...] = (0, 1, 2, 3)
    lr: float = 0.05
    batch: int = 32
    target: float = 0.3  # cross-entropy at which networks are compared
    steps: int = 4000  # a ceiling
    points: int | None = None


PRESETS = {
    "smoke": Config(seeds=2, images="digits", samples=60, widths=(2, 4), depths=(0, 1), steps=4, points=20, target=2.4),
    "laptop": Config(seeds=4),
    "paper": Config(
        seeds=10,
        images="cifar10",
        samples=5000,
        size=32,
        widths=(8, 16, 32, 64, 128),
        depths=(0, 1, 2, 4, 8),
        points=1000,
    ),
}


@dataclass(frozen=True, eq=False)
class Result:
    config: Config
    images: str
    widths: SweepCurve
    depths: SweepCurve
    pairs: dict[str, SweepCurve]  # choice → both networks
    control: SweepCurve  # the base, twice


def run(config: Config, runner: Runner) -> Result:
    images = images_found(runner, config.images)
    groups: dict[str, list[tuple[float, dict[str, Any], int]]] = {
        "widths": [(w, {"width": w}, 0) for w in config.widths],
        "depths": [(d, {"depth": d}, 0) for d in config.depths],
        **{name: [(0, c.base, 0), (1, {**c.base, **c.parts}, 0)] for name, c in CHOICES.items()},
        "control": [(0, {}, 0), (1, {}, 1)],
    }
    seeds = range(config.seeds)
    asked = [(parts, repeat, s) for group in groups.values() for s in seeds for _, parts, repeat in group]
    units = {_key(*a): _unit(config, images, *a) for a in asked}  # the base is in many groups and trained once
    outcomes = dict(zip(units, runner.map(one, list(units.values()), "networks"), strict=True))
    curves = {
        name: curve_of(
            tuple(value for value, _, _ in group),
            [outcomes[_key(parts, repeat, s)].numbers for s in seeds for _, parts, repeat in group],
            config.seeds,
        )
        for name, group in groups.items()
    }
    pairs = {name: curves[name] for name in CHOICES}
    return Result(config, images, curves["widths"], curves["depths"], pairs, curves["control"])


def _key(parts: dict[str, Any], repeat: int, seed: int) -> str:
    full = {"width": 8, "depth": 0, "skip": False, "norm": None, "pool": "average", **parts}
    return f"{sorted(full.items())} {repeat} {seed}"


def _unit(config: Config, images: str, parts: dict[str, Any], repeat: int, seed: int) -> dict[str, Any]:
    settings = {
        "lr": config.lr, "momentum": 0.0, "batch": config.batch, "replacement": True, "steps": config.steps,
        "stop_at_loss": config.target, "stop_every": 5,
    }  # fmt: skip
    protocol = Protocol(
        settings, images, config.samples, config.size, "convnet", parts=parts, points=config.points, repeat=repeat
    )
    return {"experiment": "gc-architecture", "seed": seed, "protocol": asdict(protocol)}


# --- verdicts -------------------------------------------------------------------------------------------------------


def claims(result: Result) -> list[Claim]:
    subject = f"ConvNet on {result.images}"
    ordered = partial(monotone, sign=-1, paper="falls", subject=subject)
    found = [
        ordered(result.widths, "wider networks are less complex at the same loss"),
        ordered(result.depths, "deeper networks are less complex at the same loss"),
    ]
    for name, choice in CHOICES.items():
        change = change_of(result.pairs[name])
        more, side = ("more", "above") if choice.sign > 0 else ("less", "below")
        note = f"a factor of {math.exp(change.value):.2f}; the side was chosen on other seeds"
        found.append(
            claim(
                f"{choice.second} makes a network {more} complex at the same loss than {choice.first}",
                f"the mean logarithm of the ratio of their complexities is {side} zero",
                change,
                low=0 if choice.sign > 0 else None,
                high=None if choice.sign > 0 else 0,
                note=note + _missed(result.pairs[name]),
                subject=subject,
            )
        )
    found.append(
        claim(
            "control: two networks of the same architecture do not differ",
            "the mean logarithm of the ratio of their complexities is between −0.2 and 0.2",
            change_of(result.control),
            low=-0.2,
            high=0.2,
            subject=subject,
        )
    )
    return found


def change_of(curve: SweepCurve) -> Estimate:
    """Mean over seeds of log complexity of the second network over the first; NaN where none reached the loss."""
    return mean(_ratios(curve))


def _ratios(curve: SweepCurve) -> list[float]:
    rows = zip(curve.numbers["complexity"], curve.good, strict=True)
    return [math.log(b / a) for (a, b), good in rows if all(good)]


def _missed(curve: SweepCurve) -> str:
    return f"; {curve.missed} runs missed the target loss and are left out" if curve.missed else ""


# --- the figure -----------------------------------------------------------------------------------------------------


def overview_panels(result: Result) -> list[Panel]:
    network = f"ConvNet, {result.images}"
    at = f"at cross-entropy {result.config.target:g}"
    return [
        Panel(f"Width, {at}", result.widths, "channels of the first round", network=network),
        Panel(f"Depth, {at}", result.depths, "further convolutions in each round", network=network),
    ]


def figure(result: Result) -> Figure:
    """Complexity against width and depth, and how much each choice changes it."""
    from matplotlib.figure import Figure

    from netgrain.experiments.heuristics.drawing import complexity
    from netgrain.geometry.plots import LARGE, MEDIUM

    figure = Figure(figsize=(13.0, 4.2), layout="constrained")
    left, middle, right = figure.subplots(1, 3, width_ratios=[1, 1, 1.3])
    for ax, panel in zip((left, middle), overview_panels(result), strict=True):
        complexity(panel, ax)
        ax.set_title(panel.title, fontsize=LARGE)
        ax.set_xlabel(panel.setting, fontsize=MEDIUM)
    left.set_ylabel(f"geometric complexity, {result.images}", fontsize=MEDIUM)
    _changes(right, {**result.pairs, "same architecture": result.control})
    right.set_title(f"Change by one part, at cross-entropy {result.config.target:g}", fontsize=LARGE)
    return figure


def _changes(ax: Axes, pairs: dict[str, SweepCurve]) -> None:
    from netgrain.geometry.plots import COLOURS, MEDIUM, SMALL

    for j, curve in enumerate(pairs.values()):
        change = change_of(curve)
        error = 0.0 if math.isnan(change.stderr) else change.stderr
        ax.errorbar(change.value, j, xerr=error, color=COLOURS[0], marker="o", ms=5, capsize=3)
        ratios = _ratios(curve)
        ax.plot(ratios, [j] * len(ratios), ls="", marker="|", ms=8, color=COLOURS[4])
    ax.axvline(0, color="black", lw=0.8)
    names = [f"{n} / {CHOICES[n].first}" if n in CHOICES else n for n in pairs]
    ax.set_yticks(range(len(pairs)), names, fontsize=SMALL)
    ax.invert_yaxis()
    ticks = (0.25, 0.5, 1, 2, 4)
    ax.set_xticks([math.log(t) for t in ticks], [f"× {t:g}" for t in ticks], fontsize=SMALL)
    ax.set_xlabel("ratio of complexities", fontsize=MEDIUM)
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
