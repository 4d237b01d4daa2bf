"""Figure 11: figures 4 and 10 once more, with a small LeNet and as many training samples as it has parameters.

Claim: generalisation follows the eigenvalue as before (GSG on images, G on isotropic noise), so it is not a matter of
having more parameters than samples. At paper scale 50,000 samples of 32 × 32, the size of the network; at laptop scale
16 × 16, where the network has about 11,000 parameters, and as many samples (the claims' notes give the ratio).
Cost: smoke seconds, laptop about a minute on two cores, paper for a GPU.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from netgrain.experiments.claims import Claim
from netgrain.experiments.grain import grains as _grain
from netgrain.experiments.grain import planted_labels as _planted
from netgrain.experiments.grain.planted_labels import GRID, LABELS, POSITIVE, AccuracyCurve, Judged, PlantedCurve
from netgrain.runtime.run_folder import Runner

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COST = 168  # processor seconds at laptop scale
NETWORK = "SmallLeNet"
MATRIX = {"images": "GSG", "isotropic": "G"}
LABEL_NOISE = 0.2


@dataclass(frozen=True)
class Config:
    images: str
    size: int
    samples: int
    tests: int
    labels: Sequence[str]
    indices: Sequence[int]
    training: Mapping[str, Any]
    steps: Mapping[str, int]  # labelling → steps
    seeds: int
    most_seeds: int
    members: int | None
    device: str


EPOCH = 50_000 // 128
PRESETS = {
    "smoke": Config(
        images="digits", size=16, samples=100, tests=64, labels=("linear",), indices=(0, -1),
        training={"lr": 0.1, "batch": 32, "decay": "linear"}, steps={"linear": 3},
        seeds=2, most_seeds=2, members=4, device="cpu",
    ),
    "laptop": Config(
        images="auto", size=16, samples=10_800, tests=2000, labels=("linear",), indices=(0, 10, 60, 120, 240, 480, -1),
        training={"lr": 0.3, "batch": 128, "decay": "linear", "clip": 0.5}, steps={"linear": 700},
        seeds=3, most_seeds=5, members=64, device="cpu",
    ),
    "paper": Config(
        images="cifar10", size=32, samples=50_000, tests=10_000, labels=LABELS, indices=GRID,
        training={"lr": 0.5, "momentum": 0.0, "clip": 0.5, "batch": 128, "decay": "linear"},
        steps=dict.fromkeys(LABELS, 50 * EPOCH), seeds=5, most_seeds=10, members=10_000, device="best",
    ),
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class Result:
    config: Config
    images: str
    curves: dict[str, AccuracyCurve]  # "data, labelling"
    parameters: dict[str, int]  # of the network on either data


def run(config: Config, runner: Runner) -> Result:
    name = _grain.images_found(runner, config.images)
    pool = {"name": name, "size": config.size, "samples": config.samples, "tests": config.tests}
    shapes = {
        "images": (1 if name == "digits" else 3, config.size, config.size),
        "isotropic": (1,) + (config.size,) * 2,
    }
    models = {data: _grain.model(NETWORK, shape, activation="gelu") for data, shape in shapes.items()}
    grains = {
        "images": _grain.grains(runner, {"x": models["images"]}, members=config.members, images=pool)["x"],
        "isotropic": _grain.grains(runner, {"x": models["isotropic"]}, members=config.members)["x"],
    }
    # digits are fewer than asked for, and then all of them are used
    cells = {
        f"{data}, {labels}": PlantedCurve(
            NETWORK,
            labels,
            models[data],
            {"images": pool, "label_noise": LABEL_NOISE}
            if data == "images"
            else {"epsilon": _planted.epsilon(labels, NETWORK)},
            _planted.grid(
                config.indices,
                len(grains[data].values),
                within=_planted.room(grains[data], name) if data == "images" else None,
            ),
            {**config.training, "steps": config.steps[labels]},
            config.samples,
            config.tests,
            grain=data,
            about={"members": config.members, "images": pool if data == "images" else None},
        )
        for data in MATRIX
        for labels in config.labels
    }
    parameters = {data: sum(p.numel() for p in _grain.make_of(m)().parameters()) for data, m in models.items()}
    found = _planted.curves(
        runner,
        cells,
        grains,
        seeds=config.seeds,
        most=config.most_seeds,
        device=config.device,
        judge=lambda curves: _judged(config, curves, parameters),
    )
    return Result(config, name, found, parameters)


def _judged(config: Config, curves: Mapping[str, AccuracyCurve], parameters: Mapping[str, int]) -> list[Judged]:
    out: list[Judged] = []
    for name, curve in curves.items():
        data, labels = name.split(", ")
        ratio = f"{parameters[data]} parameters, {config.samples / parameters[data]:.2f} samples for each"
        low = 0.8 if labels == "linear" else POSITIVE
        found = [
            _planted.falls(name, curve, "high along the first eigenvectors, chance along the last"),
            _planted.ordered(name, curve, low=low, matrix=MATRIX[data], paper="falls with the eigenvalue"),
        ]
        if data == "images" and labels == "linear":
            found.append(_planted.beyond_noise(name, curve))
        out += [(replace(c, note="; ".join(filter(None, (c.note, ratio)))), cells) for c, cells in found]
    return out


def claims(result: Result) -> list[Claim]:
    return [c for c, _ in _judged(result.config, result.curves, result.parameters)]


def figure(result: Result) -> Figure:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10.4, 4.4), layout="constrained")
    axes = figure.subplots(1, 2, sharey=True)
    titles = {"images": result.images, "isotropic": "isotropic noise"}
    for ax, (data, matrix) in zip(axes, MATRIX.items(), strict=True):
        indices: set[int] = set()
        for labels in result.config.labels:
            curve = result.curves[f"{data}, {labels}"]
            indices.update(curve.indices)
            colour, style = _planted.SHADES[labels], _planted.STYLES[labels]
            noisy = data == "images" and labels == "linear"
            _planted.draw(ax, curve, label=labels, colour=colour, style=style, ceiling=noisy)
        _planted.finish(ax, f"{titles[data]}: {result.parameters[data]} parameters", matrix=matrix, indices=indices)
    axes[0].set_ylabel("test accuracy (%)")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False, fontsize=9)
    figure.suptitle(f"A small LeNet trained on {result.config.samples} samples; bars: 68 %", fontsize=12)
    return figure
