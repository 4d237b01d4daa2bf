"""ReLU networks on D60: the Fourier ratio of their local linear maps, before and after training.

Claim (empirical, there is no theorem): with a ReLU after every hidden layer the gradient J(x) = ∇ₓNN(x) at the data
has a smaller |Ĵ|_{2/3}/|J|₂ in a G-CNN than in a CNN or a fully connected net, and training lowers it by more. 20
points N(0, I), 10 of each class, depth 3. Every network is measured alike, by gradients at the data (the authors'
fully connected one was not: its "linearisation" was NN at the unit vectors), samples with zero gradient are dropped
and counted, and the change from initialisation stands beside the level. Two trainings: the authors' plain SGD
(learning rate 5e-3, growing by a tenth every 100 epochs, 1,000 epochs) and normalised gradient descent. Cost: smoke
a second, laptop about a minute of one core, paper (the authors' 3 seeds, also 10,000 epochs from 5e-6) two minutes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from netgrain.equivariant.descent import exponential_descent
from netgrain.equivariant.limits import make_network
from netgrain.experiments.claims import Claim, claim
from netgrain.experiments.equivariance.fourier_descent import recorded_steps
from netgrain.experiments.equivariance.image_plots import levels_and_changes
from netgrain.experiments.equivariance.images import log_change, paired
from netgrain.experiments.equivariance.studies import gaussian_points
from netgrain.geometry.estimate import mean
from netgrain.groups.constructors import dihedral
from netgrain.runtime.run_folder import Runner
from netgrain.runtime.threads import one_thread
from netgrain.runtime.units import Outcome

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COST = 38  # processor seconds at laptop scale
ORDER, POINTS = 60, 20
NETS = {"G-CNN": "group-cnn", "CNN": "circular", "FC": "fully-connected"}
PAPER = {"G-CNN": "238 → 225", "CNN": "324 → 297", "FC": "313 → 321 (not a gradient)"}


@dataclass(frozen=True)
class Config:
    seeds: int
    epochs: int  # at learning rate 5e-3
    slow_epochs: int  # at learning rate 5e-6; 0: none
    normalised: int  # steps of normalised gradient descent; 0: none


PRESETS = {
    "smoke": Config(seeds=2, epochs=20, slow_epochs=0, normalised=20),
    "laptop": Config(seeds=10, epochs=1000, slow_epochs=0, normalised=300),
    "paper": Config(seeds=3, epochs=1000, slow_epochs=10_000, normalised=0),
}


@dataclass(frozen=True, eq=False)
class Run:
    """Of one kind of training: network → (seeds, records)."""

    steps: Tensor
    fourier: dict[str, Tensor]
    real: dict[str, Tensor]
    dead: dict[str, Tensor]  # share of the samples
    loss: dict[str, Tensor]


@dataclass(frozen=True, eq=False)
class Result:
    config: Config
    trainings: dict[str, Run]


def run(config: Config, runner: Runner) -> Result:
    kinds: dict[str, dict[str, Any]] = {"SGD": {"method": "sgd", "lr": 5e-3, "epochs": config.epochs}}
    if config.slow_epochs:
        kinds["slow SGD"] = {"method": "sgd", "lr": 5e-6, "epochs": config.slow_epochs}
    if config.normalised:
        kinds["normalised"] = {"method": "ngd", "lr": 0.0, "epochs": config.normalised}
    trainings = {}
    for name, kind in kinds.items():
        seeds = range(config.seeds)
        units = [{"experiment": "eq-relu", **kind, "net": net, "seed": s} for net in NETS.values() for s in seeds]
        outcomes = iter(runner.map(_one, units, name))
        mine = {net: [next(outcomes) for _ in seeds] for net in NETS}
        curves = {
            measure: {net: torch.stack([o.arrays[measure] for o in found]) for net, found in mine.items()}
            for measure in ("fourier", "real", "dead", "loss")
        }
        trainings[name] = Run(mine["G-CNN"][0].arrays["steps"], **curves)
    return Result(config, trainings)


@one_thread()
def _one(unit: Mapping[str, Any]) -> Outcome:
    group = dihedral(order=ORDER)
    X, y = data(unit["seed"])
    net = make_network(group, unit["net"], 3, relu=True, seed=unit["seed"])
    found = exponential_descent(net, X, y, group=group, method=unit["method"], epochs=unit["epochs"], lr=unit["lr"])
    arrays = {
        "steps": recorded_steps(unit["epochs"]),
        "fourier": found.fourier_ratios,
        "real": found.real_ratios,
        "dead": found.dead.double() / POINTS,
        "loss": found.losses,
    }
    return Outcome({}, arrays)


def data(seed: int) -> tuple[Tensor, Tensor]:
    """20 points N(0, I), the first ten with label −1."""
    return gaussian_points(POINTS, ORDER, seed), torch.tensor([-1.0, 1.0], dtype=torch.float64).repeat_interleave(
        POINTS // 2
    )


def claims(result: Result) -> list[Claim]:
    found = []
    for name, t in result.trainings.items():
        changes = {net: log_change(curves) for net, curves in t.fourier.items()}
        ends = {net: curves[:, -1].log().tolist() for net, curves in t.fourier.items()}
        fitted = ", ".join(f"{net} {int((v[:, -1] <= 0.1).sum())}" for net, v in t.loss.items())
        note = f"no theorem; of {result.config.seeds} seeds each, loss at most 0.1 at the end: {fitted}"
        levels = "; ".join(
            f"{n} {float(v[:, 0].mean()):.0f} → {float(v[:, -1].mean()):.0f}" for n, v in t.fourier.items()
        )
        found.append(
            claim(
                f"training lowers the Fourier ratio of the ReLU G-CNN ({name})",
                "mean over seeds of log(end/start) is below 0",
                mean(changes["G-CNN"]),
                high=0,
                paper=PAPER["G-CNN"],
                note=f"{note}; levels {levels}",
            )
        )
        for other in ("CNN", "FC"):
            found += [
                claim(
                    f"the ReLU G-CNN starts below the {other} ({name})",
                    "mean over seeds of log(G-CNN/other) at initialisation is below 0",
                    paired(t.fourier["G-CNN"][:, 0].log().tolist(), t.fourier[other][:, 0].log().tolist()),
                    high=0,
                    paper=f"{PAPER['G-CNN'][:3]} below {PAPER[other][:3]}",
                ),
                claim(
                    f"the ReLU G-CNN ends below the {other} ({name})",
                    "mean over seeds of log(G-CNN/other) at the end is below 0",
                    paired(ends["G-CNN"], ends[other]),
                    high=0,
                    paper=f"{PAPER['G-CNN']} against {PAPER[other]}",
                ),
                claim(
                    f"the ReLU G-CNN falls by more than the {other} ({name})",
                    "mean over seeds of the difference of log(end/start) is below 0",
                    paired(changes["G-CNN"], changes[other]),
                    high=0,
                    paper=f"{PAPER['G-CNN']} against {PAPER[other]}",
                ),
            ]
        shares = {net: mean(v[:, -1].tolist()) for net, v in t.dead.items()}
        found.append(
            claim(
                f"few samples of the ReLU G-CNN die ({name})",
                "mean share of samples with zero gradient at the end is at most 0.05",
                shares["G-CNN"],
                high=0.05,
                paper="counted as zero",
                note=", ".join(f"{net} {share.value:.3f}" for net, share in shares.items()),
            )
        )
    return found


def figure(result: Result) -> Figure:
    rows, widest = {}, max(result.trainings.values(), key=lambda t: float(t.steps[-1]))
    shown = result.trainings.get("normalised", widest)
    name = next(n for n, t in result.trainings.items() if t is shown)
    rows["Fourier ratio of the gradients at the data"] = shown.fourier
    rows["real ratio of the gradients at the data"] = shown.real
    how = {"normalised": "normalised gradient descent", "SGD": "plain SGD", "slow SGD": "slow SGD"}[name]
    dead = ", ".join(f"{net} {100 * float(v[:, -1].mean()):.1f} %" for net, v in shown.dead.items())
    return levels_and_changes(
        rows, shown.steps, f"ReLU networks on D60, {result.config.seeds} seeds, {how}; dead samples: {dead}", x="step"
    )
