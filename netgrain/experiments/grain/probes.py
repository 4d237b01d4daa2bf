"""Remarks of App. A.12.1: which activation and which probe give the best G, G(0) in its place, and ViT's options.

Claims: members of a GELU network give a better G than those of a ReLU network; probes N(0, σ²I) of small σ (10⁻⁵ to
10⁻³) give one of lower variance, whose eigenvalues agree best with what is learnt in figure 10; G(0) is a good
approximation.
Each σ and activation gets a closed form and sampled members of its own. What is learnt is asked along cosines of rising
frequency, which favour no σ: LeNet with GELU on x = ε α u + ω, labels linear in α, as in figure 10. The paper's ViT has
"the settings of Lee et al.", which may mean their sizes or also shifted patches and local attention: G with either and
with both stands beside the plain one. One-channel 16 × 16 inputs and a narrow ViT at laptop scale, 32 × 32, full width
and 10,000 members at paper scale; an MLP stands for LeNet at smoke
scale. Cost: smoke seconds, laptop four minutes of one core, paper hours.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from netgrain.complexity.sweeps import spearman
from netgrain.data.synthetic import isotropic
from netgrain.experiments.grain.drawing import dotted, error_bars, panels
from netgrain.experiments.grain.grains import make_of, model_config, shape_of
from netgrain.experiments.grain.planted_labels import epsilon
from netgrain.experiments.grain.probe_claims import Config, Result, cosine, probe_claims
from netgrain.experiments.grain.trials import trained_accuracy
from netgrain.families.probes import Gaussian, Origin, Probe
from netgrain.geometry.average import average_geometry
from netgrain.geometry.estimate import mean
from netgrain.models.vit import ViT
from netgrain.runtime.randomness import derived_seed
from netgrain.runtime.runners import Runner
from netgrain.runtime.units import Outcome
from netgrain.training.settings import Settings

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COST = 99  # processor seconds at laptop scale, on a busy machine
COVERS = (54, 55, 56)
ACTIVATIONS = {"gelu": "#d55e00", "relu": "#0072b2"}
OPTIONS = {
    "plain": {},
    "shifted patches": {"shifted_patches": True},
    "local attention": {"local_attention": True},
    "both": {"shifted_patches": True, "local_attention": True},
}
VIT_COLOURS = ("#999999", "#009e73", "#cc79a7", "#d55e00")


TRAINING = {"lr": 0.3, "batch": 128, "decay": "linear", "clip": 0.5}  # those of figure 10 at laptop scale
PRESETS = {
    "smoke": Config(
        network="MLP", size=16, sigmas=(0.0, 1e-3, 1.0), points=1, members=4, seeds=2, frequencies=(0, 2, 5, 9),
        samples=64, tests=64,
        training={"lr": 0.1, "batch": 32, "decay": "linear", "steps": 3}, vit_width=1 / 12, vit_members=2,
    ),
    "laptop": Config(
        network="LeNet", size=16, sigmas=(0.0, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1.0), points=2, members=100, seeds=4,
        frequencies=(0, 1, 2, 3, 4, 6, 8, 10, 12, 14), samples=1000, tests=2000, training={**TRAINING, "steps": 400},
        vit_width=1 / 4, vit_members=40,
    ),
    "paper": Config(
        network="LeNet", size=32, sigmas=(0.0, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1.0), points=64, members=10_000, seeds=5,
        frequencies=(0, 1, 2, 3, 4, 6, 8, 10, 12, 14, 20, 28), samples=10_000, tests=10_000,
        training={"lr": 0.5, "momentum": 0.0, "clip": 0.5, "batch": 128, "decay": "linear", "steps": 50 * 78},
        vit_width=1.0, vit_members=10_000, device="best",
    ),
}  # fmt: skip


claims = probe_claims


# --- units --------------------------------------------------------------------------------------------------------


def cosines(frequencies: Sequence[int], size: int) -> Tensor:
    """Unit cosines of these frequencies along both axes, (directions, 1, size, size) float64.

    >>> cosines((0, 3), 8).flatten(1).norm(dim=1).tolist()
    [1.0, 1.0]
    """
    place = (torch.arange(size, dtype=torch.float64) + 0.5) / size
    waves = torch.stack([torch.cos(math.pi * f * place) for f in frequencies])
    found = waves[:, :, None] * waves[:, None]
    sizes: Tensor = found.flatten(1).norm(dim=1)
    return torch.div(found, sizes[:, None, None])[:, None]


def _probe(sigma: float) -> Probe:
    return Gaussian(sigma) if sigma else Origin()


def run(config: Config, runner: Runner) -> Result:
    models = {a: model_config(config.network, (1, config.size, config.size), activation=a) for a in ACTIVATIONS}
    frequencies = list(config.frequencies)
    cells = [(a, s) for a in ACTIVATIONS for s in config.sigmas]
    closed = runner.map(
        _closed, [{"closed": models[a], "sigma": s, "points": config.points} for a, s in cells], "closed forms"
    )
    truths = {cell: o.arrays["G"] for cell, o in zip(cells, closed, strict=True)}
    seeds = range(config.seeds)
    sampled = iter(
        runner.map(
            _sampled,
            [
                {"sampled": models[a], "sigma": s, "members": config.members, "seed": seed, "frequencies": frequencies}
                for (a, s), seed in itertools.product(cells, seeds)
            ],
            "members",
        )
    )
    shared = {"model": models["gelu"], "samples": config.samples, "tests": config.tests, "device": config.device}
    trained = runner.map(
        _trained,
        [
            {**shared, "frequency": f, "seed": seed, "training": dict(config.training)}
            for seed, f in itertools.product(seeds, frequencies)
        ],
        "trainings",
    )
    transformer = {"size": config.size, "width": config.vit_width, "members": config.vit_members}
    vits = iter(
        runner.map(
            _vit,
            [{**transformer, "vit": dict(o), "seed": s} for o, s in itertools.product(OPTIONS.values(), seeds)],
            "transformers",
        )
    )
    table = {cell: [next(sampled) for _ in seeds] for cell in cells}
    by_seed = [trained[i : i + len(frequencies)] for i in range(0, len(trained), len(frequencies))]
    accuracy, train = (
        [[100 * (o.numbers[key] or math.nan) for o in row] for row in by_seed] for key in ("accuracy", "train")
    )
    return _result(
        config, table, truths, accuracy, train, {o: [next(vits).arrays["G"] for _ in seeds] for o in OPTIONS}
    )


def _result(
    config: Config,
    table: Mapping[tuple[str, float], list[Outcome]],
    truths: Mapping[tuple[str, float], Tensor],
    accuracy: list[list[float]],
    train: list[list[float]],
    vit: dict[str, list[Tensor]],
) -> Result:
    def numbers(name: str) -> dict[str, list[list[Any]]]:
        return {a: [[o.numbers[name] for o in table[a, s]] for s in config.sigmas] for a in ACTIVATIONS}

    energies = numbers("energies")
    order = {
        a: [[spearman(e, acc) for e, acc in zip(row, accuracy, strict=True)] for row in energies[a]] for a in energies
    }
    other = torch.randperm(len(config.frequencies), generator=torch.Generator().manual_seed(0)).tolist()
    smallest = config.sigmas.index(min(s for s in config.sigmas if s))
    shuffled = [
        spearman(e, [acc[i] for i in other]) for e, acc in zip(energies["gelu"][smallest], accuracy, strict=True)
    ]
    agreement = {
        a: [[cosine(truths[a, s], o.arrays["G"]) for o in table[a, s]] for s in config.sigmas] for a in ACTIVATIONS
    }
    at_origin = {a: [cosine(truths[a, 0.0], truths[a, s]) for s in config.sigmas] for a in ACTIVATIONS}
    largest = max(config.sigmas)
    eye = torch.eye(config.size**2, dtype=torch.float64)
    identity = {a: cosine(eye, truths[a, largest]) for a in ACTIVATIONS}
    return Result(
        config, agreement, numbers("halves"), order, shuffled, at_origin, identity, accuracy, train, vit
    )  # fmt: skip


def _closed(unit: Mapping[str, Any]) -> Outcome:
    m = unit["closed"]
    points = unit["points"] if unit["sigma"] else None
    G = average_geometry(
        make_of(m), shape_of(m), method="closed-form", probe=_probe(unit["sigma"]), probes=points, progress=False
    )
    return Outcome({}, {"G": G.matrix()})


def _sampled(unit: Mapping[str, Any]) -> Outcome:
    """G of plain members in two halves, and the energies of the cosines in it."""
    m, half = unit["sampled"], unit["members"] // 2
    pieces = [
        average_geometry(
            make_of(m), shape_of(m), method="sampled", probe=_probe(unit["sigma"]), members=half, first_layer="never",
            seed=derived_seed(unit["seed"], "half", k), progress=False, workers=1,
        ).matrix()
        for k in (0, 1)
    ]  # fmt: skip
    G = (pieces[0] + pieces[1]) / 2
    U = cosines(unit["frequencies"], m["size"]).flatten(1)
    energies = ((U @ G) * U).sum(1)
    return Outcome({"halves": cosine(*pieces), "energies": energies.tolist()}, {"G": G})


def _trained(unit: Mapping[str, Any]) -> Outcome:
    m, seed = unit["model"], unit["seed"]
    u = cosines([unit["frequency"]], m["size"])[0]
    train, test = (
        isotropic(u, n, labels="linear", epsilon=epsilon("linear", m["network"]), seed=derived_seed(seed, part))
        for n, part in ((unit["samples"], "train"), (unit["tests"], "test"))
    )
    found = trained_accuracy(
        unit, train.X, train.labels, Settings(**unit["training"]), {"accuracy": (test.X, test.labels)}
    )
    return Outcome({"accuracy": found["accuracy"], "train": found["train"]})


def _vit(unit: Mapping[str, Any]) -> Outcome:
    size = unit["size"]

    def make() -> ViT:
        return ViT(channels=1, image_size=size, outputs=1, width=unit["width"], activation="gelu", **unit["vit"])

    G = average_geometry(
        make, (1, size, size), method="sampled", members=unit["members"], seed=unit["seed"], progress=False, workers=1
    )
    return Outcome({}, {"G": G.matrix()})


def figure(result: Result) -> Figure:
    size = result.config.size
    drawn, (members, origin, order, vit) = panels(
        f"Probes, activations and ViT's options ({size} × {size}); bars: one standard error", (12.6, 7.0), 2, 2
    )
    sigmas = result.config.sigmas
    lowest = min(s for s in sigmas if s)
    x = [s or lowest / 10 for s in sigmas]
    for a, colour in ACTIVATIONS.items():
        look = {"color": colour, "marker": "o", "ms": 4, "capsize": 2}
        name = {"gelu": "GELU", "relu": "ReLU"}[a]
        error_bars(
            members, x, [mean(row) for row in result.agreement[a]], label=f"{name}: with the closed form", **look
        )
        error_bars(members, x, [mean(r) for r in result.repeats[a]], label=f"{name}: between halves", ls=":", **look)
        error_bars(order, x, [mean(row) for row in result.order[a]], label=name, **look)
        origin.plot(x, result.at_origin[a], color=colour, marker="o", ms=4, label=name)
        origin.plot(x[-1:], [result.identity[a]], color=colour, marker="x", ls="none", label=f"{name}: Corr(I, G_σ)")
    members.set_title(f"Corr of {result.config.members} members of {result.config.network} (plug-in)", fontsize=10)
    origin.set_title("Corr(G(0), G_σ), closed forms", fontsize=10)
    order.set_title(f"rank correlation of uᵀGu with accuracy, {result.config.network} (GELU)", fontsize=10)
    dotted(order, 0.0)
    for ax in (members, origin, order):
        ax.set_xscale("log")
        ax.set_xlabel("σ of the probe (leftmost: the origin)", fontsize=9)
        ax.legend(fontsize=8, frameon=False)
    for (name, matrices), colour in zip(result.vit.items(), VIT_COLOURS, strict=True):
        values = torch.linalg.eigvalsh(torch.stack(matrices).mean(0)).flip(0)
        values = (values / values.sum()).clamp_min(1e-12)  # rounding may leave a zero below zero
        style = "--" if "local_attention" in OPTIONS[name] else "-"
        vit.plot(range(1, len(values) + 1), values.tolist(), color=colour, ls=style, lw=1.8, label=name)
    vit.set_yscale("log")
    vit.set_xlabel("index", fontsize=9)
    vit.set_title("eigenvalues of G over its trace, ViT", fontsize=10)
    vit.legend(fontsize=8, frameon=False)
    return drawn
