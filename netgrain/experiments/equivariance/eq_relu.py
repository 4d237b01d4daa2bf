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
from netgrain.experiments.equivariance.images import levels, log_change
from netgrain.experiments.equivariance.studies import Seeds, collected, gaussian_points, paired, seeded, stacked
from netgrain.geometry.estimate import mean
from netgrain.groups.constructors import dihedral
from netgrain.runtime.runners import Runner
from netgrain.runtime.threads import one_thread
from netgrain.runtime.units import Outcome

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COST = 38  # processor seconds at laptop scale
COVERS = (78,)
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
    "smoke": Config(seeds=2, epochs=5, slow_epochs=0, normalised=5),
    "laptop": Config(seeds=10, epochs=1000, slow_epochs=0, normalised=300),
    "paper": Config(seeds=3, epochs=1000, slow_epochs=10_000, normalised=0),
}


@dataclass(frozen=True, eq=False)
class Result:
    config: Config
    trainings: dict[str, dict[str, Seeds]]  # kind of training → network


def run(config: Config, runner: Runner) -> Result:
    kinds: dict[str, dict[str, Any]] = {"SGD": {"method": "sgd", "lr": 5e-3, "epochs": config.epochs}}
    if config.slow_epochs:
        kinds["slow SGD"] = {"method": "sgd", "lr": 5e-6, "epochs": config.slow_epochs}
    if config.normalised:
        kinds["normalised"] = {"method": "ngd", "lr": 0.0, "epochs": config.normalised}
    trainings = {}
    for name, kind in kinds.items():
        asked = {net: seeded(config.seeds, experiment="eq-relu", **kind, net=known) for net, known in NETS.items()}
        trainings[name] = collected(runner, asked, name, _one)
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
    labels = torch.tensor([-1.0, 1.0], dtype=torch.float64).repeat_interleave(POINTS // 2)
    return gaussian_points(POINTS, ORDER, seed), labels


def claims(result: Result) -> list[Claim]:
    found = []
    for name, trained in result.trainings.items():
        fourier = stacked(trained, "fourier")
        starts, ends = ({net: v[:, at].log().tolist() for net, v in fourier.items()} for at in (0, -1))
        changes = {net: log_change(curves) for net, curves in fourier.items()}
        fitted = ", ".join(f"{net} {int((v[:, -1] <= 0.1).sum())}" for net, v in stacked(trained, "loss").items())
        note = f"no theorem; of {result.config.seeds} seeds each, loss at most 0.1 at the end: {fitted}"
        found.append(
            claim(
                f"training lowers the Fourier ratio of the ReLU G-CNN ({name})",
                "mean over seeds of log(end/start) is below 0",
                mean(changes["G-CNN"]),
                high=0,
                paper=PAPER["G-CNN"],
                note=f"{note}; levels {levels(fourier, '.0f', '; ')}",
            )
        )
        for other in ("CNN", "FC"):
            against = f"{PAPER['G-CNN']} against {PAPER[other]}"
            for verb, measured, values, paper in (
                ("starts below", "log(G-CNN/other) at initialisation", starts, f"238 below {PAPER[other][:3]}"),
                ("ends below", "log(G-CNN/other) at the end", ends, against),
                ("falls by more than", "the difference of log(end/start)", changes, against),
            ):
                found.append(
                    claim(
                        f"the ReLU G-CNN {verb} the {other} ({name})",
                        f"mean over seeds of {measured} is below 0",
                        paired(values["G-CNN"], values[other]),
                        high=0,
                        paper=paper,
                    )
                )
        shares = {net: mean(v[:, -1].tolist()) for net, v in stacked(trained, "dead").items()}
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
    from netgrain.experiments.equivariance.panels import levels_and_changes

    steps = {name: trained["G-CNN"][0].arrays["steps"] for name, trained in result.trainings.items()}
    name = "normalised" if "normalised" in steps else max(steps, key=lambda name: float(steps[name][-1]))
    shown = result.trainings[name]
    how = {"normalised": "normalised gradient descent", "SGD": "plain SGD"}.get(name, name)
    dead = ", ".join(f"{net} {100 * float(v[:, -1].mean()):.1f} %" for net, v in stacked(shown, "dead").items())
    return levels_and_changes(
        {
            "Fourier ratio of the gradients at the data": stacked(shown, "fourier"),
            "real ratio of the gradients at the data": stacked(shown, "real"),
        },
        steps[name],
        f"ReLU networks on D60, {result.config.seeds} seeds, {how}; dead samples: {dead}",
        x="step",
    )
