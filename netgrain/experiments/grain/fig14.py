"""Figure 14: figure 10's ResNet18 at four learning rates: the same preference at each.

Claim: at every learning rate a ResNet18 with batch norm generalises better along the first eigenvectors of G than along
the last, and the smallest rate is the worst overall. Linear labels and a few indices at one-channel 16 × 16 with a
narrow network at laptop scale; three labellings, 32 × 32 and full width at paper scale. Cost: smoke seconds, laptop
about two minutes on two cores, paper for a GPU.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from netgrain.experiments.claims import Claim, claim
from netgrain.experiments.grain.grains import grains_of, model_config
from netgrain.experiments.grain.planted_claims import drop, judged, per_seed
from netgrain.experiments.grain.planted_drawing import Line, Panel, draw_panels
from netgrain.experiments.grain.planted_labels import (
    FIFTY,
    GRID,
    LABELS,
    PAPER_TRAINING,
    THIRTY,
    AccuracyCurve,
    CurveName,
    Judged,
    OneNetworkConfig,
    planted_curve,
    train_curves,
)
from netgrain.experiments.grain.trials import MORE
from netgrain.geometry.estimate import mean
from netgrain.runtime.run_folder import Runner

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COST = 240  # processor seconds at laptop scale
NETWORK = "ResNet18"
RATES = (1.0, 0.1, 0.01, 0.001)
SHADES = ("#d55e00", "#e69f00", "#009e73", "#0072b2")
LINES = {f"lr {lr:g}": Line(f"learning rate {lr:g}", colour) for lr, colour in zip(RATES, SHADES, strict=True)}


@dataclass(frozen=True, kw_only=True)
class Config(OneNetworkConfig):
    width: float | None  # None: that of laptop scale


PRESETS = {
    "smoke": Config(
        size=16, width=1 / 32, samples=64, tests=64, labels=("linear",), indices=(0, -1),
        training={"batch": 32, "decay": "linear"}, steps={"linear": 3},
        seeds=2, most_seeds=2, members=4,
    ),
    "laptop": Config(
        size=16, width=None, samples=1500, tests=2000, labels=("linear",), indices=(0, 10, 240, -1),
        training={"batch": 32, "decay": "linear", "clip": 0.5}, steps={"linear": 200},
        seeds=3, most_seeds=4, members=64,
    ),
    "paper": Config(
        size=32, width=1.0, samples=10_000, tests=10_000, labels=LABELS, indices=GRID,
        training=PAPER_TRAINING, steps={"linear": THIRTY, "quadratic": THIRTY, "sinusoidal": FIFTY},
        seeds=5, most_seeds=10, members=10_000, device="best",
    ),
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class Result:
    config: Config
    curves: dict[CurveName, AccuracyCurve]  # labelling and learning rate


def curve_name(labels: str, lr: float) -> CurveName:
    return CurveName(labels, f"lr {lr:g}")


def run(config: Config, runner: Runner) -> Result:
    shape = (1, config.size, config.size)
    model = model_config(NETWORK, shape, activation="gelu", normed=True, width=config.width)
    grains = grains_of(runner, {NETWORK: model}, members=config.members)
    cells = {
        curve_name(labels, lr): planted_curve(
            config,
            labels,
            model,
            grains[NETWORK],
            about={"name": NETWORK},
            indices=config.indices,
            samples=config.samples,
            settings={**config.training, "lr": lr, "steps": config.steps[labels]},
        )
        for labels in config.labels
        for lr in RATES
    }
    return train_curves(runner, config, cells, grains, partial(Result, config), _judged)


def _judged(result: Result) -> list[Judged]:
    out: list[Judged] = []
    for labels in result.config.labels:
        names = [curve_name(labels, lr) for lr in RATES]
        out += [_same_preference(name, result.curves[name]) for name in names]
        out.append(_worst(labels, names, result.curves))
    return out


def _same_preference(name: CurveName, curve: AccuracyCurve) -> Judged:
    train = mean([mean(row) for row in curve.train.values()])
    return judged(
        name,
        curve,
        "same preference",
        "mean accuracy of the first two indices minus the last is positive",
        per_seed(curve, drop),
        paper="falls with the eigenvalue at every learning rate",
        notes=[f"train accuracy {train.value:.1f} %"],
    )


def _worst(labels: str, names: Sequence[CurveName], curves: Mapping[CurveName, AccuracyCurve]) -> Judged:
    """The best of the other rates against the smallest, seed by seed; a seed has no say in which rate is its best."""
    seeds = [s for s in curves[names[0]].accuracy if all(s in curves[n].accuracy for n in names)]
    overall = {n: {s: mean(curves[n].accuracy[s]).value for s in seeds} for n in names}
    best = {s: max(names[:-1], key=lambda n, s=s: sum(overall[n][t] for t in seeds if t != s)) for s in seeds}  # type: ignore[misc]
    chosen = sorted({name.line for name in best.values()})
    return claim(
        "the smallest learning rate is worst",
        f"accuracy over all indices at the best learning rate minus that at {RATES[-1]:g} is positive",
        mean([overall[best[s]][s] - overall[names[-1]][s] for s in seeds]),
        low=MORE,
        paper="small learning rates do worse overall",
        note=f"best, by the other seeds: {', '.join(chosen)}",
        subject=labels,
    ), tuple(names)


def claims(result: Result) -> list[Claim]:
    return [c for c, _ in _judged(result)]


def figure(result: Result) -> Figure:
    config = result.config
    return draw_panels(
        result.curves,
        {labels: Panel(f"{labels} labels", "G") for labels in config.labels},
        f"ResNet18, isotropic data ({config.samples} samples); bars: 68 %",
        size=(1.6 + 4.6 * len(config.labels), 4.4),
        lines=LINES,
    )
