"""Equivariant networks, everything: all experiments on groups in one folder, and how their claims came out.

Cost: smoke a minute, laptop about five minutes on two cores, paper for a long night.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import ModuleType
from typing import TYPE_CHECKING, Any

from netgrain.experiments.claims import FAILS, HOLDS, UNDECIDED, Claim
from netgrain.experiments.equivariance import (
    eq_ccq200,
    eq_d8_columns,
    eq_d8_gaussians,
    eq_depth,
    eq_digits,
    eq_grain,
    eq_mnist,
    eq_ordering,
    eq_relu,
    eq_spherical,
    eq_storage,
    eq_strips,
    eq_uncertainty,
)
from netgrain.runtime.run_folder import Runner

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PARTS: tuple[ModuleType, ...] = (
    eq_d8_columns,
    eq_d8_gaussians,
    eq_ordering,
    eq_depth,
    eq_strips,
    eq_ccq200,
    eq_digits,
    eq_mnist,
    eq_relu,
    eq_spherical,
    eq_storage,
    eq_grain,
    eq_uncertainty,
)


@dataclass(frozen=True)
class Config:
    scale: str  # of every part


PRESETS = {scale: Config(scale) for scale in ("smoke", "laptop", "paper")}


@dataclass(frozen=True, eq=False)
class Result:
    config: Config
    parts: tuple[Any, ...]  # results, in the order of PARTS


def run(config: Config, runner: Runner) -> Result:
    return Result(config, tuple(part.run(part.PRESETS[config.scale], runner) for part in PARTS))


def _name(part: ModuleType) -> str:
    return part.__name__.split(".")[-1].replace("_", "-")


def claims(result: Result) -> list[Claim]:
    return [
        replace(c, name=f"{_name(part)}: {c.name}")
        for part, found in zip(PARTS, result.parts, strict=True)
        for c in part.claims(found)
    ]


def figure(result: Result) -> Figure:
    """How many claims of each experiment hold, are undecided, fail."""
    from matplotlib.figure import Figure

    from netgrain.geometry.plots import COLOURS, LARGE, MARK, MEDIUM, SMALL

    verdicts = [[c.verdict for c in p.claims(r)] for p, r in zip(PARTS, result.parts, strict=True)]
    figure = Figure(figsize=(8.0, 5.0), layout="constrained")
    ax = figure.subplots()
    names = [_name(part) for part in PARTS]
    left = [0] * len(PARTS)
    for verdict, colour in ((HOLDS, COLOURS[0]), (UNDECIDED, COLOURS[4]), (FAILS, MARK)):
        counts = [found.count(verdict) for found in verdicts]
        ax.barh(names, counts, left=left, color=colour, label=verdict)
        for y, (start, count) in enumerate(zip(left, counts, strict=True)):
            if count:
                ax.text(start + count / 2, y, str(count), ha="center", va="center", fontsize=SMALL, color="white")
        left = [a + b for a, b in zip(left, counts, strict=True)]
    ax.invert_yaxis()
    ax.set_xlabel("claims", fontsize=MEDIUM)
    ax.tick_params(labelsize=SMALL)
    ax.legend(fontsize=SMALL, frameon=False)
    ax.set_title("Linear equivariant networks: claims by verdict", fontsize=LARGE)
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    return figure
