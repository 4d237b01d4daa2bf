"""The picture of a GeometryTracker: curves over the steps of a training, with error bands."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from netgrain.estimate import Estimate
from netgrain.plots import COLOURS, LARGE, MEDIUM, SMALL

if TYPE_CHECKING:
    from netgrain.tracker import GeometryTracker


def draw(tracker: GeometryTracker, *, log_steps: bool = False) -> Figure:
    """Three panels: correlations; velocity; trace and effective rank over their value at the first step."""
    from netgrain.tracker import NAMES

    figure = Figure(figsize=(12.0, 3.6), layout="constrained")
    axes = figure.subplots(1, 3)
    history = tracker.history
    steps = np.array(tracker.steps, dtype=float)
    correlations = [name for name in ("corr_GSG", "corr_S", "corr_G0") if name in history]
    panels: list[tuple[str, Sequence[str]]] = [
        ("Correlation of the geometry", correlations),
        ("Velocity: 1 − Corr with the step before", ["velocity"]),
        ("Size, relative to the start", ["trace", "effective_rank"]),
    ]
    for ax, (title, names) in zip(axes, panels, strict=True):
        for colour, name in zip(COLOURS, names, strict=False):
            start = history[name][0].value if title.startswith("Size") and history[name] else 1.0
            _curve(ax, steps, history[name], start or 1.0, NAMES[name], colour)
        ax.set_title(title, fontsize=LARGE)
        ax.set_xlabel("step", fontsize=MEDIUM)
        ax.tick_params(labelsize=SMALL)
        ax.grid(color="0.9", linewidth=0.6)
        ax.set_axisbelow(True)
        for side in ("top", "right"):
            ax.spines[side].set_visible(False)
        if log_steps:
            ax.set_xscale("symlog", linthresh=max(1, tracker.every))
    axes[0].plot([], [], ":", color="0.4", linewidth=1.2, label="naive (plug-in)")
    axes[0].legend(fontsize=SMALL, frameon=True, framealpha=0.9, edgecolor="none")
    axes[2].legend(fontsize=SMALL, frameon=True, framealpha=0.9, edgecolor="none")
    if len(steps):
        axes[2].set_yscale("log")
    return figure


def _curve(ax: Axes, steps: np.ndarray, values: Sequence[Estimate], unit: float, label: str, colour: str) -> None:
    middle = np.array([v.value for v in values]) / unit
    low, high = (np.array([v.interval()[end] for v in values]) / unit for end in (0, 1))
    ax.plot(steps, middle, "-", color=colour, linewidth=1.8, marker="o", markersize=3, label=label)
    if any(v.stderr > 0 for v in values):
        ax.fill_between(steps, low, high, color=colour, alpha=0.18, linewidth=0)
    plain = np.array([math.nan if v.plug_in is None else v.plug_in for v in values]) / unit
    if label != "effective rank" and not np.allclose(plain, middle, equal_nan=True) and not np.isnan(plain).all():
        ax.plot(steps, plain, ":", color=colour, linewidth=1.2)  # the naive value
