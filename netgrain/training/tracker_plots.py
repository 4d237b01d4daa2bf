"""The picture of a tracker, drawn from the panels it declares: curves over the steps, with error bands."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from netgrain.geometry.estimate import Estimate
from netgrain.geometry.plots import COLOURS, MARK, MEDIUM, SMALL, dress
from netgrain.runtime.figures import new_figure

if TYPE_CHECKING:
    from netgrain.training.tracking import Line, Panel, Tracker

PALETTE = (*COLOURS, MARK)


def draw(tracker: Tracker, *, log_steps: bool = False) -> Figure:
    """One axis for each panel of a tracker that has something to show."""
    panels = tracker.panels()
    figure = new_figure((4.0 * len(panels), 3.6))
    for ax, panel in zip(np.atleast_1d(figure.subplots(1, len(panels))), panels, strict=True):
        _draw_panel(ax, panel, tracker)
        dress(ax, panel.title, "step")
        if log_steps:
            ax.set_xscale("symlog", linthresh=max(1, tracker.every))  # linear up to the first measurement
    return figure


def _draw_panel(ax: Axes, panel: Panel, tracker: Tracker) -> None:
    history, steps = tracker.history, np.array(tracker.steps, dtype=float)
    for line in panel.lines:
        values = history[line.name]
        side = _right_axis(ax, line) if line.own_axis else ax
        _draw_line(side, steps, values, _first_finite(values) if panel.relative else 1.0, line)
    if panel.dotted:
        ax.plot([], [], ":", color="0.4", linewidth=1.2, label=panel.dotted)
    if panel.share:
        line = panel.lines[0]
        ax.set_ylim(-0.03, 1.03)
        ax.set_ylabel(line.label, fontsize=MEDIUM, color=PALETTE[line.colour])
        ax.tick_params(axis="y", colors=PALETTE[line.colour])
    if panel.log and any(v.value > 0 for line in panel.lines for v in history[line.name]):
        ax.set_yscale("log")
    if panel.dotted or (len(panel.lines) > 1 and not any(line.own_axis for line in panel.lines)):
        ax.legend(fontsize=SMALL, frameon=True, framealpha=0.9, edgecolor="none")


def _right_axis(ax: Axes, line: Line) -> Axes:
    side = ax.twinx()
    side.spines["top"].set_visible(False)
    side.set_ylabel(line.label, fontsize=MEDIUM, color=PALETTE[line.colour])
    side.tick_params(labelsize=SMALL, colors=PALETTE[line.colour], which="both")
    return side


def _draw_line(ax: Axes, steps: np.ndarray, values: Sequence[Estimate], unit: float, line: Line) -> None:
    colour, style = PALETTE[line.colour], "--" if line.dashed else "-"
    middle = np.array([v.value for v in values]) / unit
    low, high = (np.array([v.interval()[end] for v in values]) / unit for end in (0, 1))
    ax.plot(steps, middle, style, color=colour, linewidth=1.8, marker="o", markersize=3, label=line.label)
    if any(v.stderr > 0 for v in values):
        ax.fill_between(steps, low, high, color=colour, alpha=0.18, linewidth=0)
    plain = np.array([math.nan if v.plug_in is None else v.plug_in for v in values]) / unit
    if line.naive and not np.allclose(plain, middle, equal_nan=True) and not np.isnan(plain).all():
        ax.plot(steps, plain, ":", color=colour, linewidth=1.2)


def _first_finite(values: Sequence[Estimate]) -> float:
    return next((v.value for v in values if math.isfinite(v) and v.value != 0), 1.0)
