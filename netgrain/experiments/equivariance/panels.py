"""The panels of these studies' pictures: axes and legends, bands and marks with errors, levels and changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from torch import Tensor

from netgrain.experiments.equivariance.studies import HUES, METHODS, NETS, Seeds, written
from netgrain.geometry.estimate import Estimate
from netgrain.geometry.plots import LARGE, MEDIUM, SMALL

COLOURS = {
    "G-CNN, direct": "#0072b2",
    "G-CNN, semidirect": "#009e73",
    "G-CNN": "#0072b2",
    "CNN": "#e69f00",
    "FC": "#999999",
}
CHANGE = "initialisation → end, mean ± standard error"


def picture(width: float, height: float, title: str) -> Figure:
    """An empty figure with its title."""
    figure = Figure(figsize=(width, height), layout="constrained")
    figure.suptitle(title, fontsize=LARGE + 1)
    return figure


def labelled(ax: Axes, title: str, x: str = "", y: str = "") -> None:
    """A tidy panel with its title and the names of its axes."""
    ax.set_title(title, fontsize=LARGE - 1)
    ax.set_xlabel(x, fontsize=MEDIUM)
    ax.set_ylabel(y, fontsize=MEDIUM)
    ax.tick_params(labelsize=SMALL)
    ax.grid(color="0.92", linewidth=0.6)
    ax.set_axisbelow(True)
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)


def legend(ax: Axes, **where: Any) -> None:
    """The legend of a panel, without a frame."""
    ax.legend(fontsize=SMALL, frameon=False, **where)


def key(colour: str, label: str, style: str = "-") -> Line2D:
    """An entry of a legend: a line, or with a letter of matplotlib a mark (open if the colour is white)."""
    if style in "os":
        return Line2D([], [], marker=style, color="none", mec="0.3", mfc=colour, ms=5, label=label)
    return Line2D([], [], color=colour, lw=2 if style == "-" else 1, ls=style, label=label)


def key_of_nets(ax: Axes, *extra: Line2D, **where: Any) -> None:
    """The legend that says which colour is which network, and what open and filled marks are."""
    nets = [key(HUES[n], name) for n, name in NETS.items()]
    legend(ax, handles=[*nets, key("white", "initialisation", "o"), key("0.3", "end", "o"), *extra], **where)


def plain_ticks(ax: Axes, which: str, ticks: Sequence[int]) -> None:
    """Ticks at these whole numbers, written out, as far as they are inside the axis."""
    low, high = getattr(ax, f"get_{which}lim")()
    inside = [t for t in ticks if low <= t <= high * 1.01]
    getattr(ax, f"set_{which}ticks")(inside, [str(t) for t in inside])
    ax.minorticks_off()


def step_axis(ax: Axes, last: int) -> None:
    """Steps of a training from 0 to the last, logarithmic from 10 on."""
    ax.set_xscale("symlog", linthresh=10)
    ax.set_xlim(0, last)
    plain_ticks(ax, "x", [t for t in (0, 10, 100, 1000, 10_000) if 2 * t <= last] + [last])


def mean_mark(ax: Axes, x: float, y: float, *, colour: str, filled: bool = True, size: float = 5.5) -> None:
    """A mean with its standard error; of x and y the one that is an `Estimate`."""
    errors: dict[str, Any] = {name: v.stderr for name, v in (("xerr", x), ("yerr", y)) if isinstance(v, Estimate)}
    fill = colour if filled else "white"
    ax.errorbar(x, y, **errors, fmt="o", ms=size, capsize=2.5, color=colour, mfc=fill, elinewidth=1.2, zorder=3)


def spread(at: float, count: int, width: float) -> list[float]:
    """Places around one, so that the points of all draws can be seen."""
    return [at + width * ((i * 7) % 9 - 4) / 4 for i in range(count)]


def band(ax: Axes, x: Tensor, curves: Tensor, label: str, *, colour: str | None = None, dashed: bool = False) -> None:
    """The mean over seeds of curves (seeds, records), with a band of one standard error."""
    there = (~curves.isnan()).sum(0).clamp(min=1)
    centre = (curves.nansum(0) / there).numpy()
    spread = ((curves - torch.from_numpy(centre)).square().nansum(0) / (there - 1).clamp(min=1)).sqrt()
    error = (spread / there.sqrt()).numpy()
    colour = colour or COLOURS.get(label, "#cc79a7")
    at = x.numpy()
    ax.plot(at, centre, color=colour, lw=1.6, ls="--" if dashed else "-", label=label)
    ax.fill_between(at, centre - error, centre + error, color=colour, alpha=0.2, lw=0)


def change_in_per_cent(curves: Tensor) -> Tensor:
    """Change of curves (seeds, records) from their first record."""
    return 100 * (curves / curves[:, :1] - 1)


def levels_and_changes(
    rows: Mapping[str, Mapping[str, Tensor]],  # title of the measure → network → (seeds, records)
    steps: Tensor,
    title: str,
    *,
    x: str = "step of normalised gradient descent",
    lines: Mapping[str, Mapping[str, float]] | None = None,  # title of the measure → label → a level known beforehand
) -> Figure:
    """For each measure a row: its level, and its change from initialisation in per cent."""
    figure = picture(9.6, 2.55 * len(rows) + 0.5, title)
    axes: Any = figure.subplots(len(rows), 2, squeeze=False)
    for (measure, curves), (level, change) in zip(rows.items(), axes, strict=True):
        for net, values in curves.items():
            band(level, steps, values, net)
            band(change, steps, change_in_per_cent(values), net)
        for label, value in (lines or {}).get(measure, {}).items():
            level.axhline(value, color="0.25", lw=0.9, ls=":")
            at_the_edge = {"xycoords": ("axes fraction", "data"), "ha": "right", "va": "bottom"}
            level.annotate(label, (1, value), fontsize=SMALL, color="0.25", **at_the_edge)
        change.axhline(0, color="0.4", lw=0.8)
        labelled(level, measure, x, "level")
        labelled(change, "change from initialisation", x, "per cent")
        for ax in (level, change):
            step_axis(ax, int(steps[-1]))
        legend(level)
    return figure


def draw_trainings(
    axes: Sequence[Axes],
    trained: Mapping[tuple[str, str], Seeds],  # method, network
    number: str,  # "ratio" or "real"
    name: str,
    *,
    depth: int,
    level: float | None = None,
) -> None:
    """A row of panels: the way by each method, one thin line per seed, and the changes by all; a known level dashed."""
    *ways, changes = axes
    for ax, method in zip(ways, dict.fromkeys(method for method, _ in trained), strict=True):
        _draw_way(ax, {net: trained[method, net] for net in NETS}, row=1 if number == "ratio" else 2)
        ax.sharey(ways[0])
        growth = "growth of the weights, log |w| / |w₀|"
        labelled(ax, f"depth {depth}, {METHODS[method]}", growth, name if ax is ways[0] else "")
    rows = [(f"{NETS[net]}, {method}", net, outcomes) for (method, net), outcomes in trained.items()]
    draw_changes(changes, rows, number, name)
    if level is not None:
        for draw in (changes.axvline, *(ax.axhline for ax in ways)):
            draw(level, color="black", ls="--", lw=1)


def _draw_way(ax: Axes, trained: Mapping[str, Seeds], row: int) -> None:
    longest = 0.0
    for net, outcomes in trained.items():
        for outcome in outcomes:
            curve = outcome.arrays["curve"].numpy()
            longest = max(longest, float(curve[0, -1]))
            ax.plot(curve[0], curve[row], color=HUES[net], lw=1.1, alpha=0.6)
            for end, fill in ((0, "white"), (-1, HUES[net])):
                ax.plot(curve[0, end], curve[row, end], "o", color=fill, mec=HUES[net], ms=3.5, zorder=3)
    if longest > 20:
        ax.set_xscale("symlog", linthresh=1.0, linscale=1.2)
        plain_ticks(ax, "x", (0, 1, 10, 100, 1000, 10_000))


def draw_changes(
    ax: Axes,
    rows: Sequence[tuple[str, str, Seeds]],  # label, network, outcomes
    number: str,
    name: str,
) -> None:
    """From the level at initialisation (open) to the level at the end (filled): means over seeds, standard errors."""
    for at, (_, net, outcomes) in enumerate(rows):
        start, end = outcomes.mean(f"start_{number}"), outcomes.mean(number)
        arrow = {"arrowstyle": "-|>", "color": HUES[net], "lw": 1.2, "alpha": 0.7}
        ax.annotate("", (end.value, at), (start.value, at), arrowprops=arrow)
        mean_mark(ax, start, at, colour=HUES[net], filled=False)
        mean_mark(ax, end, at, colour=HUES[net])
        change = outcomes.change(number)
        above(ax, (start.value + end.value) / 2, at, ("+" if change > 0 else "") + written(change).replace("-", "−"))
    ax.set_yticks(range(len(rows)), [label for label, _, _ in rows])
    ax.set_ylim(len(rows) - 0.5, -0.6)
    labelled(ax, CHANGE, name)


def above(ax: Axes, x: float, y: float, text: str) -> None:
    """Small words above a mark."""
    ax.annotate(text, (x, y), (0, 5), textcoords="offset points", ha="center", fontsize=SMALL - 1.5, color="0.3")
