"""Figure 1: two concentric circles in a plane, which a ResNet18 learns or not depending on how the plane lies.

Claim: with both axes of the plane among the leading eigenvectors of G (A) the network generalises, with one axis among
the last (B) it does worse; an MLP does not care. Everything but the plane is Gaussian noise, whose size was chosen once
so that A is 97 ± 2 %. One-channel 16 × 16 inputs and a narrow ResNet18 at laptop scale, 32 × 32 and full width at paper
scale. Cost: smoke seconds, laptop under two minutes on two cores, paper for a GPU.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from netgrain.data.synthetic import doughnut
from netgrain.experiments.claims import Claim, claim, decided
from netgrain.experiments.grain.drawing import panels
from netgrain.experiments.grain.grains import make_of, model_config
from netgrain.experiments.grain.trials import Trials, left_out, until_decided
from netgrain.families.members import Family
from netgrain.geometry.average import average_geometry
from netgrain.geometry.estimate import mean
from netgrain.runtime.randomness import derived_seed
from netgrain.runtime.run_folder import Runner
from netgrain.runtime.units import Outcome
from netgrain.training.loop import accuracy
from netgrain.training.settings import Settings
from netgrain.training.trained_members import train_member

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COST = 175  # processor seconds at laptop scale
NETWORKS = ("ResNet18", "MLP")
PLANES = {"A": (0, 1), "B": (0, -1)}  # eigenvectors of G that span the plane
GRID, REACH = 41, 2.6  # points per axis and half width of the square in which decisions are drawn
AROUND = 6  # decisions are averaged over this many draws of the noise: that is where the data are


@dataclass(frozen=True)
class Config:
    size: int
    width: float
    noise: float
    samples: int
    tests: int
    resnet_steps: int
    mlp_steps: int
    seeds: int  # to begin with
    most_seeds: int  # added four by four until every claim is decided
    members: int  # networks behind G


PRESETS = {
    "smoke": Config(
        size=8, width=1 / 32, noise=0.3, samples=256, tests=200, resnet_steps=12, mlp_steps=30,
        seeds=2, most_seeds=2, members=8,
    ),
    "laptop": Config(
        size=16, width=1 / 8, noise=0.37, samples=1000, tests=2000, resnet_steps=160, mlp_steps=1500,
        seeds=8, most_seeds=20, members=64,
    ),
    "paper": Config(
        size=32, width=1.0, noise=0.37, samples=10_000, tests=10_000, resnet_steps=2400, mlp_steps=2400,
        seeds=8, most_seeds=20, members=1000,
    ),
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class Result:
    config: Config
    accuracy: dict[str, dict[str, list[float]]]  # network → plane → per cent on the test set, one per seed
    decisions: dict[str, dict[str, list[Tensor]]]  # network → plane → (GRID, GRID) difference of the logits by seed
    strength: dict[str, tuple[float, float]]  # plane → eigenvalues of its axes over the largest
    left_out: int  # trainings that diverged, not averaged in


def run(config: Config, runner: Runner) -> Result:
    geometry = {"figure": 1, "part": "geometry", "size": config.size, "width": config.width, "members": config.members}
    (axes,) = runner.map(_axes, [geometry], "geometry")

    def units(network: str, seed: int) -> list[dict[str, Any]]:
        steps = config.resnet_steps if network == "ResNet18" else config.mlp_steps
        shared = {"figure": 1, "part": "training", "geometry": geometry, "network": network, "steps": steps}
        shared |= {"noise": config.noise, "samples": config.samples, "tests": config.tests, "seed": seed}
        return [{**shared, "plane": plane} for plane in PLANES]

    return until_decided(
        runner,
        partial(_one, {name: axes.arrays[name] for name in PLANES}),
        units,
        dict.fromkeys(NETWORKS, (config.seeds, config.most_seeds)),
        result=partial(result_of, config, axes),
        undecided=lambda result: () if decided(claims(result)) else NETWORKS,
        step=4,
    )


def result_of(config: Config, axes: Outcome, trials: Mapping[str, Trials]) -> Result:
    decisions = {
        n: {p: [row[k].arrays["decision"] for row in t.kept.values()] for k, p in enumerate(PLANES)}
        for n, t in trials.items()
    }
    strength = {p: (axes.numbers[p][0], axes.numbers[p][1]) for p in PLANES}
    scores = {n: t.columns("accuracy", PLANES) for n, t in trials.items()}
    return Result(config, scores, decisions, strength, sum(t.left_out for t in trials.values()))


def _family(network: str, unit: Mapping[str, Any], activation: str = "relu") -> Family:
    width = unit["width"] if network == "ResNet18" else 1.0
    shape = (1, unit["size"], unit["size"])
    return make_of(model_config(network, shape, activation=activation, normed=True, width=width))


def _axes(unit: Mapping[str, Any]) -> Outcome:
    """The planes, from the geometry of the ResNet18 family (GELU: smooth at the origin, as the paper computes it)."""
    make, shape = _family("ResNet18", unit, "gelu"), (1, unit["size"], unit["size"])
    G = average_geometry(make, shape, members=unit["members"], output=("diff", 0, 1), workers=1)
    vectors, values = G.directions(), G.eigenvalues / G.eigenvalues[0]
    arrays = {p: torch.stack([vectors[i], vectors[j]]).float() for p, (i, j) in PLANES.items()}
    return Outcome({p: [float(values[i]), float(values[j])] for p, (i, j) in PLANES.items()}, arrays)


def _one(planes: Mapping[str, Tensor], unit: Mapping[str, Any]) -> Outcome:
    """Train one network on one plane; its test accuracy and its decisions in the plane."""
    u1, u2 = planes[unit["plane"]]
    seed = unit["seed"]
    train, test = (
        doughnut(u1, u2, unit[n], noise=unit["noise"], seed=derived_seed(seed, "doughnut", n))
        for n in ("samples", "tests")
    )
    make = _family(unit["network"], unit["geometry"])
    settings = Settings(
        lr=0.05 if unit["network"] == "ResNet18" else 0.1, steps=unit["steps"], batch=125, decay="linear"
    )
    trained = train_member(make, train.X, train.y, settings, seed=seed, i=0)
    if trained.diverged:
        return Outcome({"diverged": True, "accuracy": None}, {"decision": torch.zeros(GRID, GRID)})
    model = trained.model(make)
    # the same draws of the noise at every point of the plane, so that the boundary is a smooth curve
    noise = doughnut(u1, u2, AROUND, noise=unit["noise"], radii=(1e-9, 1e-9), seed=derived_seed(seed, "around")).X
    points = (_grid(u1, u2)[:, None] + noise).flatten(0, 1)
    with torch.no_grad():
        logits = torch.cat([model(x) for x in points.split(512)]).reshape(-1, AROUND, 2).mean(1)
    numbers = {
        "diverged": False,
        "accuracy": accuracy(model, test.X, test.y),
        "train_accuracy": trained.train_accuracy,
        "loss": float(trained.losses[-1]),
    }
    return Outcome(numbers, {"decision": (logits[:, 1] - logits[:, 0]).reshape(GRID, GRID)})


def _grid(u1: Tensor, u2: Tensor) -> Tensor:
    """Points of the plane, rows along u2 (from below), columns along u1."""
    t = torch.linspace(-REACH, REACH, GRID)
    b, a = torch.meshgrid(t, t, indexing="ij")
    return a.reshape(-1, 1, 1, 1) * u1 + b.reshape(-1, 1, 1, 1) * u2


def claims(result: Result) -> list[Claim]:
    gap = {n: mean([a - b for a, b in zip(by["A"], by["B"], strict=True)]) for n, by in result.accuracy.items()}
    resnet, A, note = gap["ResNet18"], mean(result.accuracy["ResNet18"]["A"]), left_out(result.left_out)
    return [
        claim(
            "ResNet18 learns A", "test accuracy on A is 97 ± 2 %", A, low=95, high=99, paper="generalises", note=note
        ),
        claim(
            "ResNet18 does worse on B",
            "A − B is at least 8 points, with a 95 % interval above 4",
            resnet,
            low=4 if resnet >= 8 else 8,
            paper="generalises on A, not on B",
            note=note,
        ),
        claim("MLP does not care", "A − B is within ± 2 points", gap["MLP"], low=-2, high=2, paper="learns both"),
    ]


def figure(result: Result) -> Figure:
    seeds = len(result.accuracy["ResNet18"]["A"])
    figure, axes = panels(
        f"Two circles and the decision boundaries (green) of {seeds} networks trained on them\n"
        "A: both axes lead the spectrum of ResNet18's G.  B: u₂ is its last eigenvector.",
        (8.4, 8.6), rows=2, columns=2,
    )  # fmt: skip
    t = torch.linspace(-REACH, REACH, GRID).numpy()
    angle = torch.linspace(0, 2 * math.pi, 200)
    for ax, (network, plane) in zip(axes, product(NETWORKS, PLANES), strict=True):
        for radius, colour in ((1.0, "#0072b2"), (2.0, "#d55e00")):
            ax.plot((radius * angle.cos()).numpy(), (radius * angle.sin()).numpy(), color=colour, lw=5, alpha=0.35)
        for decision in result.decisions[network][plane]:
            ax.contour(t, t, decision.numpy(), levels=[0.0], colors="#009e73", linewidths=1.2)
        score = mean(result.accuracy[network][plane])
        error = "" if math.isnan(score.stderr) else f" ± {score.stderr:.1f}"
        ax.set_title(f"{network} on {plane}: {score.value:.1f}{error} % test accuracy", fontsize=11)
        first, second = (f"(eigenvalue {_share(strength)} of the largest)" for strength in result.strength[plane])
        ax.set(xlabel=f"u₁ {first}", ylabel=f"u₂ {second}", aspect="equal", xlim=(-REACH, REACH), ylim=(-REACH, REACH))
    return figure


def _share(value: float) -> str:
    return f"{value:.2f}" if value >= 0.01 else f"{value:.0e}"
