"""Pictures of a limit: singular values along the way, the predictor in real and Fourier space before and after."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from netgrain.equivariant.parametrisation import Array
from netgrain.equivariant.penalties import BlockTransform
from netgrain.equivariant.solution import Limit

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

KEPT, VANISHED = "#0072b2", "#b9b9b9"
FLOOR = 1e-8
LINEAR_UP_TO = 5.0  # of the log-norm axis
STRIPS = ("|β| at initialisation", "|β| at the limit", "|β̂| at initialisation", "|β̂| at the limit")


def limit_figure(found: Limit, fourier: BlockTransform) -> Figure:
    """Left: singular values of β̂ over log-norm time. Right: |β| and |β̂| before and after, as strips."""
    from netgrain.runtime.figures import new_figure

    figure = new_figure((11.5, 4.6))
    parts: Any = figure.subfigures(1, 2, width_ratios=(1, 1.25))
    left, right = parts
    decay(found, fourier, left.add_subplot())
    axes = right.subplots(4, 1)
    image = None
    for ax, title, values in zip(axes, STRIPS, _strips(found, fourier), strict=True):
        image = ax.imshow(
            values[None] / values.max(), aspect="auto", cmap="magma", vmin=0, vmax=1, interpolation="none"
        )
        ax.set_yticks([])
        ax.tick_params(labelsize=8)
        ax.set_title(title, fontsize=9, loc="left", pad=3)
    axes[1].set_xlabel("element of the group", fontsize=8)
    axes[3].set_xlabel("Fourier coefficient, irrep after irrep", fontsize=8)
    if image is not None:
        bar = right.colorbar(image, ax=list(axes), fraction=0.03, pad=0.02)
        bar.set_label("share of the largest", fontsize=8)
        bar.ax.tick_params(labelsize=8)
    figure.suptitle(
        f"{found.net} on {found.group}, depth {found.depth}, {found.points} points: "
        f"rank {found.weighted_rank} of {len(found.beta)}, KKT residual {found.kkt_residual:.0e}",
        fontsize=10.5,
    )
    return figure


def decay(found: Limit, fourier: BlockTransform, ax: Axes | None = None) -> Axes:
    """Singular values of β̂(ρ), each irrep's, for |β|₂ = 1, over log |w|; those that survive in blue."""
    from netgrain.runtime.figures import axes_or_new

    ax = axes_or_new(ax, (5.2, 4.2))
    stacks = fourier.singular_values(found.trajectory.betas)
    values = torch.cat([s.flatten(1) for s in stacks], 1).numpy()  # (records, values)
    shown = np.maximum(values, FLOOR)
    times = found.trajectory.log_norms.numpy()
    alive = values[-1] > 1e-3 * values[-1].max()
    for chosen, colour, width, name in ((~alive, VANISHED, 0.8, "vanish"), (alive, KEPT, 1.4, "survive")):
        if chosen.any():
            lines = ax.plot(times, shown[:, chosen], color=colour, lw=width)
            lines[0].set_label(f"{int(chosen.sum())} {name}")
    ax.set_yscale("log")
    ax.set_ylim(FLOOR, 3 * float(values.max()))
    ax.set_xscale("symlog", linthresh=LINEAR_UP_TO, linscale=2.0)
    ax.set_xlim(float(times.min()), float(times.max()))
    ticks = [t for t in (0, 1, 2, 3, 4, 5, 10, 100, 1000, 10000) if times.min() <= t <= times.max() * 1.01]
    ax.set_xticks(ticks, [str(t) for t in ticks])
    ax.minorticks_off()
    ax.set_xlabel("log-norm of the weights, log |w|", fontsize=9)
    ax.set_ylabel("singular values of β̂(ρ), |β|₂ = 1", fontsize=9)
    ax.tick_params(labelsize=8)
    ax.legend(fontsize=8, frameon=False, loc="center right")
    return ax


def _strips(found: Limit, fourier: BlockTransform) -> list[Array]:
    """|β| and |β̂| (irreps flattened) of the first and the last predictor."""
    betas = (found.initial, found.beta)
    spectra = [torch.cat([b.reshape(-1) for b in fourier.per_block(fourier.blocks(beta))]) for beta in betas]
    return [values.abs().numpy() for values in (*betas, *spectra)]
