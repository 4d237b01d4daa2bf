"""How figures 4, 10, 11 and 14 draw their curves of accuracy."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from netgrain.experiments.grain.planted_labels import CHANCE, AccuracyCurve, CurveName
from netgrain.geometry.estimate import mean

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


class Line(NamedTuple):
    """How a line looks in every panel."""

    label: str
    colour: str
    style: str = "o-"


class Panel(NamedTuple):
    title: str
    matrix: str  # whose eigenvectors are counted: "G" or "GSG"


LINES = {
    "linear": Line("linear", "#0072b2", "o-"),
    "quadratic": Line("quadratic", "#d55e00", "s--"),
    "sinusoidal": Line("sinusoidal", "#009e73", "^:"),
}


def draw_panels(
    curves: Mapping[CurveName, AccuracyCurve],
    panels: Mapping[str, Panel],
    title: str,
    *,
    size: tuple[float, float],
    rows: int = 1,
    lines: Mapping[str, Line] = LINES,
    ceilings: Collection[CurveName] = (),
) -> Figure:
    """A figure with these panels, in rows; ceilings: curves beside which the accuracy of the rule itself is drawn."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, layout="constrained")
    axes = figure.subplots(rows, len(panels) // rows, sharey=True, squeeze=False).flatten()
    for ax, (key, panel) in zip(axes, panels.items(), strict=True):
        mine = {name: curve for name, curve in curves.items() if name.panel == key}
        for name, curve in mine.items():
            draw(ax, curve, lines[name.line], ceiling=name in ceilings)
        finish(ax, panel, {i for curve in mine.values() for i in curve.indices})
    for ax in axes if rows > 1 else axes[:1]:
        ax.set_ylabel("test accuracy (%)")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False, fontsize=9)
    figure.suptitle(title, fontsize=12)
    return figure


def draw(ax: Axes, curve: AccuracyCurve, line: Line, *, ceiling: bool = False) -> None:
    """Mean test accuracy against index with bars of one standard error (68 %)."""
    places = list(range(len(curve.indices)))
    rows = list(curve.accuracy.values())
    if not rows:
        return
    points = [mean([row[k] for row in rows]) for k in places]
    bars = [0.0 if math.isnan(p.stderr) else p.stderr for p in points]
    x = [i + 1 for i in curve.indices]
    look: dict[str, Any] = {"fmt": line.style, "color": line.colour, "label": line.label}
    ax.errorbar(x, [p.value for p in points], yerr=bars, ms=4, lw=1.4, capsize=2, **look)
    if ceiling:
        best = [mean([row[k] for row in curve.ceiling.values()]).value for k in places]
        ax.plot(x, best, color="#444444", lw=0.8, ls=(0, (1, 2)), label="the rule itself, under label noise")


def finish(ax: Axes, panel: Panel, indices: Iterable[int]) -> None:
    """Axes as all these figures have them: logarithmic index (counted from one), chance, the ticks of the grid."""
    ticks = sorted(set(indices))
    ax.axhline(CHANCE, color="#888888", lw=0.8, ls="--")
    ax.set_xscale("log")
    shown = [i for k, i in enumerate(ticks) if k == 0 or (i + 1) / (ticks[k - 1] + 1) > 1.25]
    ax.set_xticks([i + 1 for i in shown], [str(i) for i in shown], fontsize=8)
    ax.set_xticks([], minor=True)
    ax.set_ylim(40, 102)
    ax.set_title(panel.title, fontsize=10.5)
    ax.set_xlabel(f"index of the eigenvector of {panel.matrix}")
