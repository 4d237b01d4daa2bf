"""The diagonal network in the scorecard: ℓ₁ at depth 2 against a linear program, ℓ_{2/3} at depth 3 by stationarity.

Claim (slides): training ⟨x, w_1 ∘ … ∘ w_L⟩ ends at argmin |β|_{2/L} with y_i⟨x_i, β⟩ ≥ 1. At depth 2 that is a linear
program, solved here by HiGHS, which knows nothing of our flow. At depth 3 the theorem promises a stationary point:
the KKT residual is judged, and on problems small enough to list all vertices the global optimum stands beside it.
Controls: the residual of the fully connected limit under the same conditions, and |β|₁ of a G-CNN and of the fully
connected network over the linear program's. x ~ N(0, I), labels in turn.
Cost: smoke a second, laptop 45 s of one core, paper (50 draws) four minutes.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.optimize import linprog

from netgrain.equivariant.kkt import stationarity
from netgrain.equivariant.limits import limit, make_network
from netgrain.equivariant.parametrisation import Array
from netgrain.equivariant.penalties import RANK_THRESHOLD
from netgrain.equivariant.separable import support_vector
from netgrain.equivariant.solution import SLACK
from netgrain.experiments.claims import ROUNDING, Claim, claim
from netgrain.experiments.equivariance.studies import Seeds, collected, group_named, paired, points_of, seeded
from netgrain.experiments.equivariance.teachers import support
from netgrain.geometry.estimate import Estimate, mean
from netgrain.runtime.runners import Runner
from netgrain.runtime.units import Outcome

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COST = 43  # processor seconds at laptop scale
COVERS = (66,)
DEPTHS = (2, 3)
MOST_VERTICES = 20_000  # that are listed
ENTRIES = {"depth 2": 2, "depth 3": 3, "FC": "FC"}
SLIDES = "argmin |β|_{2/L} at margin one"


@dataclass(frozen=True)
class Config:
    problems: Sequence[Sequence[Any]]  # group (for the G-CNN beside it), points
    seeds: int


PRESETS = {
    "smoke": Config(problems=(("D6", 2),), seeds=2),
    "laptop": Config(problems=(("D12", 4), ("D60", 10), ("D60", 30)), seeds=10),
    "paper": Config(problems=(("D12", 4), ("D60", 10), ("D60", 30)), seeds=50),
}


@dataclass(frozen=True, eq=False)
class Result:
    config: Config
    found: dict[tuple[str, int], Seeds]  # group, points → one per draw


def run(config: Config, runner: Runner) -> Result:
    asked = {
        (group, points): seeded(config.seeds, experiment="eq-diagonal", group=group, points=points)
        for group, points in reversed(config.problems)
    }
    return Result(config, collected(runner, asked, "draws", _one))


def least_sum(Z: Array) -> float:
    """min |b|₁ with Z b ≥ 1, by a linear program."""
    found = linprog(np.ones(2 * Z.shape[1]), A_ub=-np.hstack([Z, -Z]), b_ub=-np.ones(len(Z)), bounds=(0, None))
    return float(found.fun)


def least_at_vertices(Z: Array, p: float) -> float | None:
    """min Σ|b|^p over all vertices of {Z b ≥ 1} within an orthant, for p ≤ 1 the global minimum; None if too many.

    |b|^p is concave inside an orthant, so its minimum is at a point with k entries that k active margins determine.
    """
    points, n = Z.shape
    sizes = range(1, min(points, n) + 1)
    if sum(_choices(n, k) * _choices(points, k) for k in sizes) > MOST_VERTICES:
        return None
    best = np.inf
    for k in sizes:
        for rows in itertools.combinations(range(points), k):
            for columns in itertools.combinations(range(n), k):
                square = Z[np.ix_(rows, columns)]
                if abs(np.linalg.det(square)) < 1e-12:
                    continue
                b = np.linalg.solve(square, np.ones(k))
                if (Z[:, columns] @ b).min() > 1 - 1e-9:
                    best = min(best, float((np.abs(b) ** p).sum()))
    return best


def _choices(n: int, k: int) -> int:
    return len(list(itertools.combinations(range(n), k))) if n < 30 else MOST_VERTICES


def _one(unit: Mapping[str, Any]) -> Outcome:
    group, seed = group_named(unit["group"]), unit["seed"]
    X, y = points_of({"kind": "gaussian", "points": unit["points"], "seed": seed}, group.order)
    Z: Array = (y[:, None] * X).numpy()
    program, svm = least_sum(Z), support_vector(X, y)
    numbers: dict[str, Any] = {"entries FC": support(svm, RANK_THRESHOLD), "program": program}
    numbers["excess FC"] = float(svm.abs().sum()) / program - 1
    other = limit(group, X, y, depth=2, net="group-cnn", seed=seed, log_norm=1e3)
    numbers["excess G-CNN"] = float(other.beta.abs().sum()) / program - 1
    for L in DEPTHS:
        found = limit(group, X, y, depth=L, net="diagonal", seed=seed)
        transform = make_network(group, "diagonal", L).transform()
        numbers |= {
            f"entries {L}": support(found.beta, RANK_THRESHOLD),
            f"kkt {L}": found.kkt_residual,
            f"kkt FC {L}": stationarity(transform, svm.numpy(), Z, L, slack=SLACK).residual,
            f"objective {L}": found.objective,
            f"gap {L}": found.dual_gap,
        }
    numbers["excess 2"] = numbers["objective 2"] / program - 1
    best = least_at_vertices(Z, 2 / 3)
    numbers["excess 3"] = None if best is None else numbers["objective 3"] / best**1.5 - 1
    return Outcome(numbers)


def claims(result: Result) -> list[Claim]:
    found = []
    for group, points in result.config.problems:
        found += _of_problem(result.found[group, points], f"{group_named(group).order} inputs, {points} points", points)
    return found


def _of_problem(draws: Seeds, where: str, points: int) -> list[Claim]:
    found = [
        claim(
            "depth 2 ends at the linear program",
            "mean over draws of |β|₁ over the program's optimum, minus 1, is at most 1e-4",
            draws.mean("excess 2"),
            high=1e-4,
            paper=SLIDES,
            note=f"largest {max(draws.each('excess 2')):.1e}",
            subject=where,
        ),
        claim(
            "depth 3 ends at a stationary point",
            "mean KKT residual of the ℓ_{2/3} problem is at most 1e-4",
            draws.mean("kkt 3"),
            high=1e-4,
            paper=SLIDES,
            note=f"largest {max(draws.each('kkt 3')):.1e}",
            subject=where,
        ),
        claim(
            "the residual tells other predictors apart",
            "mean KKT residual of the fully connected limit under the conditions of depth 3 is above 0.01",
            draws.mean("kkt FC 3"),
            low=0.01,
            note="control",
            subject=where,
            basis="own",
        ),
        claim(
            "depth 2 has at most as many entries as points",
            "the largest number of entries minus the number of points is at most 0",
            Estimate(max(draws.each("entries 2")) - points, 0.0, len(draws)),
            high=ROUNDING,
            note=", ".join(f"{name} {draws.told(f'entries {at}')}" for name, at in ENTRIES.items()),
            subject=where,
            basis="derived",
        ),
        claim(
            "depth 3 is sparser than depth 2",
            "mean difference of the numbers of entries is below 0",
            paired(draws.each("entries 3"), draws.each("entries 2")),
            high=0,
            paper="p = 2/L rewards few entries",
            subject=where,
            basis="derived",
        ),
    ]
    found += [
        claim(
            f"the {net} does not end at the linear program",
            "mean of its |β|₁ over the optimum, minus 1, is above 0.01",
            draws.mean(f"excess {net}"),
            low=0.01,
            note="control",
            subject=where,
            basis="own",
        )
        for net in ("G-CNN", "FC")
    ]
    if all(o.numbers["excess 3"] is not None for o in draws):
        optimal = [float(v < 1e-3) for v in draws.each("excess 3")]
        found.append(
            claim(
                "depth 3 is not always optimal",
                "share of draws whose objective is within a thousandth of the best vertex is below 1",
                mean(optimal),
                high=1,
                paper="a first-order stationary point",
                note=f"the worst is {100 * max(draws.each('excess 3')):.1f} % above the optimum",
                subject=where,
                basis="derived",
            )
        )
    return found


def figure(result: Result) -> Figure:
    """Entries by depth, the linear program's optimum, and residuals beside those of another predictor."""
    from netgrain.experiments.equivariance.panels import labelled, legend, mean_mark, picture, spread

    problems = list(result.config.problems)
    names = [f"{group_named(g).order} inputs,\n{p} points" for g, p in problems]
    figure = picture(11.4, 3.9, f"Diagonal networks at the limit, {result.config.seeds} draws")
    left, middle, right = figure.subplots(1, 3)
    panels = (
        (
            left,
            {"FC": ("entries FC", "#999999"), "depth 2": ("entries 2", "#e69f00"), "depth 3": ("entries 3", "#d55e00")},
        ),
        (
            middle,
            {"FC": ("excess FC", "#999999"), "G-CNN": ("excess G-CNN", "#0072b2"), "diagonal": ("excess 2", "#e69f00")},
        ),
        (right, {"FC": ("kkt FC 3", "#999999"), "diagonal": ("kkt 3", "#d55e00")}),
    )
    for ax, cases in panels:
        for k, (label, (number, colour)) in enumerate(cases.items()):
            for at, (group, points) in enumerate(problems):
                draws, x = result.found[group, points], at + 0.2 * (k - 1)
                values = [max(v, 1e-16) for v in draws.each(number)] if ax is not left else draws.each(number)
                ax.plot(spread(x, len(values), 0.05), values, "o", color=colour, ms=3, alpha=0.35, mew=0)
                mean_mark(ax, x, mean(values), colour=colour)
            ax.plot([], [], "o", color=colour, label=label)
        ax.set_xticks(range(len(problems)), names)
        legend(ax)
    labelled(left, "entries in use", y="entries above a thousandth of the largest")
    labelled(middle, "|β|₁ above the linear program's, depth 2", y="relative excess")
    labelled(right, "stationarity for ℓ 2/3, depth 3", y="KKT residual")
    for ax in (middle, right):
        ax.set_yscale("log")
    return figure
