"""How figures 4, 10, 11 and 14 draw their curves of accuracy."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from netgrain.experiments.grain.drawing import error_bars, legend_below
from netgrain.experiments.grain.drawing import panels as grid_of_panels
from netgrain.experiments.grain.planted_labels import CHANCE, CODE, SCALED, AccuracyCurve, CurveName
from netgrain.experiments.grain.trials import curve_of

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
    "sinusoidal": Line("sinusoidal, sin(x·u)", "#009e73", "^:"),
    CODE: Line("sinusoidal, sin(πα) as in the authors' code", "#cc79a7", "v:"),
    SCALED: Line("sinusoidal, x·u scaled as on isotropic data", "#e69f00", "D:"),
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
    columns: int = 5,
    more: int = 0,
) -> Figure:
    """A figure with these panels, in rows, the legend in columns.

    ceilings: curves beside which the accuracy of the rule itself is drawn. more: panels with a scale of their own that
    are left empty at the end of a single row.
    """
    figure, axes = grid_of_panels(title, size, rows, len(panels) // rows + more, sharey=not more)
    axes = axes[: len(panels)]
    for ax, (key, panel) in zip(axes, panels.items(), strict=True):
        mine = {name: curve for name, curve in curves.items() if name.panel == key}
        for name, curve in mine.items():
            draw(ax, curve, lines[name.line], ceiling=name in ceilings)
        finish(ax, panel, {i for curve in mine.values() for i in curve.indices})
    for ax in axes if rows > 1 else axes[:1]:
        ax.set_ylabel("test accuracy (%)")
    shown = {label: handle for ax in axes for handle, label in zip(*ax.get_legend_handles_labels(), strict=True)}
    legend_below(figure, list(shown.values()), columns=columns)
    return figure


def draw(ax: Axes, curve: AccuracyCurve, line: Line, *, ceiling: bool = False) -> None:
    """Mean test accuracy against index with bars of one standard error (68 %)."""
    if not curve.accuracy:
        return
    x = [i + 1 for i in curve.indices]
    look: dict[str, Any] = {"fmt": line.style, "color": line.colour, "label": line.label}
    error_bars(ax, x, curve_of(curve.accuracy.values()), ms=4, lw=1.4, capsize=2, **look)
    if ceiling:
        best = curve_of(curve.ceiling.values())
        ax.plot(x, best, color="#444444", lw=0.8, ls=(0, (1, 2)), label="the rule itself, under label noise")


def finish(ax: Axes, panel: Panel, indices: Iterable[int]) -> None:
    """Axes as all these figures have them: logarithmic index (counted from one), chance, the ticks of the grid."""
    ticks = sorted(set(indices))
    ax.axhline(CHANCE, color="#888888", lw=0.8, ls="--")
    ax.set(xscale="log", ylim=(40, 102), xlabel=f"index of the eigenvector of {panel.matrix}")
    shown = [i for k, i in enumerate(ticks) if k == 0 or (i + 1) / (ticks[k - 1] + 1) > 1.25]
    ax.set_xticks([i + 1 for i in shown], [str(i) for i in shown], fontsize=8)
    ax.set_xticks([], minor=True)
    ax.set_title(panel.title, fontsize=10.5)
