"""Figure 14: figure 10's ResNet18 at four learning rates: the same preference at each.

Claim: at every learning rate a ResNet18 with batch norm generalises better along the first eigenvectors of G than along
the last, and the smallest rate is the worst overall. Linear labels and a few indices at one-channel 16 × 16 with a
narrow network at laptop scale; three labellings, 32 × 32 and full width at paper scale. Cost: smoke seconds, laptop
about two minutes on two cores, paper for a GPU.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from netgrain.experiments.claims import Claim, claim
from netgrain.experiments.grain import grains as _grain
from netgrain.experiments.grain import planted_labels as _planted
from netgrain.experiments.grain.planted_labels import GRID, LABELS, POSITIVE, AccuracyCurve, Judged, PlantedCurve
from netgrain.geometry.estimate import mean
from netgrain.runtime.run_folder import Runner

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COST = 240  # processor seconds at laptop scale
NETWORK = "ResNet18"
RATES = (1.0, 0.1, 0.01, 0.001)
SHADES = ("#d55e00", "#e69f00", "#009e73", "#0072b2")


@dataclass(frozen=True)
class Config:
    size: int
    width: float | None  # None: that of laptop scale
    samples: int
    tests: int
    labels: Sequence[str]
    indices: Sequence[int]
    training: Mapping[str, Any]  # all but the learning rate
    steps: Mapping[str, int]  # labelling → steps
    seeds: int
    most_seeds: int
    members: int | None
    device: str


PRESETS = {
    "smoke": Config(
        size=16, width=1 / 32, samples=64, tests=64, labels=("linear",), indices=(0, -1),
        training={"batch": 32, "decay": "linear"}, steps={"linear": 3},
        seeds=2, most_seeds=2, members=4, device="cpu",
    ),
    "laptop": Config(
        size=16, width=None, samples=1500, tests=2000, labels=("linear",), indices=(0, 10, 240, -1),
        training={"batch": 32, "decay": "linear", "clip": 0.5}, steps={"linear": 200},
        seeds=3, most_seeds=4, members=64, device="cpu",
    ),
    "paper": Config(
        size=32, width=1.0, samples=10_000, tests=10_000, labels=LABELS, indices=GRID,
        training={"batch": 128, "decay": "linear", "momentum": 0.0, "clip": 0.5},
        steps={"linear": 30 * 78, "quadratic": 30 * 78, "sinusoidal": 50 * 78},
        seeds=5, most_seeds=10, members=10_000, device="best",
    ),
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class Result:
    config: Config
    curves: dict[str, AccuracyCurve]  # "labelling, lr …"


def _name(labels: str, lr: float) -> str:
    return f"{labels}, lr {lr:g}"


def run(config: Config, runner: Runner) -> Result:
    shape = (1, config.size, config.size)
    model = _grain.model(NETWORK, shape, activation="gelu", normed=True, width=config.width)
    grains = _grain.grains(runner, {NETWORK: model}, members=config.members)
    cells = {
        _name(labels, lr): PlantedCurve(
            NETWORK,
            labels,
            model,
            {"epsilon": _planted.epsilon(labels, NETWORK)},
            _planted.grid(config.indices, config.size**2),
            {**config.training, "lr": lr, "steps": config.steps[labels]},
            config.samples,
            config.tests,
            about={"members": config.members},
        )
        for labels in config.labels
        for lr in RATES
    }
    found = _planted.curves(
        runner,
        cells,
        grains,
        seeds=config.seeds,
        most=config.most_seeds,
        device=config.device,
        judge=lambda curves: _judged(config, curves),
    )
    return Result(config, found)


def _judged(config: Config, curves: Mapping[str, AccuracyCurve]) -> list[Judged]:
    out: list[Judged] = []
    for labels in config.labels:
        names = [_name(labels, lr) for lr in RATES]
        for name in names:
            curve = curves[name]
            train = mean([sum(row) / len(row) for row in curve.train.values()])
            value = _planted.per_seed(curve, _planted.drop)
            first = claim(
                f"{name}: same preference",
                "mean accuracy of the first two indices minus the last is positive",
                value,
                low=POSITIVE,
                paper="falls with the eigenvalue at every learning rate",
                note=_planted.note_of(curve, f"train accuracy {train.value:.1f} %"),
            )
            out.append((first, (name,)))
        out.append(_worst(labels, names, curves))
    return out


def _worst(labels: str, names: Sequence[str], curves: Mapping[str, AccuracyCurve]) -> Judged:
    """The best of the other rates against the smallest, seed by seed; a seed has no say in which rate is its best."""
    seeds = [s for s in curves[names[0]].accuracy if all(s in curves[n].accuracy for n in names)]
    overall = {n: {s: sum(curves[n].accuracy[s]) / len(curves[n].indices) for s in seeds} for n in names}
    best = {s: max(names[:-1], key=lambda n, s=s: sum(overall[n][t] for t in seeds if t != s)) for s in seeds}  # type: ignore[misc]
    chosen = sorted({b.split(", ")[1] for b in best.values()})
    return claim(
        f"{labels}: the smallest learning rate is worst",
        f"accuracy over all indices at the best learning rate minus that at {RATES[-1]:g} is positive",
        mean([overall[best[s]][s] - overall[names[-1]][s] for s in seeds]),
        low=POSITIVE,
        paper="small learning rates do worse overall",
        note=f"best, by the other seeds: {', '.join(chosen)}",
    ), tuple(names)


def claims(result: Result) -> list[Claim]:
    return [c for c, _ in _judged(result.config, result.curves)]


def figure(result: Result) -> Figure:
    from matplotlib.figure import Figure

    config = result.config
    figure = Figure(figsize=(1.6 + 4.6 * len(config.labels), 4.4), layout="constrained")
    axes = figure.subplots(1, len(config.labels), sharey=True, squeeze=False)[0]
    for ax, labels in zip(axes, config.labels, strict=True):
        indices: set[int] = set()
        for lr, colour in zip(RATES, SHADES, strict=True):
            curve = result.curves[_name(labels, lr)]
            indices.update(curve.indices)
            _planted.draw(ax, curve, label=f"learning rate {lr:g}", colour=colour)
        _planted.finish(ax, f"{labels} labels", matrix="G", indices=indices)
    axes[0].set_ylabel("test accuracy (%)")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False, fontsize=9)
    figure.suptitle(f"ResNet18, isotropic data ({config.samples} samples); bars: 68 %", fontsize=12)
    return figure
