"""How figures 2 and 8 draw a network on its way: its correlations above, its change by index below."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from netgrain.experiments.grain.change_by_index import draw_change
from netgrain.experiments.grain.courses import EARLY, STYLES, Course
from netgrain.experiments.grain.drawing import GREY, band, legend_below, panels
from netgrain.experiments.grain.grains import COLOURS

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def draw_courses(title: str, courses: Mapping[str, Course]) -> Figure:
    figure, axes = panels(
        f"{title}\n"
        "above: different members only, ± 1 standard error; dotted: plug-in, as in the paper; dashed: the start\n"
        "below: change along the eigenvectors u of G, in bands of indices; full: absolute, dashed: relative to uᵀGu",
        (4.9 * len(courses), 8.6), rows=2, columns=len(courses), fontsize=11,
    )  # fmt: skip
    above, below = axes[: len(courses)], axes[len(courses) :]
    for ax, (network, c) in zip(above, courses.items(), strict=True):
        right = _correlations(ax, network, c)
        if ax is not above[-1]:
            right.set_yticklabels([])
        else:
            right.set_ylabel("accuracy, %", color="#009e73")
    for ax, (network, c) in zip(below, courses.items(), strict=True):
        draw_change(ax, c.change, COLOURS[network], network)
        if c.beside is not None:
            draw_change(ax, c.beside, GREY, "MLP along the same u", absolute_only=True)
        ax.legend(fontsize=8, frameon=False, loc="lower left")
    for ax in (*above[1:], *below[1:]):
        ax.set_ylabel("")
    handles = [h for a in (above[0], right) for h in a.get_legend_handles_labels()[0]]
    legend_below(figure, handles, columns=len(handles))
    return figure


def _correlations(ax: Any, network: str, c: Course) -> Any:
    for key, colour in STYLES.items():
        band(ax, c.steps, c.corr[key], alpha=0.18, color=colour, lw=1.8, label=f"Corr(Gᵗ, {key})")
        ax.plot(c.steps, [v.plug_in for v in c.corr[key]], color=colour, lw=0.9, ls=":")
    if c.labels is not None:
        ax.plot(c.steps, c.labels.random, color="#882255", lw=1.4, ls="-.", label="Corr(Gᵗ, GSG), random labels")
    ax.axhline(c.corr["GSG"][0], color=STYLES["GSG"], lw=0.7, ls="--")
    ax.axvspan(1, EARLY, color="#000000", alpha=0.04, lw=0)
    right = ax.twinx()
    for part, curve, style in (("train", c.train, "-"), ("test", c.test, "--")):
        right.plot(c.steps, [v.value for v in curve], style, color="#009e73", lw=1.2, label=f"{part} accuracy")
    right.set_ylim(30, 102)
    ax.set(ylim=(-0.02, 1.05), xlabel="step", ylabel="correlation")
    slope = "" if math.isnan(c.slope.stderr) else f", slope at 0: {c.slope.value:.2g} ± {c.slope.stderr:.1g}"
    ax.set_title(f"{network}, {c.members} members{slope}", fontsize=11)
    return right
