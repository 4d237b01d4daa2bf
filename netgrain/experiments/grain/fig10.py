"""Figure 10: labels along an eigenvector of G on isotropic noise, learnt or not according to its eigenvalue.

Claim: LeNet and ResNet18 generalise along the leading eigenvectors and not along the last, sooner so for harder labels;
a ViT does better in the first of its two eigenspaces; an MLP does not care. x = ε α u + ω, labels linear, quadratic and
sinusoidal in α, networks with GELU, batch norm in ResNet18 and layer norm in ViT. One-channel 16 × 16 inputs, narrow
ResNet18 and ViT and thinner grids of indices at laptop scale, 32 × 32 and full width at paper scale. Cost: smoke
seconds, laptop about eight minutes on two cores, paper for a GPU.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from netgrain.experiments.claims import Claim, claim
from netgrain.experiments.grain import grains as _grain
from netgrain.experiments.grain import planted_labels as _planted
from netgrain.experiments.grain.planted_labels import GRID, LABELS, POSITIVE, AccuracyCurve, Judged, PlantedCurve
from netgrain.geometry.estimate import Estimate
from netgrain.runtime.run_folder import Runner

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COST = 986  # processor seconds at laptop scale
NETWORKS = ("MLP", "LeNet", "ResNet18", "ViT")
STRUCTURED = ("LeNet", "ResNet18")  # whose G has a spectrum worth the name
SHARP = "about 100 % along the first eigenvectors, chance along the last"


@dataclass(frozen=True)
class Config:
    size: int
    width: float | None  # of ResNet18 and ViT; None: that of laptop scale
    samples: Mapping[str, int]  # network → training samples
    tests: int
    grids: Mapping[str, Sequence[Sequence[int]]]  # network → indices for linear, quadratic, sinusoidal labels
    training: Mapping[str, Mapping[str, Any]]  # network → settings
    steps: Mapping[str, Sequence[int]]  # network → steps for linear, quadratic, sinusoidal labels
    seeds: int
    most_seeds: int
    members: int | None  # networks behind G where it is sampled
    twins: bool  # compare G of narrow families with that at full width
    device: str


# 10,000 samples in batches of 128 are 78 steps an epoch: 30 epochs, LeNet 50, sinusoidal labels 50
THIRTY, FIFTY = 30 * 78, 50 * 78
PAPER = {"lr": 0.5, "momentum": 0.0, "clip": 0.5, "batch": 128, "decay": "linear"}
# at laptop scale: the ends of the grid, and two random directions in either eigenspace of a ViT
ENDS, FEW, SOME, SPACES = (0, -1), (0, 10, 120, 240, -1), (0, 10, 40, 120, 240, -1), (0, 40, 120, -1)
PRESETS = {
    "smoke": Config(
        size=16, width=1 / 32, samples=dict.fromkeys(NETWORKS, 64), tests=64,
        grids={"MLP": (ENDS,) * 3, "LeNet": (ENDS,) * 3, "ResNet18": (ENDS,) * 3, "ViT": (ENDS,) * 3},
        training={key: {"lr": 0.1, "batch": 32, "decay": "linear"} for key in NETWORKS},
        steps=dict.fromkeys(NETWORKS, (3, 3, 3)),
        seeds=2, most_seeds=2, members=4, twins=False, device="cpu",
    ),
    "laptop": Config(
        size=16, width=None, samples={"MLP": 1000, "LeNet": 1000, "ResNet18": 2000, "ViT": 1000}, tests=2000,
        grids={
            "MLP": (ENDS,) * 3, "LeNet": (GRID, SOME, SOME), "ResNet18": (GRID, FEW, FEW), "ViT": (SPACES, ENDS, ENDS),
        },
        training={
            "MLP": {"lr": 0.1, "batch": 128, "decay": "linear"},
            "LeNet": {"lr": 0.3, "batch": 128, "decay": "linear", "clip": 0.5},
            "ResNet18": {"lr": 0.5, "batch": 48, "decay": "linear", "clip": 0.5},
            "ViT": {"lr": 0.03, "batch": 64, "decay": "linear"},
        },
        steps={"MLP": (600,) * 3, "LeNet": (800,) * 3, "ResNet18": (200,) * 3, "ViT": (120, 150, 150)},
        seeds=3, most_seeds=5, members=64, twins=True, device="cpu",
    ),
    "paper": Config(
        size=32, width=1.0, samples=dict.fromkeys(NETWORKS, 10_000), tests=10_000,
        grids=dict.fromkeys(NETWORKS, (GRID,) * 3),
        training=dict.fromkeys(NETWORKS, PAPER),
        steps={n: (FIFTY if n == "LeNet" else THIRTY,) * 2 + (FIFTY,) for n in NETWORKS},
        seeds=5, most_seeds=10, members=10_000, twins=False, device="best",
    ),
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class Result:
    config: Config
    curves: dict[str, AccuracyCurve]  # "network, labelling"
    first: int  # dimensions of ViT's first eigenspace
    twins: dict[str, Estimate]  # Corr(G narrow, G full) of narrow networks


def run(config: Config, runner: Runner) -> Result:
    shape = (1, config.size, config.size)
    models = {
        n: _grain.model(
            n, shape, activation="gelu", normed=True, width=config.width if n in ("ResNet18", "ViT") else 1.0
        )
        for n in NETWORKS
    }
    grains = _grain.grains(runner, models, members=config.members, twins=config.twins)
    cells = {
        f"{n}, {labels}": PlantedCurve(
            n,
            labels,
            models[n],
            {"epsilon": _planted.epsilon(labels, n)},
            _planted.grid(config.grids[n][k], config.size**2),
            {**config.training[n], "steps": config.steps[n][k]},
            config.samples[n],
            config.tests,
            about={"members": config.members},
            audited=n in STRUCTURED,
        )
        for n in NETWORKS
        for k, labels in enumerate(LABELS)
    }
    first = grains["ViT"].block_of(0)[1]
    twins = {n: g.twin for n, g in grains.items() if g.twin is not None}
    found = _planted.curves(
        runner,
        cells,
        grains,
        seeds=config.seeds,
        most=config.most_seeds,
        device=config.device,
        judge=lambda curves: _judged(curves, first),
    )
    return Result(config, found, first, twins)


def _judged(curves: Mapping[str, AccuracyCurve], first: int) -> list[Judged]:
    out: list[Judged] = []
    for network in STRUCTURED:
        for labels in LABELS:
            name = f"{network}, {labels}"
            low = 0.8 if labels == "linear" else POSITIVE
            out.append(_planted.falls(name, curves[name], SHARP))
            out.append(_planted.ordered(name, curves[name], low=low, matrix="G", paper="falls with the eigenvalue"))
            out.append(_planted.audited(name, curves[name]))
            if labels != "linear":
                line = f"{network}, linear"
                out.append(_planted.sooner(network, (line, curves[line]), (name, curves[name]), labels))
    for labels in LABELS:
        name = f"ViT, {labels}"
        out.append(
            _planted.spaces(
                name,
                curves[name],
                [i < first for i in curves[name].indices],
                paper="generalises in the first eigenspace only",
            )
        )
        out.append(_planted.ordered(name, curves[name], matrix="G", paper="falls with the eigenvalue"))
    for labels in LABELS:
        name = f"MLP, {labels}"
        flat = claim(
            f"{name}: does not care",
            "accuracy at the first index minus the last is within ± 3 points",
            _planted.per_seed(curves[name], lambda row: row[0] - row[-1]),
            low=-3,
            high=3,
            paper="the same along all directions",
            note=_planted.note_of(
                curves[name],
                "G is a multiple of the identity, so both directions are random: an identity, no evidence",
                _planted.unlearnt(curves[name]),
            ),
        )
        out.append((flat, (name,)))
    out += [_planted.fitted(f"{n}, linear", curves[f"{n}, linear"]) for n in NETWORKS]
    return out


def claims(result: Result) -> list[Claim]:
    return [c for c, _ in _judged(result.curves, result.first)] + _planted.narrow(result.twins)


def figure(result: Result) -> Figure:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12.6, 7.2), layout="constrained")
    axes = figure.subplots(2, 2, sharey=True).flatten()
    for ax, network in zip(axes, NETWORKS, strict=True):
        indices: set[int] = set()
        for labels in LABELS:
            curve = result.curves[f"{network}, {labels}"]
            indices.update(curve.indices)
            _planted.draw(ax, curve, label=labels, colour=_planted.SHADES[labels], style=_planted.STYLES[labels])
        _planted.finish(ax, f"{network}, {result.config.samples[network]} samples", matrix="G", indices=indices)
        ax.set_ylabel("test accuracy (%)")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False, fontsize=9)
    axes[3].axvline(result.first + 0.5, color=_grain.COLOURS["ViT"], lw=0.8)
    axes[3].text(result.first + 0.5, 42, " second eigenspace", color=_grain.COLOURS["ViT"], fontsize=8)
    figure.suptitle(
        f"Labels along one eigenvector of G, isotropic data ({result.config.size} × {result.config.size}); bars: 68 %",
        fontsize=12,
    )
    return figure
