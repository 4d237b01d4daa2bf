"""How the experiments on geometry draw: panels under one title, curves with their errors, one legend below."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from netgrain.geometry.estimate import Estimate

GREY = "#999999"


def panels(
    title: str, size: tuple[float, float], rows: int, columns: int, *, sharey: bool = False, fontsize: int = 12
) -> tuple[Figure, list[Any]]:
    """A figure of this size in inches with its panels, row by row."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, layout="constrained")
    figure.suptitle(title, fontsize=fontsize)
    return figure, list(figure.subplots(rows, columns, sharey=sharey, squeeze=False).flatten())


def error_bars(ax: Axes, x: Sequence[float], points: Sequence[Estimate], **look: Any) -> None:
    """Estimates with bars of one standard error, where there is one."""
    ax.errorbar(x, [p.value for p in points], yerr=_errors(points), **look)


def band(ax: Axes, x: Sequence[float], points: Sequence[Estimate], *, alpha: float, **look: Any) -> None:
    """A curve inside a band of one standard error to either side."""
    (line,) = ax.plot(x, [p.value for p in points], **look)
    low, high = ([p.value + sign * e for p, e in zip(points, _errors(points), strict=True)] for sign in (-1, 1))
    ax.fill_between(x, low, high, color=line.get_color(), alpha=alpha, lw=0)


def _errors(points: Sequence[Estimate]) -> list[float]:
    return [0.0 if math.isnan(p.stderr) else p.stderr for p in points]


def dotted(ax: Axes, height: float, colour: str = GREY, **look: Any) -> None:
    """A thin horizontal line: chance, or no difference."""
    ax.axhline(height, color=colour, lw=0.8, ls=":", **look)


def legend_below(figure: Figure, handles: Sequence[Any], columns: int) -> None:
    """One legend for all panels."""
    figure.legend(handles=handles, loc="outside lower center", ncols=columns, fontsize=9, frameon=False)
