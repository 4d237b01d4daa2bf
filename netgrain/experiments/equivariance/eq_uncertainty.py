"""Uncertainty on groups: support against rank, Meshulam's bound, and equality on subgroups.

Claim: |supp f| · Σ_ρ d_ρ rank f̂(ρ) ≥ |G| for every f ≠ 0, with equality on indicators of subgroups and their
translates: low rank in Fourier space forces wide support, which is why a G-CNN's β is dense. Random functions of random
support, random functions constant on cosets of random subgroups, and indicators of cosets, on several groups.
Cost: a few seconds at every scale.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from netgrain.equivariant.schatten_norms import weighted_rank
from netgrain.experiments.claims import ROUNDING, Claim, claim
from netgrain.experiments.equivariance.studies import BARE, Seeds, collected, group_named, seeded
from netgrain.geometry.estimate import Estimate
from netgrain.groups.axioms import closure
from netgrain.groups.group import Group
from netgrain.runtime.runners import Runner
from netgrain.runtime.units import Outcome

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COST = 3  # processor seconds at laptop scale
COVERS = (74,)
KINDS = {"any": "random support", "cosets": "constant on cosets", "subgroup": "indicator of a coset"}
ZERO = 1e-9  # singular values below this share of the largest are zero up to rounding


@dataclass(frozen=True)
class Config:
    groups: Sequence[str]
    functions: int  # of each kind, group and seed
    seeds: int


PRESETS = {
    "smoke": Config(groups=("D8", "Q8", "A4"), functions=6, seeds=2),
    "laptop": Config(groups=("D8", "A5", "D60", "S5", f"{BARE}C5xC5:Q8"), functions=40, seeds=5),
    "paper": Config(groups=("D8", "A5", "D60", "S5", f"{BARE}C5xC5:Q8"), functions=200, seeds=10),
}


@dataclass(frozen=True, eq=False)
class Result:
    config: Config
    found: dict[str, Seeds]  # group → one per seed: supports and ranks, (kinds, functions)


def run(config: Config, runner: Runner) -> Result:
    asked = {name: seeded(config.seeds, uncertainty=name, functions=config.functions) for name in config.groups}
    return Result(config, collected(runner, asked, "functions", _one))


def _one(unit: Mapping[str, Any]) -> Outcome:
    group = group_named(unit["uncertainty"])
    rng = np.random.default_rng([unit["seed"], group.order])
    rows = [[_function(group, kind, rng) for _ in range(unit["functions"])] for kind in KINDS]
    supports = torch.tensor([[int((f != 0).sum()) for f in row] for row in rows])
    ranks = torch.tensor([[weighted_rank(group, f, ZERO) for f in row] for row in rows])
    products = (supports * ranks).double() / group.order
    return Outcome({"least": float(products.min())}, {"supports": supports, "ranks": ranks})


def _function(group: Group, kind: str, rng: np.random.Generator) -> Tensor:
    n = group.order
    if kind == "any":
        size = round(float(np.exp(rng.uniform(0, np.log(n)))))
        f = torch.zeros(n, dtype=torch.float64)
        f[torch.from_numpy(rng.choice(n, size, replace=False))] = torch.from_numpy(rng.standard_normal(size))
        return f
    H = subgroup(group, rng.integers(0, n, rng.integers(1, 3)).tolist())
    left = bool(rng.integers(2))
    if kind == "subgroup":
        return coset(group, H, int(rng.integers(n)), left)
    f = torch.zeros(n, dtype=torch.float64)
    for g in rng.integers(0, n, rng.integers(1, 5)).tolist():
        f = torch.where(coset(group, H, g, left) > 0, float(rng.standard_normal()), f)
    return f


def subgroup(group: Group, elements: Sequence[int]) -> Tensor:
    """The elements of the subgroup that some elements generate, ascending."""
    inside = closure([0], elements, group.order, group.structure.multiply)
    return torch.from_numpy(np.flatnonzero(inside))


def coset(group: Group, H: Tensor, g: int, left: bool) -> Tensor:
    """The indicator of gH or Hg."""
    f = torch.zeros(group.order, dtype=torch.float64)
    f[group.multiply(torch.tensor(g), H) if left else group.multiply(H, torch.tensor(g))] = 1
    return f


def _points(result: Result, name: str, kind: str) -> tuple[Tensor, Tensor]:
    """Supports and ranks of all functions of a kind on a group."""
    row = list(KINDS).index(kind)
    supports, ranks = (result.found[name].stacked(array)[:, row].flatten() for array in ("supports", "ranks"))
    return supports, ranks


def _products(result: Result, name: str, kind: str) -> Tensor:
    supports, ranks = _points(result, name, kind)
    return supports * ranks / group_named(name).order


def claims(result: Result) -> list[Claim]:
    found = []
    for name in result.config.groups:
        random = torch.cat([_products(result, name, kind) for kind in ("any", "cosets")])
        exact = _products(result, name, "subgroup")
        short = group_named(name).name
        found += [
            claim(
                f"{short}: the bound holds",
                "the least |supp f| · Σ d rank / |G| of all random functions is at least 1",
                Estimate(float(random.min()), 0.0, len(random)),
                low=1 - ROUNDING,
                paper="Meshulam's theorem",
                note=f"{len(random)} functions, {int((random == 1).sum())} of them at 1",
            ),
            claim(
                f"{short}: subgroups reach it",
                "the largest |supp f| · Σ d rank / |G| − 1 of all cosets of random subgroups is exactly 0",
                Estimate(float((exact - 1).abs().max()), 0.0, len(exact)),
                low=0,
                high=0,
                paper="equality",
                note=f"{len(exact)} cosets of random subgroups",
            ),
        ]
    return found


def figure(result: Result) -> Figure:
    """One panel a group: every function as a point, and the hyperbola below which there is none."""
    from netgrain.experiments.equivariance.panels import labelled, picture
    from netgrain.geometry.plots import COLOURS, MARK, SMALL

    groups = list(result.config.groups)
    figure = picture(3.5 * len(groups), 4.4, "Support × rank is at least the order of the group")
    styles = {"any": ("o", COLOURS[0], 4.0), "cosets": ("^", COLOURS[1], 4.5), "subgroup": ("*", MARK, 9.0)}
    axes = figure.subplots(1, len(groups), squeeze=False)[0]
    for ax, name in zip(axes, groups, strict=True):
        n = group_named(name).order
        edge = np.geomspace(0.7, 1.5 * n, 100)
        ax.fill_between(edge, n / edge, 0.1, color="0.92", lw=0)
        ax.plot(edge, n / edge, color="black", lw=1.2)
        for kind, (marker, colour, size) in styles.items():
            ax.plot(*_points(result, name, kind), marker, color=colour, ms=size, alpha=0.55, mew=0, label=KINDS[kind])
        ax.set(xscale="log", yscale="log", xlim=(0.7, 1.5 * n), ylim=(0.7, 1.5 * n))
        ax.set_aspect("equal")
        title = f"{group_named(name).name}, order {n}"
        labelled(ax, title, "size of the support", "Σ d rank of f̂" if ax is axes[0] else "")
        ax.text(0.05, 0.05, "no function here", fontsize=SMALL, color="0.45", transform=ax.transAxes)
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False)
    return figure
