"""Bytes against accuracy: how few singular triplets of β̂ a trained network can be stored in.

Claim (the slides' closing remark): because training a G-CNN makes β̂ of low rank, its predictor fits into fewer
bytes than that of a fully connected net, in Fourier space or entry by entry. A predictor is cut to its leading
singular triplets over all irreps, by d_ρ σ², or to its largest entries, and compared with the whole: smallest margin
on the training data, share of fresh points with the same sign. D60 (10 points N(0, I); depth 3 by the flow) and
lifted digits on p4m(8), order 512 (100 images; depth 3 by normalised gradient descent); the fully connected limit is
the support vector machine. Numbers are float32 with two bytes for every block's or entry's index; a rank-one block
takes 2d numbers, never more than d² in all. Cost: smoke a second, laptop about 35 s of one core, paper 20 seeds,
several minutes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from netgrain.equivariant.limits import limit
from netgrain.equivariant.separable import support_vector
from netgrain.experiments.claims import Claim, claim
from netgrain.experiments.equivariance.fourier_descent import descend
from netgrain.experiments.equivariance.images import two_digits
from netgrain.experiments.equivariance.studies import (
    Seeds,
    gaussian_points,
    labels_in_turn,
    paired,
    seeded,
)
from netgrain.geometry.estimate import mean
from netgrain.groups.constructors import dihedral, p4m
from netgrain.groups.fourier import Fourier
from netgrain.groups.group import Group
from netgrain.runtime.runners import Runner
from netgrain.runtime.threads import one_thread
from netgrain.runtime.units import Outcome

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COST = 28  # processor seconds at laptop scale
COVERS = (81,)
NUMBER, INDEX = 4, 2  # bytes
ENOUGH = 0.99  # same sign on this share of fresh points
TIE, ZERO = 1e-6, 1e-20
MEASURES = {
    "same": "same sign as the whole, fresh points",
    "margin": "margin over that of the whole",
    "accuracy": "accuracy on fresh digits",
}
WAYS = ("G-CNN, Fourier", "FC, Fourier", "G-CNN, real", "FC, real")


@dataclass(frozen=True)
class Config:
    seeds: int
    steps: int  # of normalised gradient descent on digits
    count: int  # images of each digit
    fresh: int  # Gaussian points
    sizes: int  # byte counts along the curves
    log_norm: float


PRESETS = {
    "smoke": Config(seeds=2, steps=6, count=5, fresh=50, sizes=5, log_norm=4.0),
    "laptop": Config(seeds=8, steps=1500, count=50, fresh=2000, sizes=30, log_norm=1e3),
    "paper": Config(seeds=20, steps=10_000, count=50, fresh=10_000, sizes=60, log_norm=1e4),
}


@dataclass(frozen=True, eq=False)
class Result:
    config: Config
    cases: dict[str, Seeds]  # numbers: way → bytes for ENOUGH; arrays: "bytes" and "way/measure", (sizes,)


def run(config: Config, runner: Runner) -> Result:
    extra: dict[str, dict[str, Any]] = {
        "D60": {"fresh": config.fresh, "log_norm": config.log_norm},
        "digits": {"steps": config.steps, "count": config.count},
    }
    cases = {}
    for name, options in extra.items():
        asked = seeded(config.seeds, experiment="eq-storage", on=name, sizes=config.sizes, **options)
        cases[name] = Seeds(runner.map(_one, asked, name))
    return Result(config, cases)


def _curves(case: Seeds, measure: str) -> dict[str, Tensor]:
    """Way → (seeds, sizes); empty for the accuracy on D60, whose labels are random."""
    return {w: case.stacked(f"{w}/{measure}") for w in WAYS if f"{w}/{measure}" in case[0].arrays}


@one_thread()
def _one(unit: Mapping[str, Any]) -> Outcome:
    seed = unit["seed"]
    if unit["on"] == "D60":
        group = dihedral(order=60)
        generator = torch.Generator().manual_seed(seed)
        X, y = gaussian_points(10, 60, generator), labels_in_turn(10)
        fresh = gaussian_points(unit["fresh"], 60, generator)
        fresh_y = None
        beta = limit(group, X, y, depth=3, seed=seed, log_norm=unit["log_norm"]).beta
    else:
        group = p4m(8)
        X, y, fresh, fresh_y = _digits(unit["count"], seed)
        Z = y[:, None] * X
        beta = descend("group-cnn", group, Z, seed=seed, noted=[unit["steps"]]).betas[0, 0]
    wholes = {"G-CNN": beta, "FC": support_vector(X, y)}
    n = group.order
    ends = math.log10(NUMBER + INDEX), math.log10(NUMBER * n)
    sizes = torch.logspace(*ends, unit["sizes"], dtype=torch.float64) * (1 + 1e-9)  # the whole fits the last
    numbers: dict[str, Any] = {}
    arrays = {"bytes": sizes}
    for net, whole in wholes.items():
        for space, (cost, cut) in {"Fourier": cut_in_fourier(group, whole), "real": cut_in_real_space(whole)}.items():
            way = f"{net}, {space}"
            cut = cut / torch.linalg.vector_norm(cut, dim=1, keepdim=True)
            unit_whole = whole / torch.linalg.vector_norm(whole)
            same = (torch.sign(cut @ fresh.T) == torch.sign(unit_whole @ fresh.T)).double().mean(1)
            # at equal length
            margin = (y * (cut @ X.T)).amin(1) / (y * (unit_whole @ X.T)).amin()
            good = (same >= ENOUGH).nonzero()
            numbers[way] = float(cost[int(good[0])])  # the whole predictor agrees with itself, so there is one
            at = (torch.searchsorted(cost, sizes, right=True) - 1).clamp(min=0)
            short = cost[0] > sizes  # not even one piece fits: nothing is stored
            measures = {"same": same, "margin": margin}
            if fresh_y is not None:
                measures["accuracy"] = (torch.sign(cut @ fresh.T) == fresh_y).double().mean(1)
            for measure, values in measures.items():
                arrays[f"{way}/{measure}"] = torch.where(short, torch.nan, values[at])
    return Outcome(numbers, arrays)


def _digits(count: int, seed: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """`count` images of each digit to train on; as fresh ones the next 80 of each and 30 of each from the test part."""
    X, y = two_digits("digits", 8, count + 80, seed)
    test, test_y = two_digits("digits", 8, 30, seed, part="test")
    mine = torch.arange(len(y)) % (count + 80) < count
    return X[mine], y[mine], torch.cat([X[~mine], test]), torch.cat([y[~mine], test_y])


def cut_in_fourier(group: Group, beta: Tensor) -> tuple[Tensor, Tensor]:
    """β kept to its 1, 2, … most important singular triplets: bytes (cuts,) ascending, predictors (cuts, n).

    Triplets of equal d_ρ σ² (a complex irrep and its conjugate) enter together, and β stays real. For each irrep a rank
    r costs min(2 d r, d²) numbers: a conjugate pair shares one set of complex ones.

    >>> cost, cut = cut_in_fourier(dihedral(order=8), torch.ones(8, dtype=torch.float64))
    >>> cost[0].item(), bool(torch.allclose(cut[0], torch.ones(8, dtype=torch.float64)))  # one number and its irrep
    (6.0, True)
    """
    stacks = group.fourier(beta.double()).stacks
    parts = [torch.linalg.svd(s) for s in stacks]
    importance = [s.shape[-1] * values.square() for s, (_, values, _) in zip(stacks, parts, strict=True)]
    flat = torch.cat([i.flatten() for i in importance]).sort(descending=True).values
    flat = flat[flat > ZERO * flat[0]]
    levels = flat[torch.cat([flat[1:] < flat[:-1] * (1 - TIE), torch.tensor([True])])]  # the last of every tie
    cost, cut = [], []
    for level in levels:
        kept, numbers, blocks = [], 0, 0
        for s, (U, values, Vh), weight in zip(stacks, parts, importance, strict=True):
            d = s.shape[-1]
            chosen = weight >= level * (1 - TIE)
            kept.append((U * (values * chosen)[..., None, :].to(U.dtype)) @ Vh)
            ranks = chosen.sum(-1)
            numbers += int((ranks * 2 * d).clamp(max=d * d).sum())
            blocks += int((ranks > 0).sum())
        cost.append(min(NUMBER * numbers + INDEX * blocks, NUMBER * group.order))
        cut.append(Fourier(group, tuple(kept), real=True).inverse())
    return torch.tensor(cost, dtype=torch.float64), torch.stack(cut)


def cut_in_real_space(beta: Tensor) -> tuple[Tensor, Tensor]:
    """β kept to its 1, 2, … largest entries: bytes, at most those of all entries without indices, and predictors."""
    n = len(beta)
    rank = beta.abs().argsort(descending=True).argsort()
    cut = torch.where(rank[None] <= torch.arange(n)[:, None], beta[None], 0.0)
    return ((NUMBER + INDEX) * torch.arange(1, n + 1)).clamp(max=NUMBER * n).double(), cut


def claims(result: Result) -> list[Claim]:
    found = []
    for name, case in result.cases.items():
        logs = {w: torch.tensor(case.each(w)).double().log().tolist() for w in WAYS}
        typical = ", ".join(f"{w} {math.exp(mean(v).value):.0f}" for w, v in logs.items())
        whole = NUMBER * (60 if name == "D60" else 512)
        for other in WAYS[1:]:
            found.append(
                claim(
                    f"{name}: G-CNN in Fourier space needs fewer bytes than {other}",
                    f"mean of log(bytes/bytes) for the same sign on {ENOUGH:.0%} of fresh points is below 0",
                    paired(logs[WAYS[0]], logs[other]),
                    high=0,
                    paper="storing β̂ of low rank saves memory (remark, no numbers)",
                    note=f"geometric means of bytes: {typical}; all entries {whole}" if other == WAYS[1] else "",
                )
            )
        found.append(
            claim(
                f"{name}: G-CNN in Fourier space needs at most half the bytes of all its entries",
                "mean over seeds of bytes over those of the entries is at most 0.5",
                mean([v / whole for v in case.each(WAYS[0])]),
                high=0.5,
            )
        )
        if accuracy := _curves(case, "accuracy"):
            ends = {w: v[:, -1].tolist() for w, v in accuracy.items()}
            found.append(
                claim(
                    f"{name}: the whole G-CNN classifies fresh images as well as the whole FC",
                    "mean difference of accuracies is at least −0.02",
                    paired(ends["G-CNN, real"], ends["FC, real"]),
                    low=-0.02,
                    note=f"{mean(ends['G-CNN, real']).value:.3f} and {mean(ends['FC, real']).value:.3f}",
                )
            )
    return found


def figure(result: Result) -> Figure:
    from netgrain.experiments.equivariance.panels import COLOURS, band, labelled, legend, picture

    seeds = f"{result.config.seeds} seeds (bands: standard error; dashed: largest entries)"
    figure = picture(11.4, 6.2, f"Truncated predictors, {seeds}")
    axes: Any = figure.subplots(2, 3)
    titles = {"D60": "D60, 10 points", "digits": "digits on p4m(8)"}
    for row, (name, case) in zip(axes, result.cases.items(), strict=True):
        for ax, (measure, title) in zip(row, MEASURES.items(), strict=True):
            curves = _curves(case, measure)
            if not curves:
                ax.set_axis_off()
                why = "labels are random:\nno accuracy on fresh points"
                ax.text(0.5, 0.5, why, ha="center", va="center", fontsize=9)
                continue
            for way, values in curves.items():
                net, space = way.split(", ")
                fits = ~values.isnan().any(0)  # for every seed
                band(
                    ax, case[0].arrays["bytes"][fits], values[:, fits], way, colour=COLOURS[net], dashed=space == "real"
                )
            ax.set_xscale("log", base=2)
            labelled(ax, f"{titles[name]}: {title}" if ax is row[0] else title, "bytes stored")
            ax.xaxis.set_major_formatter(lambda v, _: f"{v:.0f}")
            if measure == "margin":
                ax.axhline(0, color="0.4", lw=0.8)
                ax.set_ylim(max(-2.0, ax.get_ylim()[0]), 1.1)
    legend(axes[0, 0])
    return figure
