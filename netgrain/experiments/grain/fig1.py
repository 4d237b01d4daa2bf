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
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from netgrain.data.synthetic import doughnut
from netgrain.experiments.claims import Claim, claim, decided
from netgrain.families.members import Family
from netgrain.geometry.average import average_geometry
from netgrain.geometry.estimate import mean
from netgrain.models.specs import load_model
from netgrain.runtime.randomness import derived_seed
from netgrain.runtime.run_folder import Runner
from netgrain.runtime.units import Outcome
from netgrain.training.loop import accuracy
from netgrain.training.settings import Settings
from netgrain.training.trained_members import train_member

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COST = 175  # processor seconds at laptop scale
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
    decisions: dict[str, dict[str, Tensor]]  # network → plane → (seeds, GRID, GRID) difference of the logits
    strength: dict[str, tuple[float, float]]  # plane → eigenvalues of its axes over the largest
    left_out: int  # trainings that diverged, not averaged in


def run(config: Config, runner: Runner) -> Result:
    geometry = {"figure": 1, "part": "geometry", "size": config.size, "width": config.width, "members": config.members}
    (axes,) = runner.map(_axes, [geometry], "geometry")
    work = partial(_one, {name: axes.arrays[name] for name in PLANES})
    seeds = config.seeds
    while True:
        result = _collect(config, runner, work, geometry, axes, seeds)
        more = min(seeds + 4, config.most_seeds)
        if more == seeds or decided(claims(result)):
            return result
        if not runner.folder.writable and not runner.has(_units(config, geometry, more)):
            return result
        seeds = more


def _units(config: Config, geometry: Mapping[str, Any], seeds: int) -> list[dict[str, Any]]:
    return [
        {
            "figure": 1,
            "part": "training",
            "geometry": dict(geometry),
            "network": network,
            "plane": plane,
            "noise": config.noise,
            "samples": config.samples,
            "tests": config.tests,
            "steps": config.resnet_steps if network == "ResNet18" else config.mlp_steps,
            "seed": seed,
        }
        for seed in range(seeds)
        for network in ("ResNet18", "MLP")
        for plane in PLANES
    ]


def _collect(config: Config, runner: Runner, work: Any, geometry: Any, axes: Outcome, seeds: int) -> Result:
    units = _units(config, geometry, seeds)
    outcomes = runner.map(work, units, "trainings")
    scores: dict[str, dict[str, list[float]]] = {n: {p: [] for p in PLANES} for n in ("ResNet18", "MLP")}
    maps: dict[str, dict[str, list[Tensor]]] = {n: {p: [] for p in PLANES} for n in scores}
    bad = {(u["network"], u["seed"]) for u, o in zip(units, outcomes, strict=True) if o.numbers["diverged"]}
    for unit, outcome in zip(units, outcomes, strict=True):
        if (unit["network"], unit["seed"]) in bad:
            continue  # planes are compared seed by seed, so a seed leaves as a whole
        scores[unit["network"]][unit["plane"]].append(100 * outcome.numbers["accuracy"])
        maps[unit["network"]][unit["plane"]].append(outcome.arrays["decision"])
    stacked = {
        n: {p: torch.stack(m) if m else torch.zeros(0, GRID, GRID) for p, m in v.items()} for n, v in maps.items()
    }
    strength = {p: (axes.numbers[p][0], axes.numbers[p][1]) for p in PLANES}
    return Result(config, scores, stacked, strength, len(bad))


def _family(network: str, size: int, width: float) -> Family:
    if network == "ResNet18":
        return load_model("resnet18:norm=batch", channels=1, image_size=size, outputs=2, width=width)
    return load_model("mlp", channels=1, image_size=size, outputs=2)


def _axes(unit: Mapping[str, Any]) -> Outcome:
    """The planes, from the geometry of the ResNet18 family (GELU: smooth at the origin, as the paper computes it)."""
    size = unit["size"]
    make = load_model(
        "resnet18:norm=batch", channels=1, image_size=size, outputs=2, width=unit["width"], activation="gelu"
    )
    G = average_geometry(make, (1, size, size), members=unit["members"], output=("diff", 0, 1), workers=1)
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
    make = _family(unit["network"], unit["geometry"]["size"], unit["geometry"]["width"])
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
    def gap(network: str) -> Any:
        scores = result.accuracy[network]
        return mean([a - b for a, b in zip(scores["A"], scores["B"], strict=True)])

    note = f"{result.left_out} diverged seeds left out" if result.left_out else ""
    A = mean(result.accuracy["ResNet18"]["A"])
    return [
        claim(
            "ResNet18 learns A", "test accuracy on A is 97 ± 2 %", A, low=95, high=99, paper="generalises", note=note
        ),
        claim(
            "ResNet18 does worse on B",
            "A − B is at least 8 points, with a 95 % interval above 4",
            gap("ResNet18"),
            low=4 if gap("ResNet18") >= 8 else 8,
            paper="generalises on A, not on B",
            note=note,
        ),
        claim("MLP does not care", "A − B is within ± 2 points", gap("MLP"), low=-2, high=2, paper="learns both"),
    ]


def figure(result: Result) -> Figure:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8.4, 8.6), layout="constrained")
    grid = figure.subplots(2, 2)
    t = torch.linspace(-REACH, REACH, GRID).numpy()
    angle = torch.linspace(0, 2 * math.pi, 200)
    for row, network in enumerate(("ResNet18", "MLP")):
        for column, plane in enumerate(PLANES):
            ax = grid[row, column]
            for radius, colour in ((1.0, "#0072b2"), (2.0, "#d55e00")):
                ax.plot((radius * angle.cos()).numpy(), (radius * angle.sin()).numpy(), color=colour, lw=5, alpha=0.35)
            for decision in result.decisions[network][plane]:
                ax.contour(t, t, decision.numpy(), levels=[0.0], colors="#009e73", linewidths=1.2)
            score = mean(result.accuracy[network][plane])
            error = "" if math.isnan(score.stderr) else f" ± {score.stderr:.1f}"
            ax.set_title(f"{network} on {plane}: {score.value:.1f}{error} % test accuracy", fontsize=11)
            first, second = result.strength[plane]
            ax.set_xlabel(f"u₁ (eigenvalue {_share(first)} of the largest)")
            ax.set_ylabel(f"u₂ (eigenvalue {_share(second)} of the largest)")
            ax.set_aspect("equal")
            ax.set_xlim(-REACH, REACH)
            ax.set_ylim(-REACH, REACH)
    seeds = len(result.accuracy["ResNet18"]["A"])
    figure.suptitle(
        f"Two circles and the decision boundaries (green) of {seeds} networks trained on them\n"
        "A: both axes lead the spectrum of ResNet18's G.  B: u₂ is its last eigenvector.",
        fontsize=12,
    )
    return figure


def _share(value: float) -> str:
    return f"{value:.2f}" if value >= 0.01 else f"{value:.0e}"
