"""Figure 14: figure 10's ResNet18 at four learning rates: the same preference at each.

Claim: at every learning rate a ResNet18 with batch norm fits its training samples and generalises better along the
first eigenvectors of G than along the last, the smallest rate is the worst overall, and a larger rate ends farther from
the initialisation: that distance, ‖θ_t − θ_0‖, does not make the preference vanish. Linear, quadratic and sinusoidal
labels, the last ones by the paper's rule and by that of the authors' code as in figure 10. At laptop scale one-channel
16 × 16 inputs, a narrow network, few samples and two indices, and training until the loss is at most `stop_at_loss` or
the steps end; settings were chosen on seed 101, which no claim uses. 32 × 32, full width and all indices at paper
scale. Cost: smoke seconds, laptop about five minutes on two cores, paper for a GPU.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING

from netgrain.experiments.claims import Claim, claim
from netgrain.experiments.grain.drawing import GREY, error_bars
from netgrain.experiments.grain.grains import grains_of, model_config
from netgrain.experiments.grain.planted_claims import drop, fitted, is_fitted, judged, per_seed
from netgrain.experiments.grain.planted_drawing import Line, Panel, draw_panels
from netgrain.experiments.grain.planted_labels import (
    CODE,
    FIFTY,
    GRID,
    LABELS,
    PAPER_TRAINING,
    THIRTY,
    AccuracyCurve,
    CurveName,
    Judged,
    OneNetworkConfig,
    kind_of,
    planted_curve,
    train_curves,
)
from netgrain.experiments.grain.trials import MORE
from netgrain.geometry.estimate import mean
from netgrain.runtime.runners import Runner

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COVERS = (49, 50)
COST = 815  # processor seconds at laptop scale, on a busy machine
NETWORK = "ResNet18"
RATES = (1.0, 0.1, 0.01, 0.001)
SHADES = ("#d55e00", "#e69f00", "#009e73", "#0072b2")
LINES = {f"lr {lr:g}": Line(f"learning rate {lr:g}", colour) for lr, colour in zip(RATES, SHADES, strict=True)}

TITLES = {
    "linear": "linear labels",
    "quadratic": "quadratic labels",
    "sinusoidal": "sinusoidal labels, sin(x·u)",
    CODE: "sinusoidal labels, sin(πα)",
}


@dataclass(frozen=True, kw_only=True)
class Config(OneNetworkConfig):
    width: float | None  # None: that of laptop scale


PRESETS = {
    "smoke": Config(
        size=16, width=1 / 32, samples=64, tests=64, labels=("linear", "sinusoidal"), indices=(0, -1),
        training={"batch": 32, "decay": "linear"}, steps=dict.fromkeys(LABELS, 2),
        seeds=2, most_seeds=2, members=4,
    ),
    "laptop": Config(
        size=16, width=None, samples=500, tests=2000, labels=LABELS, indices=(0, -1),
        training={"batch": 32, "decay": "linear", "clip": 2.0, "stop_at_loss": 0.01}, steps=dict.fromkeys(LABELS, 600),
        seeds=3, most_seeds=3, members=64,
    ),
    "paper": Config(
        size=32, width=1.0, samples=10_000, tests=10_000, labels=LABELS, indices=GRID,
        training=PAPER_TRAINING, steps={"linear": THIRTY, "quadratic": THIRTY, "sinusoidal": FIFTY},
        seeds=5, most_seeds=5, members=10_000, device="best",
    ),
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class Result:
    config: Config
    curves: dict[CurveName, AccuracyCurve]  # labelling and learning rate


def curve_name(line: str, lr: float) -> CurveName:
    return CurveName(line, f"lr {lr:g}")


def run(config: Config, runner: Runner) -> Result:
    shape = (1, config.size, config.size)
    model = model_config(NETWORK, shape, activation="gelu", normed=True, width=config.width)
    grains = grains_of(runner, {NETWORK: model}, members=config.members)
    cells = {
        curve_name(line, lr): planted_curve(
            config,
            line,
            model,
            grains[NETWORK],
            about={"name": NETWORK},
            indices=config.indices,
            samples=config.samples,
            settings={**config.training, "lr": lr, "steps": config.steps[kind_of(line)]},
        )
        for line in config.isotropic_lines
        for lr in RATES
    }
    return train_curves(runner, config, cells, grains, partial(Result, config), _judged)


def _judged(result: Result) -> list[Judged]:
    out: list[Judged] = []
    for line in result.config.isotropic_lines:
        names = [curve_name(line, lr) for lr in RATES]
        out += [_same_preference(name, result.curves[name]) for name in names]
        out += [fitted(name, result.curves[name]) for name in names]
        out += [_farther(name, smaller, result.curves) for name, smaller in pairwise(names)]
        out.append(_worst(line, names, result.curves))
    return out


def _same_preference(name: CurveName, curve: AccuracyCurve) -> Judged:
    far = mean([mean(row) for row in curve.distance.values()])
    return judged(
        name,
        curve,
        "same preference",
        "mean accuracy of the first two indices minus the last is positive",
        per_seed(curve, drop),
        paper="falls with the eigenvalue at every learning rate",
        notes=[f"{far.value:.3g} from the initialisation"],
    )


def _farther(name: CurveName, smaller: CurveName, curves: Mapping[CurveName, AccuracyCurve]) -> Judged:
    """How much farther from its initialisation a network ends than at the next smaller rate, seed by seed."""
    a, b = curves[name], curves[smaller]
    means = [{s: mean(row).value for s, row in curve.distance.items()} for curve in (a, b)]
    ratios = [math.log(means[0][s] / means[1][s]) for s in means[0] if s in means[1]]
    far = [mean(list(m.values())).value for m in means]
    return claim(
        "farther than at the next smaller rate",
        "logarithm of ‖θ_t − θ_0‖ at the end of training over that at the next smaller learning rate is positive",
        mean(ratios),
        low=MORE,
        paper="larger learning rates have longer optimisation paths",
        note=f"{far[0]:.3g} against {far[1]:.3g} at {smaller.line}",
        subject=str(name),
        fitted=is_fitted(a) and is_fitted(b),
    ), ()  # decided with the seeds that accuracies need


def _worst(line: str, names: Sequence[CurveName], curves: Mapping[CurveName, AccuracyCurve]) -> Judged:
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
        subject=line,
        fitted=all(is_fitted(curves[n]) for n in names),
    ), tuple(names)


def claims(result: Result) -> list[Claim]:
    return [c for c, _ in _judged(result)]


def figure(result: Result) -> Figure:
    config = result.config
    lines = config.isotropic_lines
    figure = draw_panels(
        result.curves,
        {line: Panel(TITLES[line], "G") for line in lines},
        f"ResNet18, isotropic data ({config.samples} samples); bars: 68 %",
        size=(1.6 + 3.3 * (len(lines) + 1), 4.4),
        lines=LINES,
        more=1,
    )
    _draw_distances(figure.axes[-1], result)
    return figure


def _draw_distances(ax: Axes, result: Result) -> None:
    for line, style in zip(result.config.isotropic_lines, ("o-", "s--", "^:", "v:"), strict=False):
        rows = [result.curves[curve_name(line, lr)].distance.values() for lr in RATES]
        points = [mean([mean(row).value for row in seeds]) for seeds in rows]
        error_bars(ax, RATES, points, fmt=style, color=GREY, ms=4, lw=1.2, capsize=2, label=line)
    ax.set(xscale="log", yscale="log", xlabel="learning rate")
    ax.set_ylabel("‖θ_t − θ_0‖ at the end of training")
    ax.set_title("distance from initialisation", fontsize=10.5)
    ax.legend(fontsize=8, frameon=False)
