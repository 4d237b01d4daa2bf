"""Pictures of sweeps: complexity against setting, a thin line per seed, and the test accuracy below."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from netgrain.complexity.sweeps import SweepCurve
from netgrain.experiments.heuristics.orders import rank_correlation
from netgrain.experiments.heuristics.panels import Panel
from netgrain.geometry.estimate import Estimate
from netgrain.geometry.plots import COLOURS, LARGE, MARK, MEDIUM, SMALL

ACCURACY = COLOURS[1]


def draw(panels: Sequence[Panel], columns: int = 4) -> Figure:
    """Complexity above, test accuracy below (where there is one), a column per panel, in rows of at most `columns`."""
    accuracies = [_has_accuracy(p.curve) for p in panels]
    per_panel = 2 if any(accuracies) else 1
    wide = min(len(panels), columns)
    bands = math.ceil(len(panels) / wide)
    height = (3.4 + 2.2 * (per_panel - 1)) * bands
    figure = Figure(figsize=(max(4.6, 4.1 * wide), height), layout="constrained")
    ratios = [3, 2][:per_panel] * bands
    axes = figure.subplots(per_panel * bands, wide, squeeze=False, height_ratios=ratios)
    for ax in axes[-per_panel:, len(panels) - (bands - 1) * wide :].flat:
        ax.set_axis_off()
    for j, panel in enumerate(panels):
        top, column = per_panel * (j // wide), j % wide
        ax = axes[top, column]
        complexity(panel, ax)
        ax.set_title(f"{panel.title}\n{_rho(panel)}", fontsize=LARGE)
        ax.set_ylabel(panel.axis, fontsize=MEDIUM)
        if per_panel == 2:
            _accuracy(panel, axes[top + 1, column], accuracies[j])
        axes[top + per_panel - 1, column].set_xlabel(panel.setting, fontsize=MEDIUM)
    return figure


def overview(panels: Sequence[Panel], columns: int = 4) -> Figure:
    """All sweeps side by side."""
    rows = math.ceil(len(panels) / columns)
    figure = Figure(figsize=(3.7 * columns, 3.0 * rows), layout="constrained")
    grid = figure.subplots(rows, columns, squeeze=False)
    for ax in grid.flat[len(panels) :]:
        ax.set_axis_off()
    for ax, panel in zip(grid.flat, panels, strict=False):
        complexity(panel, ax)
        ax.set_title(f"{panel.title}\n{panel.caption or _rho(panel)}", fontsize=LARGE)
        ax.set_xlabel(panel.setting, fontsize=MEDIUM)
        if panel.measure != "complexity":
            ax.set_ylabel(panel.axis, fontsize=MEDIUM)
    figure.suptitle(
        "Geometric complexity against the strength of each heuristic: mean with standard error, thin lines are seeds,\n"
        "hollow marks missed the target loss",
        fontsize=LARGE,
    )
    return figure


def complexity(panel: Panel, ax: Axes) -> Axes:
    """The measure against the setting."""
    curve = panel.curve
    places = list(range(len(curve.values)))
    rows = curve.numbers[panel.measure]
    for row, good in zip(rows, curve.good, strict=True):
        ax.plot(places, row, color=COLOURS[4], lw=0.8, alpha=0.7)
        ax.scatter(
            [p for p, g in zip(places, good, strict=True) if not g],
            [r for r, g in zip(row, good, strict=True) if not g],
            s=22, facecolors="none", edgecolors=MARK, zorder=3,
        )  # fmt: skip
    means = _draw_means(curve, panel.measure, ax, color=COLOURS[0], marker="o", ms=4)
    _height(ax, [m.value for m in means if math.isfinite(m.value) and m.value > 0])
    return ax


def _height(ax: Axes, means: list[float]) -> None:
    """A logarithmic axis around the means where these span more than a factor of five; one dead network is no scale."""
    if not means or max(means) <= 5 * min(means):
        ax.set_ylim(bottom=0)
        return
    ax.set_yscale("log")
    ax.set_ylim(min(means) / 2.5, max(means) * 2.5)
    ax.yaxis.set_minor_formatter(NullFormatter())
    if max(means) < 200 * min(means):
        ax.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))


def _accuracy(panel: Panel, ax: Axes, there: bool) -> None:
    if not there:
        ax.set_axis_off()
        return
    _draw_means(panel.curve, "accuracy", ax, times=100, color=ACCURACY, marker="s", ms=3.5)
    ax.set_ylabel("test accuracy, %", fontsize=MEDIUM)


def _draw_means(curve: SweepCurve, measure: str, ax: Axes, *, times: float = 1, **look: Any) -> list[Estimate]:
    """Means over seeds at equal distances, as settings were chosen: grids begin at zero and grow by factors."""
    means = curve.means(measure)
    errors = [0.0 if math.isnan(m.stderr) else times * m.stderr for m in means]
    ax.errorbar(range(len(means)), [times * m.value for m in means], yerr=errors, lw=1.8, capsize=2, **look)
    every = 1 + len(curve.values) // 8  # as many labels as fit
    labels = [f"{v:g}" if j % every == 0 else "" for j, v in enumerate(curve.values)]
    ax.set_xticks(range(len(curve.values)), labels)
    ax.tick_params(labelsize=SMALL)
    ax.grid(axis="y", alpha=0.25)
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    return means


def _has_accuracy(curve: SweepCurve) -> bool:
    return "accuracy" in curve.numbers and any(math.isfinite(v) for row in curve.numbers["accuracy"] for v in row)


def _rho(panel: Panel) -> str:
    rho = rank_correlation(panel.curve, panel.measure)
    before = f"{panel.network}: " if panel.network else ""
    if math.isnan(rho.value):
        return f"{before}rho not defined"
    error = "" if math.isnan(rho.stderr) or rho.stderr == 0 else f" ± {rho.stderr:.2f}"
    missed = f", {panel.curve.missed} runs missed" if panel.curve.missed else ""
    return before + f"rho {rho.value:+.2f}{error} ({rho.n} seeds{missed})".replace("-", "−")
