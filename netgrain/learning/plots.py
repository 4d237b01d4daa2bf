"""Pictures of a prediction: the learning curve with its band, the shares of the label by modes, both in one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from netgrain.geometry.plots import COLOURS, LINE, MARK, SMALL
from netgrain.runtime.figures import axes_or_new, new_figure

if TYPE_CHECKING:
    from netgrain.learning.outcome import Learnability
    from netgrain.learning.rankings import Place

AHEAD = 8  # times the samples


def curve(found: Learnability, ax: Axes | None = None) -> Axes:
    """The score over the number of samples: leave-one-out of subsets, the forecast, and the prediction's own error."""
    ax = axes_or_new(ax, (4.8, 3.6))
    points, n = found.curve, found.curve.sizes[-1]
    scores, errors = [float(s) for s in points.scores], [s.stderr for s in points.scores]
    ax.errorbar(points.sizes, scores, errors, fmt="o-", color=LINE, ms=4, lw=1.2, label="leave-one-out of subsets")
    ahead = [round(n * AHEAD ** (j / 8)) for j in range(9)]
    forecast = [points.at(size) for size in ahead]
    middle = np.array([float(f) for f in forecast])
    wide = np.array([(f.stderr**2 + found.error.model**2) ** 0.5 for f in forecast])
    ax.plot(ahead, middle, "--", color=LINE, lw=1.2, label="forecast")
    ax.fill_between(ahead, middle - wide, np.minimum(middle + wide, 1), color=LINE, alpha=0.15, lw=0)
    ax.errorbar(
        [n], [float(found.score)], [found.score.stderr], fmt="s", color=MARK, ms=5, capsize=3, label="predicted"
    )
    if found.trial_score is not None:
        trial = found.trial_score
        ax.errorbar(
            [n * 1.08], [float(trial)], [trial.stderr], fmt="^", color=COLOURS[1], ms=5, capsize=3, label="trial"
        )
    ax.axhline(found.chance, color="#999999", lw=0.8, ls=":")
    ax.annotate("chance", (points.sizes[0], found.chance), fontsize=SMALL, color="#666666", va="bottom")
    ax.set_xscale("log", base=2)
    ticks = [points.sizes[0], points.sizes[len(points.sizes) // 2], n, ahead[-1]]
    ax.set_xticks(ticks, [f"{size:,}" for size in ticks])
    ax.set_xlabel("samples")
    ax.set_ylabel(found.measure)
    ax.legend(fontsize=SMALL, frameon=False, loc="best")
    return ax


def shares(found: Learnability, ax: Axes | None = None) -> Axes:
    """The share of the label in each band of modes, and what of it is learnt now."""
    ax = axes_or_new(ax, (4.8, 3.6))
    bands = found.shares.shown
    places = range(len(bands))
    for band, place in zip(bands, places, strict=True):
        ax.bar(place, 100 * float(band.share), color=LINE, alpha=0.35, width=0.7)
        ax.bar(place, 100 * max(float(band.learnt), 0.0), color=LINE, width=0.7)
        ax.errorbar(place, 100 * float(band.share), 100 * band.share.stderr, color="black", capsize=3, lw=1)
    ax.set_xticks(list(places), [band.name for band in bands], fontsize=SMALL)
    ax.set_xlabel("modes of the kernel")
    ax.set_ylabel("share of the label (%)")
    now, later, never = (100 * float(s) for s in (found.shares.now, found.shares.later, found.shares.never))
    ax.set_title(f"now {now:.0f}%, with more samples {later:.0f}%, not at all {never:.0f}%", fontsize=SMALL)
    return ax


def picture(found: Learnability) -> Figure:
    """Both, side by side."""
    figure = new_figure((9.6, 3.8))
    left, right = figure.subplots(1, 2)
    curve(found, left)
    shares(found, right)
    figure.suptitle(repr(found), fontsize=SMALL)
    return figure


def ranking_picture(places: Sequence[Place], one: Learnability) -> Figure:
    """Scores of several networks with their errors, the best on top."""
    figure = new_figure((6.4, 1.2 + 0.4 * len(places)))
    ax = figure.subplots()
    for row, place in enumerate(places):
        colour = LINE if place.like_best else COLOURS[4]
        ax.errorbar([float(place.score)], [row], xerr=[place.score.stderr], fmt="o", color=colour, capsize=3)
    ax.axvline(one.chance, color="#999999", lw=0.8, ls=":")
    ax.set_yticks(range(len(places)), [place.name for place in places])
    ax.invert_yaxis()
    ax.set_xlabel(f"expected {one.measure} (blue: cannot be told apart from the best; dotted: chance)")
    return figure
