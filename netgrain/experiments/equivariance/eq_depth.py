"""Depth of an equivariant network: rank, value, KKT residual and Schatten ratio at the limit, for L = 1 to 5.

Claim: the deeper the G-CNN, the lower the rank of β̂ at the limit: p = 2/L goes to zero and R_p to Σ d rank. Depth 1 is
the support vector machine, 1 and 2 are certified by the dual, 3 to 5 by the KKT residual. Deep products of random
filters are nearly of low rank before training, so the level at initialisation stands beside every number.
Cost: smoke a second, laptop half a minute on two cores, paper three minutes (30 draws of D60, 100 of D8).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from netgrain.experiments.claims import Claim, claim
from netgrain.experiments.equivariance.studies import Seeds, collected, group_named, trainings
from netgrain.geometry.estimate import mean
from netgrain.runtime.runners import Runner

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COST = 43  # processor seconds at laptop scale
COVERS = (71, 72)


@dataclass(frozen=True)
class Config:
    depths: Sequence[int]
    problems: Sequence[Sequence[Any]]  # group, points, draws


PRESETS = {
    "smoke": Config(depths=(1, 2, 3), problems=(("D6", 3, 2),)),
    "laptop": Config(depths=(1, 2, 3, 4, 5), problems=(("D8", 5, 16), ("D60", 10, 7))),
    "paper": Config(depths=(1, 2, 3, 4, 5), problems=(("D8", 5, 100), ("D60", 10, 30))),
}


@dataclass(frozen=True, eq=False)
class Result:
    config: Config
    trained: dict[tuple[str, int, int], Seeds]  # group, points, depth → one per draw


def run(config: Config, runner: Runner) -> Result:
    asked = {
        (group, points, depth): trainings(
            group, {"kind": "gaussian", "points": points}, range(draws), net="group-cnn", depth=depth
        )
        for group, points, draws in reversed(config.problems)  # the long ones first
        for depth in sorted(config.depths, reverse=True)
    }
    return Result(config, collected(runner, asked, "limits"))


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
                        at[shallow].minus(at[deep], "rank"),
                        low=0,
                        paper="p = 2/L rewards low rank",
                        note=", ".join(f"L = {d}: {at[d].told('rank')}" for d in depths),
                    )
                )
        for kind, statement, number, mine, paper in (
            ("depths 1 and 2 are certified", "dual gap", "gap", [1, 2], "convex"),
            (
                "deeper limits are stationary",
                "KKT residual of depths 3 and more",
                "kkt",
                range(3, depths[-1] + 1),
                "the theorem",
            ),
        ):
            values = [v for d in depths if d in mine for v in at[d].each(number)]
            found.append(
                claim(
                    f"{where}: {kind}",
                    f"the mean {statement} is at most 1e-4",
                    mean(values),
                    high=1e-4,
                    paper=paper,
                    note=f"largest {max(values):.0e}",
                )
            )
        found.append(
            claim(
                f"{where}: training lowers |β̂|_(2/3) at depth 3",
                "the change of the ratio from initialisation is negative",
                at[3].change("ratio3"),
                high=0,
                paper="the slides' plots",
                note=f"from {at[3].told('start_ratio3')} to {at[3].told('ratio3')}",
            )
        )
    return found


def figure(result: Result) -> Figure:
    """Against depth: rank, Schatten ratio at p = 2/3 and on its own scale, value over its bound, residual."""
    from matplotlib.ticker import LogLocator, NullLocator

    from netgrain.experiments.equivariance.panels import key, labelled, legend, picture
    from netgrain.geometry.plots import COLOURS

    problems, depths = list(result.config.problems), sorted(result.config.depths)
    title = "G-CNN at its limit against depth: every draw, means ± standard errors"
    figure = picture(15.0, 0.6 + 3.4 * len(problems), title)
    blue, grey = COLOURS[0], COLOURS[4]
    for line, (group, points, draws) in zip(figure.subplots(len(problems), 5, squeeze=False), problems, strict=True):
        order = group_named(group).order
        trained = {d: result.trained[group, points, d] for d in depths}
        panels = {
            "rank": f"Σ d rank of β̂, of {order}",
            "stable_rank": "stable rank of β̂",
            "ratio3": "|β̂|_{2/3} / |β|₂, the same p at every depth",
            "ratio": "|β̂|_{2/L} / |β|₂, share of its range",
            "kkt": "KKT residual",
        }
        for ax, (number, name) in zip(line, panels.items(), strict=True):
            if number not in ("rank", "kkt"):
                _draw_means(ax, _by_depth(trained, f"start_{number}", order), grey, "white", shift=0.17)
            _draw_means(ax, _by_depth(trained, number, order), blue, blue, logarithmic=number == "kkt")
            if number == "kkt":
                ax.set_yscale("log")
                ax.set_ylim(1e-18, 1e-1)
                ax.yaxis.set_major_locator(LogLocator(numticks=7))
                ax.yaxis.set_minor_locator(NullLocator())
            else:
                ax.set_ylim(bottom=0)
            ax.set_xticks(depths)
            ax.set_xlim(depths[0] - 0.5, depths[-1] + 0.5)
            labelled(ax, name, "depth L", f"{group}, {points} points, {draws} draws" if ax is line[0] else "")
        legend(line[1], handles=[key(blue, "limit"), key(grey, "initialisation")])
    return figure


def _by_depth(trained: Mapping[int, Seeds], number: str, order: int) -> dict[int, list[float]]:
    """A number of every draw, depth by depth: a ratio as a share of its range, a residual not below rounding."""
    found = {d: outcomes.each(number) for d, outcomes in trained.items()}
    if number.endswith("ratio"):
        return {d: [share_of_range(v, order, d) for v in values] for d, values in found.items() if d > 1}
    return {d: [max(v, 1e-17) for v in values] for d, values in found.items()}


def _draw_means(
    ax: Axes,
    values: Mapping[int, Sequence[float]],
    colour: str,
    fill: str,
    *,
    shift: float = 0.0,
    logarithmic: bool = False,
) -> None:
    """Every draw as a point, and a line through the means (geometric ones if asked for) with standard errors."""
    from netgrain.experiments.equivariance.panels import spread

    for d, v in values.items():
        ax.plot(spread(d + shift, len(v), 0.05), v, "o", color=colour, ms=3, alpha=0.3, mew=0)
    if logarithmic:
        means = [math.exp(mean([math.log(x) for x in v])) for v in values.values()]
        ax.plot(list(values), means, "-o", color=colour, ms=5)
        return
    estimates = [mean(v) for v in values.values()]
    errors = [m.stderr for m in estimates]
    ax.errorbar([d + shift for d in values], estimates, errors, fmt="-o", color=colour, mfc=fill, ms=5, capsize=3)
