"""Constant Fourier rank and growing groups: support in real space against |G|, for trained β and random functions.

Claim (slides, after Meshulam's |supp f| · Σ d rank f̂ ≥ |G|): "if rank in Fourier space is constant, then support in
real space grows with dimension". Families of groups of growing order. Trained: the depth-3 limit of a G-CNN on a fixed
number of Gaussian points; its rank is not held fixed by us, so how it grows is measured beside the support. The
diagonal network on the same points is the control: sparse in real space whatever |G|, so its rank must grow. Random:
real functions of rank at most `rank`, whose smallest support over the draws is set against |G|/rank. Entries and
singular values below a thousandth of the largest count as zero (the limits are exact to about 1e-5).
Slopes are least squares of log against log |G|, one per seed. Cost: smoke two seconds, laptop a minute of one core.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from netgrain.equivariant.limits import limit
from netgrain.equivariant.penalties import RANK_THRESHOLD
from netgrain.equivariant.schatten_norms import weighted_rank
from netgrain.experiments.claims import ROUNDING, Claim, claim
from netgrain.experiments.equivariance.studies import Seeds, collected, group_named, paired, points_of, seeded
from netgrain.experiments.equivariance.teachers import low_rank, support
from netgrain.geometry.estimate import Estimate, mean
from netgrain.runtime.runners import Runner
from netgrain.runtime.units import Outcome

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COST = 60  # processor seconds at laptop scale
COVERS = (75,)
DEPTH = 3
NETS = {"group-cnn": "G-CNN", "diagonal": "diagonal"}
ZERO = 1e-9  # of random functions, which are exact up to rounding
INTUITION = "if rank in Fourier space is constant, then support in real space grows with dimension"


@dataclass(frozen=True)
class Config:
    families: Mapping[str, Sequence[str]]  # name → groups of growing order
    points: int
    seeds: int
    rank: int  # of random functions, at most
    draws: int  # random functions of a seed
    log_norm: float


CYCLIC = ("C8", "C16", "C32", "C64", "C96")
DIHEDRAL = ("D8", "D16", "D32", "D64", "D96")
PRESETS = {
    "smoke": Config(
        {"cyclic": ("C4", "C6", "C8")}, points=2, seeds=2, rank=2, draws=4, log_norm=4.0,
    ),
    "laptop": Config(
        {"cyclic": CYCLIC, "dihedral": DIHEDRAL, "symmetric": ("S3", "S4", "S5")},
        points=4, seeds=5, rank=4, draws=40, log_norm=1e3,
    ),
    "paper": Config(
        {
            "cyclic": (*CYCLIC, "C192"), "dihedral": (*DIHEDRAL, "D192"), "symmetric": ("S3", "S4", "S5"),
            "products": ("C2xD8", "C4xD8", "C8xD8", "C16xD8"),
        },
        points=4, seeds=20, rank=4, draws=200, log_norm=1e4,
    ),
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class Result:
    config: Config
    found: dict[tuple[str, str], Seeds]  # family, group → one per seed


def run(config: Config, runner: Runner) -> Result:
    common = {"experiment": "eq-support", "points": config.points, "rank": config.rank, "draws": config.draws}
    asked = {
        (family, group): seeded(config.seeds, **common, group=group, log_norm=config.log_norm)
        for family, groups in config.families.items()
        for group in groups
    }
    return Result(config, collected(runner, asked, "groups", _one))


def _one(unit: Mapping[str, Any]) -> Outcome:
    group, seed = group_named(unit["group"]), unit["seed"]
    X, y = points_of({"kind": "gaussian", "points": unit["points"], "seed": seed}, group.order)
    numbers: dict[str, Any] = {"order": group.order}
    for net in NETS:
        found = limit(group, X, y, depth=DEPTH, net=net, seed=seed, log_norm=unit["log_norm"])
        numbers |= {
            f"support {net}": support(found.beta, RANK_THRESHOLD),
            f"rank {net}": found.weighted_rank,
            f"kkt {net}": found.kkt_residual,
        }
    rng = np.random.default_rng([seed, group.order, unit["rank"]])
    drawn = [low_rank(group, unit["rank"], rng) for _ in range(unit["draws"])]
    supports = torch.tensor([support(f, ZERO) for f in drawn])
    ranks = torch.tensor([weighted_rank(group, f, ZERO) for f in drawn])
    numbers |= {"support random": int(supports.min()), "rank random": float(ranks.double().mean())}
    return Outcome({**numbers, "product random": float((supports * ranks).min()) / group.order}, {"random": supports})


def slopes(result: Result, family: str, number: str) -> list[float]:
    """Of log(number) against log |G| by least squares, seed by seed."""
    at = [result.found[family, group] for group in result.config.families[family]]
    x = np.log([s.each("order")[0] for s in at])
    values = np.log(np.array([s.each(number) for s in at]))  # (groups, seeds)
    return [float(v) for v in np.polyfit(x, values, 1)[0]]


def claims(result: Result) -> list[Claim]:
    return [c for family in result.config.families for c in _of_family(result, family)]


def _of_family(result: Result, family: str) -> list[Claim]:
    ours = {what: slopes(result, family, f"{what} group-cnn") for what in ("support", "rank")}
    theirs = {what: slopes(result, family, f"{what} diagonal") for what in ("support", "rank")}
    outcomes = [o.numbers for group in result.config.families[family] for o in result.found[family, group]]
    products = [n["support group-cnn"] * n["rank group-cnn"] / n["order"] for n in outcomes]
    random = [n["product random"] for n in outcomes]
    residual = max(n["kkt group-cnn"] for n in outcomes)
    levels = "; ".join(
        f"{group}: support {s.mean('support group-cnn').value:.1f}, rank {s.mean('rank group-cnn').value:.1f}"
        for group, s in ((group, result.found[family, group]) for group in result.config.families[family])
    )
    return [
        claim(
            "support of the trained β grows with the group",
            "mean over seeds of the slope of log support against log |G| is above 0.5 (the bound alone gives 1 minus "
            "the slope of the rank)",
            mean(ours["support"]),
            low=0.5,
            note=f"{levels}; largest KKT residual {residual:.0e}",
            paper=INTUITION,
            subject=family,
        ),
        claim(
            "the rank of the trained β hardly grows",
            "mean over seeds of the slope of log rank against log |G| is below 0.5",
            mean(ours["rank"]),
            high=0.5,
            note="the premise, which training does not promise",
            subject=family,
            basis="own",
        ),
        claim(
            "the bound holds for the trained β",
            "the least support × rank / |G| over groups and seeds is at least 1",
            Estimate(min(products), 0.0, len(products)),
            low=1 - ROUNDING,
            paper="Meshulam's theorem",
            note="with thresholds of a thousandth for both",
            subject=family,
        ),
        claim(
            "support grows faster for the G-CNN than for the diagonal network",
            "mean over seeds of the difference of the slopes of log support is above 0",
            paired(ours["support"], theirs["support"]),
            low=0,
            note=f"control; slope of the diagonal network {mean(theirs['support']).value:.2f}",
            subject=family,
            basis="own",
        ),
        claim(
            "the rank of the sparse control grows",
            "mean over seeds of the slope of log rank against log |G| of the diagonal network is above 0.5",
            mean(theirs["rank"]),
            low=0.5,
            paper="support × rank ≥ |G|",
            note="the theorem read from the other side",
            subject=family,
            basis="derived",
        ),
        claim(
            f"random functions of rank at most {result.config.rank}: the bound holds",
            "the least support × rank / |G| over groups, seeds and draws is at least 1",
            Estimate(min(random), 0.0, len(random) * result.config.draws),
            low=1 - ROUNDING,
            paper="Meshulam's theorem",
            subject=family,
        ),
        claim(
            f"random functions of rank at most {result.config.rank}: the smallest support grows with the group",
            "mean over seeds of the slope of log(smallest support) against log |G| is above 0.5",
            mean(slopes(result, family, "support random")),
            low=0.5,
            paper=INTUITION,
            subject=family,
        ),
    ]


def figure(result: Result) -> Figure:
    """One column a family: support above, rank below, against the order of the group."""
    from netgrain.experiments.equivariance.panels import labelled, mean_mark, picture, plain_ticks

    config = result.config
    figure = picture(
        3.7 * len(config.families),
        6.4,
        f"Depth-3 limits on {config.points} points: support and rank as the group grows",
    )
    axes = figure.subplots(2, len(config.families), squeeze=False)
    kinds = {"group-cnn": ("G-CNN", "#0072b2"), "diagonal": ("diagonal", "#e69f00")}
    kinds["random"] = (f"random, rank ≤ {config.rank} (smallest support)", "#009e73")
    for (family, groups), column in zip(config.families.items(), axes.T, strict=True):
        orders = [result.found[family, group].each("order")[0] for group in groups]
        for ax, what in zip(column, ("support", "rank"), strict=True):
            for k, (kind, (label, colour)) in enumerate(kinds.items()):
                means = [result.found[family, group].mean(f"{what} {kind}") for group in groups]
                ax.plot(orders, [m.value for m in means], color=colour, lw=1.3, label=label)
                for n, m in zip(orders, means, strict=True):
                    mean_mark(ax, n * (1 + 0.02 * (k - 1)), m, colour=colour)
            ax.plot(orders, orders, color="0.6", lw=0.9, ls=":", label="|G|")
            if what == "support":
                ax.plot(orders, [n / config.rank for n in orders], color="black", lw=1, ls="--", label="|G| / rank")
            ax.set(xscale="log", yscale="log", ylim=(0.8, 1.4 * max(orders)))
            plain_ticks(ax, "x", [int(n) for n in orders])
            plain_ticks(ax, "y", (1, 2, 5, 10, 20, 50, 100, 200))
            name = "support of β" if what == "support" else "Σ d rank of β̂"
            labelled(ax, f"{family}: {name}", "order of the group", name if column is axes.T[0] else "")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False)
    return figure
