"""Figure 4: labels planted along an eigenvector of G S G in images, learnt or not according to its eigenvalue.

Claim: LeNet and ResNet18 (no normalisation, GELU) generalise along the leading eigenvectors of G S G and not along the
last, sooner so for harder labels. A ViT's G has two eigenspaces, which eigenvectors of G S G inherit: each is counted
to the one that holds most of its squared length, and accuracy in the first is compared with that in the second.
Labels carry noise, which matters more where the images vary less: the accuracy of the planted rule itself is drawn
beside the curves. CIFAR-10 at 16 × 16 (or digits where there is none), narrow ResNet18 and ViT at laptop scale; 32 × 32
and full width at paper scale. Cost: smoke seconds, laptop about seven minutes on two cores, paper for a GPU.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from netgrain.experiments.claims import Claim
from netgrain.experiments.grain import grains as _grain
from netgrain.experiments.grain import planted_labels as _planted
from netgrain.experiments.grain.grains import Grain
from netgrain.experiments.grain.planted_labels import GRID, LABELS, POSITIVE, AccuracyCurve, Judged, PlantedCurve
from netgrain.geometry.estimate import Estimate
from netgrain.runtime.run_folder import Runner

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COST = 760  # processor seconds at laptop scale
NETWORKS = ("LeNet", "ResNet18", "ViT")
STRUCTURED = ("LeNet", "ResNet18")
LABEL_NOISE = 0.2  # variance over that of the channel


@dataclass(frozen=True)
class Config:
    images: str
    size: int
    pool: int  # images from which every seed takes its own; S is their covariance
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
# at laptop scale: the ends of the grid, and the eigenvectors of G S G on either side of ViT's first eigenspace
ENDS, FEW, SOME, SPACES = (0, -1), (0, 10, 240, 480, -1), (0, 10, 40, 120, 240, 480, -1), (0, 10, 120, 240, -1)
PRESETS = {
    "smoke": Config(
        images="digits", size=16, pool=200, width=1 / 32, samples=dict.fromkeys(NETWORKS, 64), tests=64,
        grids=dict.fromkeys(NETWORKS, (ENDS,) * 3),
        training={key: {"lr": 0.1, "batch": 32, "decay": "linear"} for key in NETWORKS},
        steps=dict.fromkeys(NETWORKS, (3, 3, 3)),
        seeds=2, most_seeds=2, members=4, twins=False, device="cpu",
    ),
    "laptop": Config(
        images="auto", size=16, pool=6000, width=None,
        samples={"LeNet": 1000, "ResNet18": 1000, "ViT": 1000}, tests=2000,
        grids={"LeNet": (GRID, SOME, SOME), "ResNet18": (GRID, FEW, FEW), "ViT": (SPACES,) * 3},
        training={
            "LeNet": {"lr": 0.2, "batch": 128, "decay": "linear", "clip": 0.5},
            "ResNet18": {"lr": 1.0, "batch": 32, "decay": "linear", "clip": 0.25},
            "ViT": {"lr": 0.03, "batch": 64, "decay": "linear", "clip": 0.5},
        },
        steps={"LeNet": (700,) * 3, "ResNet18": (200,) * 3, "ViT": (150,) * 3},
        seeds=3, most_seeds=4, members=64, twins=True, device="cpu",
    ),
    "paper": Config(
        images="cifar10", size=32, pool=50_000, width=1.0, samples=dict.fromkeys(NETWORKS, 10_000), tests=10_000,
        grids=dict.fromkeys(NETWORKS, (GRID,) * 3),
        training=dict.fromkeys(NETWORKS, PAPER),
        steps={n: (FIFTY if n == "LeNet" else THIRTY,) * 2 + (FIFTY,) for n in NETWORKS},
        seeds=5, most_seeds=10, members=10_000, twins=False, device="best",
    ),
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class Result:
    config: Config
    images: str
    curves: dict[str, AccuracyCurve]  # "network, labelling"
    first: dict[int, float]  # index → share of that eigenvector of G S G in the first eigenspace of ViT's G
    twins: dict[str, Estimate]


def run(config: Config, runner: Runner) -> Result:
    name = _grain.images_found(runner, config.images)
    shape = (1 if name == "digits" else 3, config.size, config.size)
    pool = {"name": name, "size": config.size, "samples": config.pool, "tests": config.tests}
    models = {
        n: _grain.model(n, shape, activation="gelu", width=1.0 if n == "LeNet" else config.width) for n in NETWORKS
    }
    grains = _grain.grains(runner, models, members=config.members, images=pool, twins=config.twins)
    alone = _grain.grains(runner, {"ViT": models["ViT"]}, members=config.members)["ViT"]
    cells = {
        f"{n}, {labels}": PlantedCurve(
            n,
            labels,
            models[n],
            {"images": pool, "label_noise": LABEL_NOISE},
            _planted.grid(config.grids[n][k], len(grains[n].values), within=_planted.room(grains[n], name)),
            {**config.training[n], "steps": config.steps[n][k]},
            config.samples[n],
            config.tests,
            about={"members": config.members, "images": pool},
        )
        for n in NETWORKS
        for k, labels in enumerate(LABELS)
    }
    asked = {i for labels in LABELS for i in cells[f"ViT, {labels}"].indices}
    first = {i: share(alone, grains["ViT"], i) for i in sorted(asked)}
    found = _planted.curves(
        runner,
        cells,
        grains,
        seeds=config.seeds,
        most=config.most_seeds,
        device=config.device,
        judge=lambda curves: _judged(curves, first),
    )
    twins = {n: g.twin for n, g in grains.items() if g.twin is not None}
    return Result(config, name, found, first, twins)


def share(G: Grain, GSG: Grain, index: int) -> float:
    """How much of an eigenvector (on average over its block) lies in the first eigenspace of G, from 0 to 1."""
    top = G.directions[: G.block_of(0)[1]].flatten(1)
    start, stop = GSG.block_of(index)
    block = GSG.directions[start:stop].flatten(1)
    return float((block @ top.T).square().sum() / (stop - start))


def _judged(curves: Mapping[str, AccuracyCurve], first: Mapping[int, float]) -> list[Judged]:
    out: list[Judged] = []
    for network in STRUCTURED:
        for labels in LABELS:
            name = f"{network}, {labels}"
            low = 0.8 if labels == "linear" else POSITIVE
            out.append(_planted.falls(name, curves[name], "high along the first eigenvectors, chance along the last"))
            out.append(_planted.ordered(name, curves[name], low=low, matrix="GSG", paper="falls with the eigenvalue"))
            if labels != "linear":
                line = f"{network}, linear"
                out.append(_planted.sooner(network, (line, curves[line]), (name, curves[name]), labels))
    for labels in LABELS:
        name = f"ViT, {labels}"
        shares = [first[i] for i in curves[name].indices]
        mixed = "; ".join(f"eigenvector {i}: {first[i]:.2f} in the first" for i in first if 0.05 < first[i] < 0.95)
        inside = [s > 0.5 for s in shares]
        out.append(_planted.spaces(name, curves[name], inside, paper="falls with the eigenvalue", note=mixed))
        out.append(_planted.ordered(name, curves[name], matrix="GSG", paper="falls with the eigenvalue"))
    out += [_planted.fitted(f"{n}, linear", curves[f"{n}, linear"]) for n in NETWORKS]
    out += [_planted.beyond_noise(f"{n}, linear", curves[f"{n}, linear"]) for n in STRUCTURED]
    return out


def claims(result: Result) -> list[Claim]:
    return [c for c, _ in _judged(result.curves, result.first)] + _planted.narrow(result.twins)


def figure(result: Result) -> Figure:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(14.4, 4.4), layout="constrained")
    axes = figure.subplots(1, 3, sharey=True)
    for ax, network in zip(axes, NETWORKS, strict=True):
        indices: set[int] = set()
        for labels in LABELS:
            curve = result.curves[f"{network}, {labels}"]
            indices.update(curve.indices)
            _planted.draw(
                ax,
                curve,
                label=labels,
                colour=_planted.SHADES[labels],
                style=_planted.STYLES[labels],
                ceiling=labels == "linear",
            )
        _planted.finish(ax, f"{network}, {result.config.samples[network]} samples", matrix="GSG", indices=indices)
    axes[0].set_ylabel("test accuracy (%)")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False, fontsize=9)
    figure.suptitle(
        f"Labels planted along one eigenvector of GSG in {result.images}; bars: 68 %",
        fontsize=12,
    )
    return figure
