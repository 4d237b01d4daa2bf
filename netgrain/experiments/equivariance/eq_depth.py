"""Depth of an equivariant network: rank, value, KKT residual and Schatten ratio at the limit, for L = 1 to 5.

Claim: the deeper the G-CNN, the lower the rank of β̂ at the limit: p = 2/L goes to zero and R_p to Σ d rank. Depth 1 is
the support vector machine, 1 and 2 are certified by the dual, 3 to 5 by the KKT residual. Deep products of random
filters are nearly of low rank before training, so the level at initialisation stands beside every number.
Cost: smoke a second, laptop half a minute on two cores, paper three minutes (30 draws of D60, 100 of D8).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from netgrain.experiments.claims import Claim, claim
from netgrain.experiments.equivariance.studies import apart, apart_in, ask, group_named, over, tidy, train_all, written
from netgrain.geometry.estimate import mean
from netgrain.runtime.run_folder import Runner
from netgrain.runtime.units import Outcome

if TYPE_CHECKING:
    from matplotlib.figure import Figure


COST = 43  # processor seconds at laptop scale


@dataclass(frozen=True)
class Config:
    depths: Sequence[int]
    problems: Sequence[Sequence[Any]]  # group, points, draws


PRESETS = {
    "smoke": Config(depths=(1, 2, 3), problems=(("D8", 5, 3),)),
    "laptop": Config(depths=(1, 2, 3, 4, 5), problems=(("D8", 5, 16), ("D60", 10, 7))),
    "paper": Config(depths=(1, 2, 3, 4, 5), problems=(("D8", 5, 100), ("D60", 10, 30))),
}


@dataclass(frozen=True, eq=False)
class Result:
    config: Config
    trained: dict[tuple[str, int, int], list[Outcome]]  # group, points, depth → one per draw


def run(config: Config, runner: Runner) -> Result:
    asked = {
        (group, points, depth): [
            ask(group, {"kind": "gaussian", "points": points, "seed": s}, net="group-cnn", depth=depth, seed=s)
            for s in range(draws)
        ]
        for group, points, draws in reversed(config.problems)  # the long ones first
        for depth in sorted(config.depths, reverse=True)
    }
    return Result(config, train_all(runner, asked, "limits"))


def share_of_range(ratio: float, order: int, depth: int) -> float:
    """Where |β̂|_{2/L}/|β|₂ is between its least √n (0) and its most n^{L/2} (1), on a logarithmic scale."""
    return math.log(ratio / math.sqrt(order)) / ((depth - 1) / 2 * math.log(order)) if depth > 1 else math.nan


def claims(result: Result) -> list[Claim]:
    found = []
    depths = sorted(result.config.depths)
    for group, points, _ in result.config.problems:
        at = {depth: result.trained[group, points, depth] for depth in depths}
        where = f"{group}, {points} points"
        for shallow, deep in [(2, 3), (3, depths[-1])]:
            if shallow < deep and {shallow, deep} <= set(depths):
                found.append(
                    claim(
                        f"{where}: rank falls from depth {shallow} to {deep}",
                        f"Σ d rank of β̂ at depth {shallow} minus that at depth {deep} is positive",
                        apart(at[deep], at[shallow], "rank"),
                        low=0,
                        paper="p = 2/L rewards low rank",
                        note=", ".join(f"L = {d}: {written(over(at[d], 'rank'))}" for d in depths),
                    )
                )
        certified = [o.numbers["gap"] for d in depths if d <= 2 for o in at[d]]
        deep_ones = [o.numbers["kkt"] for d in depths if d > 2 for o in at[d]]
        found += [
            claim(
                f"{where}: depths 1 and 2 are certified",
                "the mean dual gap is at most 1e-4",
                mean(certified),
                high=1e-4,
                paper="convex",
                note=f"largest {max(certified):.0e}",
            ),
            claim(
                f"{where}: deeper limits are stationary",
                "the mean KKT residual of depths 3 and more is at most 1e-4",
                mean(deep_ones),
                high=1e-4,
                paper="the theorem",
                note=f"largest {max(deep_ones):.0e}",
            ),
            claim(
                f"{where}: training lowers |β̂|_(2/3) at depth 3",
                "the change of the ratio from initialisation is negative",
                apart_in(at[3], "start_ratio3", "ratio3"),
                high=0,
                paper="the slides' plots",
                note=f"from {written(over(at[3], 'start_ratio3'))} to {written(over(at[3], 'ratio3'))}",
            ),
        ]
    return found


def figure(result: Result) -> Figure:
    """Against depth: rank, Schatten ratio at p = 2/3 and on its own scale, value over its bound, residual."""
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from matplotlib.ticker import LogLocator, NullLocator

    from netgrain.geometry.plots import COLOURS, LARGE, MEDIUM, SMALL

    problems = list(result.config.problems)
    depths = sorted(result.config.depths)
    picture = Figure(figsize=(15.0, 0.6 + 3.4 * len(problems)), layout="constrained")
    blue, grey = COLOURS[0], COLOURS[4]
    for line, (group, points, draws) in zip(picture.subplots(len(problems), 5, squeeze=False), problems, strict=True):
        order = group_named(group).order
        numbers = {d: [o.numbers for o in result.trained[group, points, d]] for d in depths}

        def share(n: dict[str, Any], key: str, d: int, order: int = order) -> float:
            return share_of_range(n[key], order, d)

        panels: list[tuple[str, dict[int, list[float]], dict[int, list[float]] | None]] = [
            (f"Σ d rank of β̂, of {order}", {d: [n["rank"] for n in v] for d, v in numbers.items()}, None),
            (
                "stable rank of β̂",
                {d: [n["stable_rank"] for n in v] for d, v in numbers.items()},
                {d: [n["start_stable_rank"] for n in v] for d, v in numbers.items()},
            ),
            (
                "|β̂|_{2/3} / |β|₂, the same p at every depth",
                {d: [n["ratio3"] for n in v] for d, v in numbers.items()},
                {d: [n["start_ratio3"] for n in v] for d, v in numbers.items()},
            ),
            (
                "|β̂|_{2/L} / |β|₂, share of its range",
                {d: [share(n, "ratio", d) for n in v] for d, v in numbers.items() if d > 1},
                {d: [share(n, "start_ratio", d) for n in v] for d, v in numbers.items() if d > 1},
            ),
            ("KKT residual", {d: [max(n["kkt"], 1e-17) for n in v] for d, v in numbers.items()}, None),
        ]
        for ax, (name, ends, starts) in zip(line, panels, strict=True):
            for values, colour, fill, shift in ((starts, grey, "white", 0.17), (ends, blue, blue, 0.0)):
                for d, v in (values or {}).items():
                    spread = [d + shift + 0.05 * ((i * 7) % 9 - 4) / 4 for i in range(len(v))]
                    ax.plot(spread, v, "o", color=colour, ms=3, alpha=0.3, mew=0)
                if values is not None:
                    logarithmic = name == "KKT residual"
                    means = [mean([math.log(x) for x in v] if logarithmic else v) for v in values.values()]
                    if logarithmic:  # a geometric mean
                        ax.plot(list(values), [math.exp(m) for m in means], "-o", color=colour, ms=5)
                    else:
                        ax.errorbar(
                            [d + shift for d in values], means, yerr=[m.stderr for m in means], fmt="-o",
                            color=colour, mfc=fill, ms=5, capsize=3,
                        )  # fmt: skip
            if name == "KKT residual":
                ax.set_yscale("log")
                ax.set_ylim(1e-18, 1e-1)
                ax.yaxis.set_major_locator(LogLocator(numticks=7))
                ax.yaxis.set_minor_locator(NullLocator())
            else:
                ax.set_ylim(bottom=0)
            ax.set_xticks(depths)
            ax.set_xlim(depths[0] - 0.5, depths[-1] + 0.5)
            ax.set_xlabel("depth L", fontsize=MEDIUM)
            ax.set_title(name, fontsize=MEDIUM)
            tidy(ax)
        line[0].set_ylabel(f"{group}, {points} points, {draws} draws", fontsize=LARGE)
        handles = [
            Line2D([], [], marker="o", color=blue, label="limit"),
            Line2D([], [], marker="o", color=grey, mfc="white", label="initialisation"),
        ]
        line[1].legend(handles=handles, fontsize=SMALL, frameon=False)
    picture.suptitle("G-CNN at its limit against depth: every draw, means ± standard errors", fontsize=LARGE + 1)
    return picture
