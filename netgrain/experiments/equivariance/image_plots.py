"""Pictures of the image experiments: bands over seeds, levels and changes from initialisation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from netgrain.experiments.equivariance.studies import tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


COLOURS = {
    "G-CNN, direct": "#0072b2",
    "G-CNN, semidirect": "#009e73",
    "G-CNN": "#0072b2",
    "CNN": "#e69f00",
    "FC": "#999999",
}


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


def labelled(ax: Axes, title: str, x: str, y: str) -> None:
    """A tidy panel with its title and the names of its axes."""
    ax.set_title(title, fontsize=9.5, loc="left")
    ax.set_xlabel(x, fontsize=8.5)
    ax.set_ylabel(y, fontsize=8.5)
    tidy(ax)


def levels_and_changes(
    rows: Mapping[str, Mapping[str, Tensor]],  # title of the measure → network → (seeds, records)
    steps: Tensor,
    title: str,
    *,
    x: str = "step of normalised gradient descent",
    lines: Mapping[str, Mapping[str, float]] | None = None,  # title of the measure → label → a level known beforehand
) -> Figure:
    """For each measure a row: its level, and its change from initialisation in per cent."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.6, 2.55 * len(rows) + 0.5), layout="constrained")
    axes: Any = figure.subplots(len(rows), 2, squeeze=False)
    for (measure, curves), (level, change) in zip(rows.items(), axes, strict=True):
        for net, values in curves.items():
            band(level, steps, values, net)
            band(change, steps, 100 * (values / values[:, :1] - 1), net)
        for label, value in (lines or {}).get(measure, {}).items():
            level.axhline(value, color="0.25", lw=0.9, ls=":")
            level.annotate(
                label,
                (1, value),
                xycoords=("axes fraction", "data"),
                fontsize=7.5,
                ha="right",
                va="bottom",
                color="0.25",
            )
        change.axhline(0, color="0.4", lw=0.8)
        labelled(level, measure, x, "level")
        labelled(change, "change from initialisation", x, "per cent")
        for ax in (level, change):
            ax.set_xscale("symlog", linthresh=10)
            ax.set_xlim(0, float(steps[-1]))
            ticks = [t for t in (0, 10, 100, 1000, 10000) if 2 * t <= float(steps[-1])] + [int(steps[-1])]
            ax.set_xticks(ticks, [str(t) for t in ticks])
            ax.minorticks_off()
        level.legend(fontsize=8, frameon=False)
    figure.suptitle(title, fontsize=10.5)
    return figure
