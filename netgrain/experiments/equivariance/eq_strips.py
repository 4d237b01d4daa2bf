"""Equivariant networks in real and Fourier space: strips of |β| and |β̂| before and after training, on D60 and D64.

Claim: trained on ten Gaussian points, the G-CNN of depth 3 is of low rank in Fourier space and dense in real space, the
FC network neither. |β̂| is drawn irrep after irrep, each strip over its largest entry, colours 0 to 0.8 as in the slides
(order 64 there, 60 in the authors' script); in numbers: the stable rank and Σ d rank of β̂, and |β|_{2/3}/|β|₂, over
seeds, at initialisation, after the authors' descent and at the limit.
Cost: smoke a second, laptop half a minute on two cores, paper three minutes (20 seeds).
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from netgrain.experiments.claims import Claim, claim
from netgrain.experiments.equivariance.studies import (
    NETS,
    RATIOS,
    Seeds,
    collected,
    group_named,
    narrow,
    trainings,
)
from netgrain.runtime.runners import Runner

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COST = 55  # processor seconds at laptop scale
COVERS = (76,)
DEPTH = 3
STAGES = ("start", "descent", "limit")
BRIGHTEST = 0.8


@dataclass(frozen=True)
class Config:
    groups: Sequence[str]
    points: int
    seeds: int
    epochs: int  # of the authors' descent
    lr: float


PRESETS = {
    "smoke": Config(groups=("D8",), points=3, seeds=2, epochs=40, lr=0.1),
    "laptop": Config(groups=("D60", "D64"), points=10, seeds=8, epochs=1500, lr=0.1),
    "paper": Config(groups=("D60", "D64"), points=10, seeds=20, epochs=1500, lr=0.1),
}


@dataclass(frozen=True, eq=False)
class Result:
    config: Config
    trained: dict[tuple[str, str, str], Seeds]  # group, network, "descent" or "limit" → one per seed
    strips: dict[tuple[str, str, str], Tensor]  # group, network, "real" or "fourier" → (3, order), of seed 0


def run(config: Config, runner: Runner) -> Result:
    authors = {"method": "sgd", "epochs": config.epochs, "lr": config.lr}
    data = {"kind": "gaussian", "points": config.points}
    trained: dict[tuple[str, str, str], Seeds] = {}
    for stage in STAGES[1:]:
        asked = {}
        for name, net in itertools.product(config.groups, NETS):
            # the authors' network is as wide as its input
            wide = {"width": group_named(name).order} if net == "fully-connected" else {}
            options = {**authors, **wide} if stage == "descent" else narrow(net)
            # the flow begins where the descent that succeeded began
            seeds = range(config.seeds) if stage == "descent" else trained[name, net, "descent"].seeds_used()
            asked[name, net, stage] = trainings(name, data, seeds, net=net, depth=DEPTH, **options)
        trained |= collected(runner, asked, stage)
    strips = {}
    for name, net in itertools.product(config.groups, NETS):
        descent, end = (trained[name, net, stage][0].arrays for stage in STAGES[1:])
        betas = torch.stack([descent["start"], descent["beta"], end["beta"]])
        strips[name, net, "real"] = _shares(betas.abs())
        blocks = group_named(name).fourier(betas).blocks
        strips[name, net, "fourier"] = _shares(torch.cat([b.abs().flatten(1) for b in blocks], 1))
    return Result(config, trained, strips)


def _shares(rows: Tensor) -> Tensor:
    """Every row over its largest entry."""
    return rows / rows.amax(1, keepdim=True)


def claims(result: Result) -> list[Claim]:
    found = []
    for name in result.config.groups:
        order = group_named(name).order
        gcnn, circular, fc = (result.trained[name, net, "limit"] for net in NETS)
        descent = result.trained[name, "group-cnn", "descent"]
        found += [
            claim(
                f"{name}: the G-CNN is of low rank in Fourier space",
                f"Σ d rank of β̂ at the limit is at most a quarter of {order}",
                gcnn.mean("rank"),
                high=order / 4,
                paper="a sparse strip",
                note=f"CNN {circular.told('rank')}, FC {fc.told('rank')}",
            ),
            claim(
                f"{name}: the FC network is not",
                f"Σ d rank of β̂ at the limit is at least nine tenths of {order}",
                fc.mean("rank"),
                low=0.9 * order,
                paper="a dense strip",
            ),
            claim(
                f"{name}: training lowers the stable rank of the G-CNN",
                "its change from initialisation to the limit is negative",
                gcnn.change("stable_rank"),
                high=0,
                paper="the strip before and after",
                note=f"from {gcnn.told('start_stable_rank')} to {gcnn.told('stable_rank')}; FC "
                f"{fc.told('start_stable_rank')} to {fc.told('stable_rank')}",
            ),
            claim(
                f"{name}: {result.config.epochs} epochs already lower it",
                "the change of the G-CNN's stable rank in the authors' descent is negative",
                descent.change("stable_rank"),
                high=0,
                paper="the strip before and after",
                note=f"to {descent.told('stable_rank')}",
            ),
            claim(
                f"{name}: the G-CNN is wider in real space than the FC network",
                "|β|_{2/3}/|β|₂ at the limit, G-CNN minus FC, is positive",
                gcnn.minus(fc, "real"),
                low=0,
                paper="a dense strip",
                note=f"{gcnn.told('real')} and {fc.told('real')}",
            ),
        ]
    return found


def figure(result: Result) -> Figure:
    """For every group and network: real and Fourier strips at three stages; below, the numbers over seeds."""
    from netgrain.experiments.equivariance.panels import draw_changes, picture
    from netgrain.geometry.plots import LARGE, MEDIUM, SMALL

    config, groups = result.config, list(result.config.groups)
    title = f"Depth 3, {config.points} Gaussian points: strips of seed 0, numbers over {config.seeds} seeds"
    figure = picture(14.0, 0.4 + 6.3 * len(groups), title)
    image = None
    for part, name in zip(figure.subfigures(len(groups), 1, squeeze=False).ravel(), groups, strict=True):
        above, below = part.subfigures(2, 1, height_ratios=(1.55, 1))
        grid = above.subplots(3, 2)
        for line, net in zip(grid, NETS, strict=True):
            for ax, space in zip(line, ("real", "fourier"), strict=True):
                strip = result.strips[name, net, space].numpy()
                image = ax.imshow(
                    strip, aspect="auto", cmap="magma", vmin=0, vmax=BRIGHTEST, interpolation="nearest",
                    extent=(0, strip.shape[1], 3, 0),
                )  # fmt: skip
                for edge in (1, 2):
                    ax.axhline(edge, color="white", lw=2.5)
                ax.set_yticks([0.5, 1.5, 2.5], ["initialisation", f"{config.epochs:,} epochs", "limit"])
                ax.tick_params(labelsize=SMALL, length=0)
                if net != "fully-connected":
                    ax.set_xticks([])
            line[0].set_ylabel(NETS[net], fontsize=LARGE)
        grid[0, 0].set_title(f"{name}: |β|, element after element (r^a s^b at 2a + b)", fontsize=LARGE)
        grid[0, 1].set_title(f"{name}: |β̂|, irrep after irrep", fontsize=LARGE)
        bar = above.colorbar(image, ax=list(grid.ravel()), fraction=0.015, pad=0.01, extend="max")
        bar.set_label("share of the largest", fontsize=MEDIUM)
        bar.ax.tick_params(labelsize=SMALL)
        panels = {"stable_rank": f"stable rank of β̂, at most {group_named(name).order}", **RATIOS}
        rows = [(f"{NETS[n]}, {s}", n, result.trained[name, n, s]) for n in NETS for s in STAGES[1:]]
        for ax, (number, label) in zip(below.subplots(1, 3), panels.items(), strict=True):
            draw_changes(ax, rows, number, label)
    return figure
