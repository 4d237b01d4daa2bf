"""MNIST 1 against 5 on C28xC28xD8 and on p4m(28): the level at epoch 0 from theory, and what training adds.

Claim: before any training a three-layer G-CNN on the direct product has |β̂|_{2/3}/|β|₂ = 288k (the authors' plot:
289k), on the true semidirect product 248k, a fully connected net 410k, all from products of Gaussian matrices; so
the gap that is plotted is mostly there at epoch 0, and only the change from it is evidence of training. Trainings:
the authors' plain SGD (2 batches of 50, learning rates 2e-6 and for FC 1e-4, 100 epochs) on the mean loss of a
batch, with which nothing is learnt, and on its sum, which comes near their changes; then normalised gradient descent.
Where MNIST is not found the digits that come with netgrain, enlarged to 28 × 28, stand in (at smoke scale as they are,
8 × 8). Images are lifted in the order (row, column, r^a s^b), the last fastest; the CNN is circular over that order.
The slides show the plot without numbers: 289k and the others are read off the authors' own output. The fully connected
network has the authors' width 6272 at paper scale and 256 at laptop scale, which notes and figure say; its β at epoch 0
is Gaussian at either width, its speed is not the same. Cost: smoke two seconds, laptop about 55 s of one core, paper
(two seeds, the authors' training alone) about 20 minutes and 2 GB.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from torch import Tensor

from netgrain.equivariant.limits import make_network
from netgrain.equivariant.networks import predictor
from netgrain.equivariant.schatten_norms import schatten_ratio
from netgrain.experiments.claims import Claim, claim
from netgrain.experiments.equivariance.fourier_descent import initial_layers, recorded, steps_in_fourier
from netgrain.experiments.equivariance.images import (
    DEPTH,
    NETS,
    PLOTTED,
    ImageCurves,
    image_groups,
    image_unit,
    mnist_is_here,
    ordering_claims,
)
from netgrain.experiments.equivariance.studies import Seeds, seeded
from netgrain.experiments.equivariance.white_noise import expected_ratio
from netgrain.geometry.estimate import mean
from netgrain.runtime.runners import Runner
from netgrain.runtime.units import Outcome

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COST = 52  # processor seconds at laptop scale
COVERS = (77,)
AT_START = ("G-CNN, direct", "G-CNN, semidirect", "FC")
AUTHORS = {"G-CNN, direct": 289_000.0, "FC": 386_000.0}
CHANGES = {"G-CNN, direct": math.log(273 / 289), "FC": math.log(334 / 386)}
MEAN, SUM = "authors' rates, mean loss", "authors' rates, summed loss"
NARROW = 256  # of the fully connected network at epoch 0: β is Gaussian at any width of this size


@dataclass(frozen=True)
class Config:
    size: int  # pixels of a side; 28 is MNIST
    look_for_mnist: bool
    seeds: int
    draws: int  # initialisations at epoch 0
    count: int  # images of each digit
    epochs: int  # of the authors' training, two steps each
    steps: int  # of normalised gradient descent; 0: none
    records: int
    width: int


PRESETS = {
    "smoke": Config(8, look_for_mnist=False, seeds=2, draws=4, count=6, epochs=2, steps=4, records=3, width=8),
    "laptop": Config(
        28, look_for_mnist=True, seeds=5, draws=40, count=50, epochs=100, steps=250, records=20, width=256
    ),
    "paper": Config(28, look_for_mnist=True, seeds=2, draws=200, count=50, epochs=100, steps=0, records=40, width=6272),
}


@dataclass(frozen=True, eq=False)
class Result:
    config: Config
    source: str
    start: dict[str, Tensor]  # network → Fourier ratios at epoch 0, (draws,)
    expected: dict[str, float]
    trainings: dict[str, ImageCurves]


def run(config: Config, runner: Runner) -> Result:
    mine = {"experiment": "eq-mnist", "size": config.size}
    asked = {"experiment": "eq-mnist", "ask": "source", "look_for_mnist": config.look_for_mnist}
    source = runner.map(_source, [asked], "data")[0].numbers["source"]
    at_start = Seeds(runner.map(_at_start, seeded(config.draws, **mine, ask="epoch 0"), "initialisations"))
    theory = runner.map(_theory, [{**mine, "ask": "theory"}], "theory")[0]
    common = {**mine, "source": source, "fresh": 25, "count": config.count}
    common |= {"records": config.records, "width": config.width}
    sums, theirs = config.count, {"steps": 2 * config.epochs, "batches": 2}  # images of a batch, of two
    every = list(NETS)
    paces: dict[str, dict[str, Any]] = {
        MEAN: {**theirs, "lr": 2e-6, "lr_dense": 1e-4, "nets": ["G-CNN, direct", "FC"]},
        SUM: {**theirs, "lr": 2e-6 * sums, "lr_dense": 1e-4 * sums, "nets": every},
    }
    if config.steps:
        paces["normalised"] = {"steps": config.steps, "lr": None, "lr_dense": None, "batches": 1, "nets": every}
    trainings = {
        name: ImageCurves.of(Seeds(runner.map(image_unit, seeded(config.seeds, **common, **pace), name)))
        for name, pace in paces.items()
    }
    start = {n: at_start.stacked(n) for n in AT_START}
    return Result(config, source, start, {n: theory.numbers[n] for n in AT_START}, trainings)


def _source(unit: Mapping[str, Any]) -> Outcome:
    return Outcome({"source": "mnist" if unit["look_for_mnist"] and mnist_is_here() else "digits"})


def _at_start(unit: Mapping[str, Any]) -> Outcome:
    groups, seed = image_groups(unit["size"]), unit["seed"]
    n = groups["direct"].order
    layers = initial_layers(n, 3, [seed])
    nothing = layers[0]  # no step is made, so any data will do
    found = {}
    for kind, group in groups.items():
        start = recorded(steps_in_fourier(group, layers, nothing), [0])
        found[f"G-CNN, {kind}"] = schatten_ratio(group, start.betas[0, 0], DEPTH)
    dense = predictor(make_network(groups["direct"], "fully-connected", 3, width=NARROW, seed=seed)).detach()
    found["FC"] = schatten_ratio(groups["direct"], dense, DEPTH)
    return Outcome({}, found)


def _theory(unit: Mapping[str, Any]) -> Outcome:
    groups = image_groups(unit["size"])
    found = {f"G-CNN, {kind}": expected_ratio(group, 3) for kind, group in groups.items()}
    return Outcome({**found, "FC": expected_ratio(groups["direct"], 1)})


def claims(result: Result) -> list[Claim]:
    stand_in = "" if result.source == "mnist" else "the bundled 8 × 8 digits stand in for MNIST"
    found = [
        claim(
            f"epoch 0 of {net} is as predicted",
            f"mean level over the prediction {value / 1000:.1f}k is within 1 % of one",
            mean((result.start[net] / value).tolist()),
            low=0.99,
            high=1.01,
            paper=f"{AUTHORS[net] / 1000:.0f}k" if net in AUTHORS else "not measured",
            note="independent of the data",
        )
        for net, value in result.expected.items()
    ]
    bounds = (("direct", 0.98, 1.02, "is within 2 % of one"), ("semidirect", None, 0.95, "is below 0.95"))
    for kind, low, high, says in bounds if result.config.size == 28 else ():
        found.append(
            claim(
                f"the {kind} product is {'' if low else 'not '}the authors' group",
                f"mean level at epoch 0 over their 289k {says}",
                mean((result.start[f"G-CNN, {kind}"] / AUTHORS["G-CNN, direct"]).tolist()),
                low=low,
                high=high,
                paper="(C28 × C28) × D8, 289k",
            )
        )
    papers = {what: f"{t}: the other way round" if "against" in t else t for what, t in PLOTTED.items()}
    for name, curves in result.trainings.items():
        margins = ", ".join(
            f"{n.split('/')[0]} {float(v[:, -1].mean()):.2g}" for n, v in curves.values.items() if n.endswith("/margin")
        )
        width = f"FC of width {result.config.width}"
        note = "; ".join(filter(None, [f"mean of the smallest margins: {margins}", width, stand_in]))
        if name != "normalised" and result.config.size == 28:
            found += [
                claim(
                    f"{net} changes as in the authors' plot ({name})",
                    f"mean of log(end/start) is within 0.03 of their {change:.3f}",
                    mean(curves.change(f"{net}/direct")),
                    low=change - 0.03,
                    high=change + 0.03,
                    paper=PLOTTED["change"] if net != "FC" else "386k → 334k",
                    note=note if name == MEAN else f"{note}; that their loss is a sum is an inference",
                )
                for net, change in CHANGES.items()
            ]
        if name != MEAN:
            kinds = ("direct",) if name == SUM and len(result.trainings) > 2 else ("direct", "semidirect")
            found += ordering_claims(curves, f" ({name})", note, papers if name == SUM else {}, kinds)
    return found


def figure(result: Result) -> Figure:
    from netgrain.experiments.equivariance.panels import levels_and_changes

    config = result.config
    shown = "normalised" if "normalised" in result.trainings else SUM
    curves = result.trainings[shown]
    measures = curves.measures()
    titles = list(measures)
    data = "MNIST" if result.source == "mnist" else "digits"
    known = {
        titles[0]: {"theory, G-CNN": result.expected["G-CNN, direct"], "theory, FC": result.expected["FC"]},
        titles[1]: {"theory, G-CNN": result.expected["G-CNN, semidirect"]},
    }
    steps = "normalised gradient descent" if shown == "normalised" else "the authors' SGD"
    return levels_and_changes(
        measures,
        curves.steps,
        f"{data} 1 and 5 on {8 * config.size**2} elements, {2 * config.count} images, {config.seeds} seeds, {steps}; "
        f"FC of width {config.width}",
        x="step",
        lines=known,
    )
