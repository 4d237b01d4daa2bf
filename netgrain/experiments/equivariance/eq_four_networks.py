"""One data set, four networks, four β: fully connected, diagonal, circular and group convolutions fit the same points.

Claim (slides): an overparameterised network can fit the training data in different ways, and which one training finds
is that of the smallest norm of its own: ℓ₂ for FC, ℓ_{2/L} for the diagonal network, ℓ_{2/L} of the DFT for the CNN,
Schatten 2/L of the Fourier coefficients for the G-CNN. All four β have margin one on the same Gaussian points with
labels in turn, so every norm can be taken of every β. At depth 2 (convex) each network must be smallest in its own
column; at depth 3 the limit is stationary, so it may not be. Control: two starts of one network on the same data, which
at depth 2 must find the same β. How far two β are apart is the share of new points N(0, I) on which their signs differ.
Cost: smoke a second, laptop half a minute of one core, paper (20 draws) two minutes.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from netgrain.equivariant.limits import limit, make_network
from netgrain.equivariant.penalties import group_transform
from netgrain.experiments.claims import ROUNDING, Claim, claim
from netgrain.experiments.equivariance.studies import Seeds, collected, group_named, points_of, seeded
from netgrain.experiments.equivariance.teachers import disagreement
from netgrain.geometry.estimate import Estimate, mean
from netgrain.runtime.runners import Runner
from netgrain.runtime.units import Outcome

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COST = 30  # processor seconds at laptop scale
COVERS = (68,)
NETS = {"fully-connected": "FC", "diagonal": "diagonal", "circular": "CNN", "group-cnn": "G-CNN"}
NORMS = {"fully-connected": "ℓ₂", "diagonal": "ℓ", "circular": "ℓ of the DFT", "group-cnn": "Schatten"}
COLOURS = {"fully-connected": "#999999", "diagonal": "#d55e00", "circular": "#e69f00", "group-cnn": "#0072b2"}
BACKGROUND = "overparameterized neural networks can perfectly fit the training data in different ways"
ANOTHER = 5000  # between the seeds of two starts
SAME = 0.01  # share of new points on which two solutions of one problem may differ


@dataclass(frozen=True)
class Config:
    group: str
    points: int
    seeds: int
    depths: Sequence[int]
    log_norm: float


PRESETS = {
    "smoke": Config("D6", points=2, seeds=2, depths=(2,), log_norm=4.0),
    "laptop": Config("D60", points=10, seeds=6, depths=(2, 3), log_norm=1e4),
    "paper": Config("D60", points=10, seeds=20, depths=(2, 3), log_norm=1e4),
}


@dataclass(frozen=True, eq=False)
class Result:
    config: Config
    found: dict[int, Seeds]  # depth → one per draw


def run(config: Config, runner: Runner) -> Result:
    common = {"experiment": "eq-four-networks", "group": config.group, "points": config.points}
    asked = {L: seeded(config.seeds, **common, depth=L, log_norm=config.log_norm) for L in reversed(config.depths)}
    return Result(config, collected(runner, asked, "draws", _one))


def _one(unit: Mapping[str, Any]) -> Outcome:
    group, L, seed = group_named(unit["group"]), unit["depth"], unit["seed"]
    X, y = points_of({"kind": "gaussian", "points": unit["points"], "seed": seed}, group.order)

    def trained(net: str, start: int) -> Any:
        return limit(group, X, y, depth=L, net=net, seed=start, log_norm=unit["log_norm"])

    found = {net: trained(net, seed) for net in NETS}
    again = trained("group-cnn", seed + ANOTHER)
    numbers: dict[str, Any] = {"again": disagreement(found["group-cnn"].beta, again.beta)}
    for net, norm in itertools.product(NETS, NETS):
        numbers[f"{norm} of {net}"] = float(make_network(group, norm, L).transform().norm(found[net].beta, 2 / L))
    for a, b in itertools.combinations(NETS, 2):
        numbers[f"{a} and {b}"] = disagreement(found[a].beta, found[b].beta)
    numbers["margin"] = min(float((y * (X @ f.beta)).min()) for f in found.values())
    betas = torch.stack([found[net].beta for net in NETS])
    fourier = group_transform(group)
    values = [torch.cat(fourier.per_block(fourier.singular_values(b))) for b in betas]
    return Outcome(numbers, {"betas": betas, "singular": torch.stack(values)})


def lead(draws: Seeds, net: str) -> list[float]:
    """By how much a network is ahead in its own norm: log of the best other over it, draw by draw."""
    return [
        min(math.log(o.numbers[f"{net} of {other}"] / o.numbers[f"{net} of {net}"]) for other in NETS if other != net)
        for o in draws
    ]


def claims(result: Result) -> list[Claim]:
    found = []
    for L in result.config.depths:
        draws = result.found[L]
        subject = f"depth {L}"
        found += [
            claim(
                f"the {NETS[net]} is smallest in its own norm",
                f"mean over draws of log(the smallest {norm_name(net, L)} of the other three / its own) is above 0",
                mean(lead(draws, net)),
                low=0,
                paper="argmin of this norm at margin one",
                note=f"smallest of all {len(draws)} draws {min(lead(draws, net)):.2g}"
                + ("" if L == 2 or net == "fully-connected" else "; stationary, not certified optimal"),
                subject=subject,
            )
            for net in NETS
        ]
        nearest = {pair: draws.mean(pair) for pair in (f"{a} and {b}" for a, b in itertools.combinations(NETS, 2))}
        closest = min(nearest, key=lambda pair: nearest[pair].value)
        found += [
            claim(
                "the four networks fit the data in different ways",
                f"mean share of new points on which the closest two differ is above {SAME}",
                nearest[closest],
                low=SAME,
                paper=BACKGROUND,
                note="; ".join(f"{pair.replace('fully-connected', 'FC')} {v.value:.3f}" for pair, v in nearest.items()),
                subject=subject,
            ),
            claim(
                "all four fit the training data",
                "the smallest margin over networks and draws is at least 1",
                Estimate(min(draws.each("margin")), 0.0, len(draws)),
                low=1 - ROUNDING,
                subject=subject,
                basis="identity",
            ),
        ]
        if L == 2:
            found.append(
                claim(
                    "two starts of the G-CNN find the same β",
                    f"mean share of new points on which they differ is below {SAME}",
                    draws.mean("again"),
                    high=SAME,
                    note="control: the problem is convex, so differences between networks are not those of starts",
                    subject=subject,
                    basis="derived",
                )
            )
    return found


def norm_name(net: str, depth: int) -> str:
    p = {2: "1", 1: "2"}.get(depth, f"2/{depth}")
    return (
        NORMS[net]
        if net == "fully-connected"
        else f"{NORMS[net].replace('ℓ', f'ℓ {p}')}" + (f" {p}" if net == "group-cnn" else "")
    )


def figure(result: Result) -> Figure:
    """β of the first draw in real and Fourier space, and all norms of all four over the smallest."""
    from netgrain.experiments.equivariance.panels import labelled, picture

    config, L = result.config, result.config.depths[-1]
    first = result.found[L][0].arrays
    title = f"{config.points} points on {config.group}, four networks of depth {L}, four β"
    figure = picture(13.2, 6.4, title)
    axes = figure.subplot_mosaic(
        [[f"real {net}", f"fourier {net}", f"norms {config.depths[min(k // 2, len(config.depths) - 1)]}"]
         for k, net in enumerate(NETS)],
        width_ratios=[1.25, 1.25, 1.1],
    )  # fmt: skip
    for k, (net, name) in enumerate(NETS.items()):
        for space, values, what in (
            ("real", first["betas"][k], "β over the elements"),
            ("fourier", first["singular"][k], "singular values of β̂, irrep by irrep"),
        ):
            ax = axes[f"{space} {net}"]
            ax.bar(range(len(values)), (values / values.abs().max()).tolist(), 0.8, color=COLOURS[net])
            labelled(ax, what if k == 0 else "", y=name if space == "real" else "")
            ax.set_ylim(-1.08 if space == "real" else 0, 1.08)
            ax.grid(False)
            if k < len(NETS) - 1:
                ax.set_xticklabels([])
    for depth in config.depths:
        _table(axes[f"norms {depth}"], result.found[depth], depth)
    return figure


def _table(ax: Any, draws: Seeds, depth: int) -> None:
    """Rows are networks, columns norms; means over draws of the norm over the smallest of its column."""
    means = [[draws.mean(f"{norm} of {net}").value for norm in NETS] for net in NETS]
    best = [min(row[k] for row in means) for k in range(len(NETS))]
    over = [[row[k] / best[k] for k in range(len(NETS))] for row in means]
    ax.imshow([[math.log(v) for v in row] for row in over], cmap="Blues", vmin=0, vmax=1.6, aspect="auto")
    for i, row in enumerate(over):
        for k, v in enumerate(row):
            ax.text(k, i, f"{v:.2f}", ha="center", va="center", fontsize=9, weight="bold" if i == k else "normal",
                    color="white" if math.log(v) > 1 else "black")  # fmt: skip
    ax.set_xticks(range(len(NETS)), [norm_name(net, depth).replace(" of the", "\nof the") for net in NETS], fontsize=8)
    ax.set_yticks(range(len(NETS)), list(NETS.values()), fontsize=8)
    ax.set_title(f"depth {depth}: norm over the smallest of its column", fontsize=9.5)
