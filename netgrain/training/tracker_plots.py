"""The pictures of the trackers: curves over the steps of a training, with error bands."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from netgrain.geometry.estimate import Estimate
from netgrain.geometry.plots import COLOURS, LARGE, LINE, MARK, MEDIUM, SMALL

if TYPE_CHECKING:
    from netgrain.complexity.tracker import ComplexityTracker
    from netgrain.training.geometry_tracker import GeometryTracker


def draw(tracker: GeometryTracker, *, log_steps: bool = False) -> Figure:
    """Three panels: correlations; velocity; trace and effective rank over their value at the first step."""
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
            _curve(ax, steps, history[name], start or 1.0, tracker.labels[name], colour)
        _dressed(ax, title, tracker.every if log_steps else None)
    axes[0].plot([], [], ":", color="0.4", linewidth=1.2, label="naive (plug-in)")
    axes[0].legend(fontsize=SMALL, frameon=True, framealpha=0.9, edgecolor="none")
    axes[2].legend(fontsize=SMALL, frameon=True, framealpha=0.9, edgecolor="none")
    if len(steps):
        axes[2].set_yscale("log")
    return figure


def draw_complexity(tracker: ComplexityTracker, *, log_steps: bool = False) -> Figure:
    """Panels: complexity; it and its normalised versions over their first value; accuracy and loss, where known."""
    history, steps = tracker.history, np.array(tracker.steps, dtype=float)
    panels = {
        "Geometric complexity": ["gc", "gc_test"],
        "Relative to the first value": ["gc", "gc_per_variance", "gc_per_margin"],
        "Labels met, and loss": ["accuracy", "loss"],
    }
    shown = {title: [n for n in names if n in history] for title, names in panels.items()}
    shown = {title: names for title, names in shown.items() if names}
    figure = Figure(figsize=(4.0 * len(shown), 3.6), layout="constrained")
    colours = dict(zip(("gc", "gc_test", "gc_per_variance", "gc_per_margin"), COLOURS, strict=False))
    colours |= {"accuracy": LINE, "loss": MARK}
    labels = tracker.labels | {"gc": "measured on X", "gc_test": "held out"}
    for ax, (title, names) in zip(np.atleast_1d(figure.subplots(1, len(shown))), shown.items(), strict=True):
        relative = title.startswith("Relative")
        for name in names:
            side = ax
            if name == "loss" and "accuracy" in names:  # of another unit, so on an axis of its own
                side = ax.twinx()
                side.spines["top"].set_visible(False)
                side.set_ylabel("loss", fontsize=MEDIUM, color=colours[name])
                side.tick_params(labelsize=SMALL, colors=colours[name], which="both")
            unit = _first_finite(history[name]) if relative else 1.0
            label = "geometric complexity" if relative and name == "gc" else labels[name]
            _curve(side, steps, history[name], unit, label, colours[name])
            if name == "gc_test":
                side.lines[-1].set_linestyle("--")  # it often lies on the other curve
        _dressed(ax, title, tracker.every if log_steps else None)
        if "accuracy" in names:
            ax.set_ylim(-0.03, 1.03)
            ax.set_ylabel("accuracy", fontsize=MEDIUM, color=colours["accuracy"])
            ax.tick_params(axis="y", colors=colours["accuracy"])
        elif any(v.value > 0 for name in names for v in history[name]) and names != ["loss"]:
            ax.set_yscale("log")
        if len(names) > 1 and "accuracy" not in names:
            ax.legend(fontsize=SMALL, frameon=True, framealpha=0.9, edgecolor="none")
    return figure


def _first_finite(values: Sequence[Estimate]) -> float:
    return next((v.value for v in values if math.isfinite(v) and v.value != 0), 1.0)


def _dressed(ax: Axes, title: str, every: int | None) -> None:
    """Title, grid and steps along the axis; every: the steps are on a logarithmic axis that is linear up to it."""
    ax.set_title(title, fontsize=LARGE)
    ax.set_xlabel("step", fontsize=MEDIUM)
    ax.tick_params(labelsize=SMALL)
    ax.grid(color="0.9", linewidth=0.6)
    ax.set_axisbelow(True)
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    if every is not None:
        ax.set_xscale("symlog", linthresh=max(1, every))


def _curve(ax: Axes, steps: np.ndarray, values: Sequence[Estimate], unit: float, label: str, colour: str) -> None:
    middle = np.array([v.value for v in values]) / unit
    low, high = (np.array([v.interval()[end] for v in values]) / unit for end in (0, 1))
    ax.plot(steps, middle, "-", color=colour, linewidth=1.8, marker="o", markersize=3, label=label)
    if any(v.stderr > 0 for v in values):
        ax.fill_between(steps, low, high, color=colour, alpha=0.18, linewidth=0)
    plain = np.array([math.nan if v.plug_in is None else v.plug_in for v in values]) / unit
    if label != "effective rank" and not np.allclose(plain, middle, equal_nan=True) and not np.isnan(plain).all():
        ax.plot(steps, plain, ":", color=colour, linewidth=1.2)  # the naive value
