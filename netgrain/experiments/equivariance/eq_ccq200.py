"""Equivariant networks on (C5×C5)⋊Q8, order 200, from a bare multiplication table: irreps, limits, certificates.

Claim: the table alone gives all irreps to rounding; on ten Gaussian points (means ±0.01) the limit of depth 2 is
certified optimal by its dual, that of depth 3 stationary, and depth 3 is of lower rank in Fourier space than depth 2.
The group is SmallGroup(200, 44), irreps 4×1 + 1×2 + 3×8; the authors saved no output for it. Smoke takes C3 for C5.
Cost: smoke two seconds, laptop 20 s on two cores, paper (10 seeds and the authors' 500 epochs) two minutes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from netgrain.equivariant.penalties import group_transform
from netgrain.equivariant.schatten_norms import weighted_rank
from netgrain.experiments.claims import Claim, claim
from netgrain.experiments.equivariance.studies import (
    BARE,
    HUES,
    RATIOS,
    Seeds,
    collected,
    group_named,
    narrow,
    trainings,
    written,
)
from netgrain.geometry.estimate import Estimate, mean
from netgrain.groups.constructors import planes_by_quaternions
from netgrain.groups.group import Group
from netgrain.runtime.runners import Runner
from netgrain.runtime.units import Outcome

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COST = 35  # processor seconds at laptop scale
COVERS = (71,)
CASES = {(2, "group-cnn"): "G-CNN, depth 2", (3, "group-cnn"): "G-CNN, depth 3", (3, "fully-connected"): "FC, depth 3"}
SHADES = {(2, "group-cnn"): "#56b4e9", (3, "group-cnn"): "#0072b2", (3, "fully-connected"): HUES["fully-connected"]}
PAIRS = 2000  # products ρ(g)ρ(h) = ρ(gh) that are tried


@dataclass(frozen=True)
class Config:
    prime: int  # of (C_p × C_p) ⋊ Q8
    points: int
    seeds: int
    cap: float
    epochs: int  # of the authors' descent; 0: not run
    lr: float


PRESETS = {
    "smoke": Config(prime=3, points=2, seeds=2, cap=1e1, epochs=0, lr=0.01),
    "laptop": Config(prime=5, points=10, seeds=5, cap=1e5, epochs=0, lr=0.01),
    "paper": Config(prime=5, points=10, seeds=10, cap=1e5, epochs=500, lr=0.01),
}


@dataclass(frozen=True, eq=False)
class Result:
    config: Config
    group: Group
    irreps: Outcome
    trained: dict[tuple[int, str], Seeds]  # depth, network → one per seed
    descent: Seeds  # G-CNN of depth 3 by the authors' descent, if asked for
    spectra: dict[
        tuple[int, str], tuple[Tensor, Tensor]
    ]  # singular values of β̂, d times each: start and end (seeds, n)


def run(config: Config, runner: Runner) -> Result:
    name = f"{BARE}C{config.prime}xC{config.prime}:Q8"
    group = group_named(name)

    data = {"kind": "gaussian", "points": config.points, "offset": 0.01}

    def units(depth: int, net: str, **options: Any) -> list[dict[str, Any]]:
        return trainings(name, data, range(config.seeds), net=net, depth=depth, **options)

    asked: dict[Any, list[dict[str, Any]]] = {
        (depth, net): units(depth, net, cap=config.cap, **narrow(net)) for depth, net in CASES
    }
    if config.epochs:
        asked["descent"] = units(3, "group-cnn", method="sgd", epochs=config.epochs, lr=config.lr)
    trained = collected(runner, asked, "limits")
    (irreps,) = runner.map(_irreps, [{"group": name, "pairs": PAIRS}], "irreps")
    spectra = {c: (_values(group, trained[c], "start"), _values(group, trained[c], "beta")) for c in CASES}
    return Result(config, group, irreps, {c: trained[c] for c in CASES}, trained.get("descent", Seeds()), spectra)


def _irreps(unit: Mapping[str, Any]) -> Outcome:
    """How well the irreps found from the table obey it."""
    group = group_named(unit["group"])
    rng = np.random.default_rng(0)
    g, h = (torch.from_numpy(rng.integers(0, group.order, unit["pairs"])) for _ in range(2))
    products = group.multiply(g, h)
    errors, unitary = [], []
    for irrep in group.irreps:
        M = irrep.matrices
        errors.append(float((M[g] @ M[h] - M[products]).abs().max()))
        unitary.append(float((M @ M.mH - torch.eye(irrep.dimension)).abs().max()))
    X = group.character_table
    sizes = torch.tensor([len(c) for c in group.classes], dtype=X.dtype)
    gram = (X * sizes) @ X.mH / group.order
    return Outcome(
        {
            "dimensions": list(group.dimensions),
            "homomorphism": max(errors),
            "unitary": max(unitary),
            "characters": float((gram - torch.eye(len(X))).abs().max()),
        }
    )


def _values(group: Group, outcomes: Seeds, which: str) -> Tensor:
    """Singular values of β̂, each d times, descending, over the largest: (seeds, order)."""
    spectrum = group_transform(group)
    families = zip(spectrum.weights, spectrum.singular_values(outcomes.stacked(which)), strict=True)
    values = torch.cat([s.flatten(1).repeat_interleave(round(d), 1) for d, s in families], 1)
    return values.sort(1, descending=True).values / values.amax(1, keepdim=True)


def claims(result: Result) -> list[Claim]:
    law, found = result.irreps.numbers, result.trained
    two, three, fc = (found[case] for case in CASES)
    group, p = result.group, result.config.prime
    eights = (p * p - 1) // 8  # free orbits of Q8 on the characters of the plane
    start = mean([weighted_rank(group, o.arrays["start"]) for o in three])
    descent = f"; {result.config.epochs} epochs: to {result.descent.told('ratio')}" if result.descent else ""
    return [
        claim(
            "the bare table gives all irreps",
            f"4×1 + 1×2 + {eights}×8, and ρ(g)ρ(h) = ρ(gh), ρ unitary, characters orthonormal to 1e-10",
            Estimate(
                max(law["homomorphism"], law["unitary"], law["characters"])
                if law["dimensions"] == [1, 1, 1, 1, 2] + [8] * eights
                else 1.0
            ),
            high=1e-10,
            paper="GAP and Sage",
        ),
        claim(
            "depth 2 is certified",
            "the dual gap is at most 1e-3",
            two.mean("gap"),
            high=1e-3,
            paper="no certificate",
            note=f"value {two.told('objective')}",
        ),
        claim(
            "depth 3 is stationary",
            "the KKT residual is at most 1e-6",
            three.mean("kkt"),
            high=1e-6,
            paper="the theorem",
            note=f"balancedness − 1: {three.mean(lambda n: abs(n['balancedness'] - 1)).value:.0e}",
        ),
        claim(
            "depth 3 is of lower rank than depth 2",
            "Σ d rank of β̂ at depth 2 minus that at depth 3 is positive",
            two.minus(three, "rank"),
            low=0,
            paper="low rank in Fourier space; a prototype saw 49 (not converged) and 8",
            note=f"{two.told('rank')} and {three.told('rank')} of {group.order}; at initialisation {written(start)}",
        ),
        claim(
            "training lowers the Fourier ratio of the G-CNN",
            "the change of |β̂|_{2/3}/|β|₂ from initialisation, depth 3, is negative",
            three.change("ratio"),
            high=0,
            paper="no output saved",
            note=f"to {three.told('ratio')}{descent}",
        ),
        claim(
            "the G-CNN is far below the FC network",
            "|β̂|_{2/3}/|β|₂ of the FC network over that of the G-CNN, depth 3, is at least 5",
            mean([b / a for a, b in zip(three.each("ratio"), fc.each("ratio"), strict=True)]),
            low=5,
            paper="no output saved",
            note=f"{fc.told('ratio')} and {three.told('ratio')}; FC is near that of noise, "
            f"{(0.893 * group.order) ** 1.5:.0f}",
        ),
    ]


def figure(result: Result) -> Figure:
    """The quilt of the table, the singular values of β̂ before and after, and the changes."""
    from netgrain.experiments.equivariance.panels import draw_changes, key, labelled, legend, mean_mark, picture
    from netgrain.geometry.plots import SMALL
    from netgrain.groups.quilt import quilt

    config, order = result.config, result.group.order
    title = f"{result.group.name} from its bare table, {config.points} Gaussian points, {config.seeds} seeds"
    figure = picture(15.0, 6.4, title)
    parts: Any = figure.subfigures(1, 2, width_ratios=(1, 1.3))
    left, right = parts
    quilt(planes_by_quaternions(config.prime), left.add_subplot())
    values_ax, rank_ax, ratio_ax, real_ax = right.subplots(2, 2).ravel()
    for (depth, net), colour in SHADES.items():
        start, end = (v.clamp(min=1e-9).log().mean(0).exp().numpy() for v in result.spectra[depth, net])
        index = np.arange(1, len(end) + 1)
        values_ax.plot(index, end, color=colour, lw=1.8, drawstyle="steps-mid")
        if net == "group-cnn":
            values_ax.plot(index, start, color=colour, lw=1, ls=":")
            ranks = result.trained[depth, net].each("rank")
            places = [depth + 0.1 * (i - 2) / 2 for i in range(len(ranks))]
            rank_ax.plot(places, ranks, "o", color=colour, alpha=0.4, mew=0)
            mean_mark(rank_ax, depth + 0.22, mean(ranks), colour=colour)
            rank_ax.annotate(written(mean(ranks)), (depth + 0.27, mean(ranks)), fontsize=SMALL, va="center")
    values_ax.set_yscale("log")
    values_ax.set_ylim(1e-6, 2)
    spectrum = "spectrum, geometric mean over seeds"
    labelled(values_ax, spectrum, "index, each singular value d times", "singular value of β̂ / largest")
    cases = [key(SHADES[case], name) for case, name in CASES.items()]
    legend(values_ax, handles=[*cases, key("0.4", "at initialisation", ":")], loc=(0.28, 0.04))
    rank_ax.set_xticks([2, 3], ["depth 2", "depth 3"])
    rank_ax.set_xlim(1.6, 3.7)
    rank_ax.set_ylim(bottom=0)
    labelled(rank_ax, "rank at the limit, G-CNN", y=f"Σ d rank of β̂, of {order}")
    rows = [(name, case[1], result.trained[case]) for case, name in CASES.items()]
    draw_changes(ratio_ax, rows, "ratio3", RATIOS["ratio"])
    draw_changes(real_ax, rows[1:], "real", RATIOS["real"])
    return figure
