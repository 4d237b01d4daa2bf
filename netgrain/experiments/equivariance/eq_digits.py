"""Digits on C8xC8xD8 and on p4m(8): what training keeps small depends on which of the two groups convolves.

Claim: a linear three-layer G-CNN ends with a smaller Fourier ratio |β̂|_{2/3}/|β|₂ than a CNN or a fully connected
net, not only because it starts lower but because training lowers it by more; its real ratio is larger. The
8 × 8 digits, 1 against 5, lifted by the 8 elements of D8 to functions on 512 elements in the order (row,
column, r^a s^b), the last fastest; the CNN convolves circularly over that order. Normalised gradient descent in
Fourier space from the authors' initial weights. Cost: smoke a second, laptop about 40 s of one core, paper (5,000
steps, 20 seeds) ten minutes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from netgrain.experiments.claims import Claim, claim
from netgrain.experiments.equivariance.images import NETS, PLOTTED, ImageCurves, image_unit, ordering_claims
from netgrain.experiments.equivariance.studies import Seeds, paired, seeded
from netgrain.geometry.estimate import mean
from netgrain.runtime.runners import Runner

if TYPE_CHECKING:
    from matplotlib.figure import Figure


COST = 42  # processor seconds at laptop scale
COVERS = (77,)


@dataclass(frozen=True)
class Config:
    seeds: int
    count: int  # images of each digit
    steps: int
    records: int
    width: int  # of the fully connected network


PRESETS = {
    "smoke": Config(seeds=2, count=10, steps=12, records=4, width=16),
    "laptop": Config(seeds=10, count=50, steps=800, records=40, width=512),
    "paper": Config(seeds=20, count=50, steps=5000, records=60, width=512),
}


@dataclass(frozen=True, eq=False)
class Result:
    config: Config
    curves: ImageCurves


def run(config: Config, runner: Runner) -> Result:
    common = {"experiment": "eq-digits", "source": "digits", "size": 8, "fresh": 25, "batches": 1, "nets": list(NETS)}
    common |= {"lr": None, "lr_dense": None, "count": config.count, "steps": config.steps}
    common |= {"records": config.records, "width": config.width}
    outcomes = runner.map(image_unit, seeded(config.seeds, **common), "trainings")
    return Result(config, ImageCurves.of(Seeds(outcomes)))


def claims(result: Result) -> list[Claim]:
    curves = result.curves
    margin = min(float(curves.values[f"{n}/margin"][:, -1].min()) for n in NETS)
    accuracy = ", ".join(f"{n} {float(curves.values[f'{n}/accuracy'][:, -1].mean()):.3f}" for n in NETS)
    note = f"smallest margin at the end {margin:.3g}; accuracy on fresh digits: {accuracy}"
    papers = {what: f"MNIST: {shown}" for what, shown in PLOTTED.items()}
    semidirect, direct = "G-CNN, semidirect/semidirect", "G-CNN, direct/direct"
    return [
        *ordering_claims(curves, "", note, papers),
        claim(
            "the semidirect product starts below the direct one",
            "mean over seeds of log(semidirect/direct) at initialisation is below 0",
            mean((curves.values[semidirect][:, 0] / curves.values[direct][:, 0]).log().tolist()),
            high=0,
            note="larger irreps; 5.6k against 6.6k for white noise in the limit of a large group",
        ),
        claim(
            "direct and semidirect end within a fifth of each other",
            "mean over seeds of log(semidirect/direct) at the end is within ±0.2",
            paired(curves.end(semidirect), curves.end(direct)),
            low=-0.2,
            high=0.2,
        ),
    ]


def figure(result: Result) -> Figure:
    from netgrain.experiments.equivariance.panels import levels_and_changes

    config = result.config
    return levels_and_changes(
        result.curves.measures(),
        result.curves.steps,
        f"Digits 1 and 5 on 512 elements, {2 * config.count} images, {config.seeds} seeds (bands: standard error)",
    )
