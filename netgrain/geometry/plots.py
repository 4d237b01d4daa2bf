"""Pictures of a geometry: the matrix, its spectrum, its directions, and several networks side by side.

Every function draws on the axes it is given, or on a new figure, which belongs to pyplot where that is in use.
"""

from __future__ import annotations

import io
import math
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullLocator

from netgrain.runtime.figures import axes_or_new, forget, new_figure

if TYPE_CHECKING:
    from netgrain.geometry.spectrum import EigenvalueBlock
    from netgrain.geometry.symmetric import SymmetricMatrix
    from netgrain.geometry.value import Geometry

DIVERGING = "RdBu_r"  # white at zero; red and blue stay apart for every common colour blindness
COLOURS = ("#0072b2", "#009e73", "#cc79a7", "#56b4e9", "#999999", "#e69f00")  # of curves (Okabe and Ito)
LINE, MARK = COLOURS[0], "#d55e00"
MOST_COORDINATES = 1024  # an image of more is larger than a screen: a corner of it is shown instead
NULL = 1e-10  # an eigenvalue below this share of the largest is zero (as in netgrain.geometry.spectrum)
PRINTED = 256  # points along one side of a printed image, about
DPI = 150
SMALL, MEDIUM, LARGE = 8.0, 9.0, 10.5  # points


def matrix(G: SymmetricMatrix, ax: Axes | None = None) -> Axes:
    """G as an image, white at zero; of more than 1024 coordinates the first 1024.

    A printed point shows the mean of the entries below it, and the colours end where almost all of these means do: a
    few large entries do not bleach the rest (the colour bar is then pointed).
    """
    ax = axes_or_new(ax, (5.4, 4.6))
    entries = _corner(G, MOST_COORDINATES)
    if not entries.any():
        write(ax, "zero: there is nothing to draw", 30)
        return ax
    limit = _colour_limit(entries)
    shown = len(entries)
    image = ax.imshow(
        entries,
        cmap=DIVERGING,
        vmin=-limit,
        vmax=limit,
        extent=(0.5, shown + 0.5, shown + 0.5, 0.5),
        interpolation="antialiased",
        interpolation_stage="data",
    )
    beyond = float(np.abs(entries).max()) > limit
    beside = ax.inset_axes((1.04, 0.0, 0.045, 1.0))  # as high as the image itself, whatever the layout does
    bar = ax.figure.colorbar(image, cax=beside, extend="both" if beyond else "neither", extendfrac=0.03)
    power = math.floor(math.log10(limit)) if limit < 0.01 or limit >= 1000 else 0
    bar.formatter = FuncFormatter(lambda value, _: f"{value / 10.0**power:.3g}".replace("-", "−"))
    what = "entry of G" if shown < 2 * PRINTED else "G, mean of nearby entries"
    bar.set_label(what + (f"  (×10{_superscript(power)})" if power else ""), fontsize=MEDIUM)
    bar.ax.tick_params(labelsize=SMALL)
    ticks = [1, *(round(shown * i / 4) for i in (1, 2, 3, 4))] if shown >= 8 else range(1, shown + 1)
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_locator(FixedLocator(list(ticks)))
    ax.set_xlabel("input coordinate", fontsize=MEDIUM)
    ax.set_ylabel("input coordinate", fontsize=MEDIUM)
    ax.tick_params(labelsize=SMALL)
    limits = []
    if shown < G.d:
        limits.append(f"first {shown} of {G.d} coordinates")
    if G.truncated:
        limits.append(f"from {len(G.eigenvalues)} leading directions")
    ax.set_title("Average geometry G" + ("\n" + ", ".join(limits) if limits else ""), fontsize=LARGE)
    return ax


def spectrum(G: Geometry, ax: Axes | None = None, label: str | None = None, *, log_x: bool = False) -> Axes:
    """Eigenvalues over the largest against their index from 1, on a logarithmic axis.

    Eigenvalues of zero (at most 1e-10 of the largest) are counted in the legend instead of drawn. A mark shows how many
    directions carry 90 % of the trace. Call it again with the same axes and another label to compare.
    """
    earlier = 0 if ax is None else sum(line.get_linestyle() == "-" for line in ax.lines)
    ax = axes_or_new(ax, (5.4, 4.0))
    dress(ax, "Spectrum of G", "index of the direction")
    ax.set_ylabel("eigenvalue / largest", fontsize=MEDIUM)
    values = G.eigenvalues.numpy()
    if not len(values) or values[0] <= 0:
        ax.set_axis_off()
        ax.text(0.5, 0.5, "G = 0: there is no spectrum", ha="center", va="center", fontsize=LARGE)
        return ax
    relative = values / values[0]
    relative = relative[relative > NULL]
    index = np.arange(1, len(relative) + 1)
    colour = COLOURS[earlier % len(COLOURS)]
    marker = "o" if len(relative) <= 64 else ""
    ax.plot(index, relative, "-", color=colour, linewidth=1.8, marker=marker, markersize=4, label=label or "_nolegend_")
    enough = G.directions_for(0.9)
    if enough is not None and enough <= len(relative):
        ax.plot(
            [enough],
            [relative[enough - 1]],
            linestyle="none",
            marker="D",
            markersize=7,
            color=colour if earlier else MARK,
            markeredgecolor="white",
            label=f"90 % of the trace: {enough} of {G.d}",
            zorder=3,
        )
    if text := _rest(G, len(relative)):
        ax.axvspan(len(relative) + 0.5, G.d + 0.5, color="0.5", alpha=0.15, linewidth=0, label=text)
    ax.set_yscale("log")
    most = 1.03 * min(G.d, 4 * len(relative))  # a long row of zeros may leave the picture
    most = max(most, ax.get_xlim()[1]) if earlier else most
    ax.set_xlim(0.9 if log_x else 1 - 0.03 * most, most)
    if log_x:
        ax.set_xscale("log")
    lowest = min(0.3 * float(relative[-1]), 0.03)
    ax.set_ylim(min(lowest, ax.get_ylim()[0]) if earlier else lowest, 3)
    ax.yaxis.set_major_locator(LogLocator(numticks=8))
    ax.yaxis.set_minor_locator(NullLocator())
    if ax.get_legend_handles_labels()[1]:
        ax.legend(fontsize=SMALL, frameon=True, framealpha=0.9, edgecolor="none", handlelength=1.2)
    return ax


def directions(G: Geometry, k: int = 8) -> Figure:
    """The k leading and the k last eigenvectors: images, colours for three channels, lines for anything else.

    Each says its index and its eigenvalue's share of the trace. Inside a block of equal eigenvalues single eigenvectors
    are not defined, and the title names the block. When only leading directions are known, only those are shown. Where
    G is zero or no direction leads, the figure says so instead.
    """
    if text := _nothing_to_draw(G):
        return _only_text(text)
    k = max(1, min(k, G.d))
    rows = [_leading(G, k), *_last(G, min(k, G.d - k))]
    columns = min(8, k)
    lines = [math.ceil(len(vectors) / columns) for _, _, vectors in rows]
    figure = new_figure((1.5 * columns + 0.5, 1.85 * sum(lines) + 0.35 * len(rows)))
    parts = figure.subfigures(len(rows), 1, squeeze=False, height_ratios=lines).ravel()
    blocks = G.blocks()
    for part, count, (title, start, vectors) in zip(parts, lines, rows, strict=True):
        part.suptitle(title, fontsize=LARGE)
        grid = part.subplots(count, columns, squeeze=False).ravel()
        for ax, index, vector in zip(grid, range(start, start + len(vectors)), vectors, strict=False):
            draw_vector(ax, vector)
            ax.set_title(_name(G, blocks, index), fontsize=SMALL)
        for ax in grid[len(vectors) :]:
            ax.set_axis_off()
    return figure


def overview(geometries: dict[str, Geometry]) -> Figure:
    """Networks side by side: one column each, G as an image above its spectrum (figure 9 of the paper)."""
    count = len(geometries)
    figure = new_figure((3.9 * max(count, 1), 6.9))
    if not count:
        return figure
    grid = figure.subplots(2, count, squeeze=False, height_ratios=(1.25, 1))
    for i, (name, G) in enumerate(geometries.items()):
        above, below = grid[0, i], grid[1, i]
        matrix(G, above)
        extra = above.get_title().partition("\n")[2]
        above.set_title(f"{name}\n{extra}" if extra else name, fontsize=LARGE + 1.5, fontweight="bold")
        spectrum(G, below)
        below.set_title("")
    drawn = [ax for ax in grid[1] if ax.axison]
    if drawn:  # one scale for all spectra, so that steepness can be compared
        lowest = min(ax.get_ylim()[0] for ax in drawn)
        for ax in drawn:
            ax.set_ylim(lowest, 3)
    for ax in grid[:, 1:].ravel():
        ax.set_ylabel("")
    return figure


def png(figure: Figure) -> bytes:
    """The figure as a PNG file, the same bytes for the same figure: no date, no version inside."""
    file = io.BytesIO()
    with mpl.rc_context({"savefig.bbox": None}):
        figure.savefig(file, format="png", dpi=DPI, facecolor="white", metadata={"Software": None})
    forget(figure)
    return file.getvalue()


# --- inside -----------------------------------------------------------------------------------------------------------


def dress(ax: Axes, title: str, along: str) -> None:
    """Title, what runs along the axis, and the grid of a picture of curves."""
    ax.set_title(title, fontsize=LARGE)
    ax.set_xlabel(along, fontsize=MEDIUM)
    ax.tick_params(labelsize=SMALL)
    ax.grid(color="0.9", linewidth=0.6)
    ax.set_axisbelow(True)
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)


def _corner(G: SymmetricMatrix, most: int) -> np.ndarray:
    """The matrix, or its first rows and columns when it has more than `most`."""
    import torch

    if G.d <= most and not G.truncated:
        return G.matrix().numpy()
    shown = min(G.d, most)
    pieces = []
    for rows in torch.arange(shown).split(32):  # columns one after the other: the whole may not fit in memory
        unit = torch.zeros(len(rows), G.d, dtype=torch.float64)
        unit[torch.arange(len(rows)), rows] = 1
        pieces.append(G.matvec(unit)[:, :shown])
    return torch.cat(pieces).numpy()


def _colour_limit(entries: np.ndarray) -> float:
    size = np.abs(entries)
    largest = float(size.max(initial=0.0))
    if largest == 0:
        return 1.0
    cell = max(1, len(entries) // PRINTED)  # entries that share a printed point
    side = len(entries) // cell
    whole = entries[: side * cell, : side * cell]
    means = np.abs(whole.reshape(side, cell, side, cell).mean((1, 3)))
    present = means[means > 1e-3 * means.max()]
    most = float(np.percentile(present, 99)) if present.size else largest
    return largest if most > largest / 2 else most


def _superscript(power: int) -> str:
    return str(power).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))


def _rest(G: Geometry, drawn: int) -> str:
    """What is to be said about the eigenvalues that are not drawn."""
    missing = G.d - drawn
    if not missing:
        return ""
    if sum(block.size for block in G.blocks()) < G.d:
        return f"{missing} more are not known"
    core = getattr(G.form, "core", G.form)
    rows = getattr(core, "rows", None)
    if G.members and rows is not None and drawn == len(rows) * getattr(G.form, "copies", 1):
        return f"{missing} at zero: only {len(rows)} gradients sampled"
    return f"{missing} at zero (null space)"


def _nothing_to_draw(G: Geometry) -> str:
    """Why there are no directions to draw; empty if there are."""
    if not G.trace.value > 0:
        return "G = 0: the network does not react to its input"
    return "" if G.flat is None else str(G.flat)


def _only_text(text: str) -> Figure:
    figure = new_figure((6.5, 1.4))
    write(figure.add_subplot(), text)
    return figure


def write(ax: Axes, text: str, width: int = 70) -> None:
    """A sentence in the place of a picture."""
    ax.set_axis_off()
    ax.text(0.5, 0.5, textwrap.fill(text, width), ha="center", va="center", fontsize=MEDIUM, transform=ax.transAxes)


Row = tuple[str, int, np.ndarray]  # title, index of the first vector, vectors (k, *input_shape)


def _leading(G: Geometry, k: int) -> Row:
    if G.full_trace is not None:
        k = min(k, len(G.eigenvalues))
    return "Leading directions: what the network reacts to most", 0, G.directions(k).numpy()


def _last(G: Geometry, k: int) -> list[Row]:
    from netgrain.runtime.errors import NetgrainError

    if k < 1:
        return []
    try:
        vectors = G.directions(k, bottom=True).numpy()
    except NetgrainError:  # only the leading ones are known, or it is too large for a whole spectrum
        return []
    return [("Last directions: what it reacts to least", G.d - k, vectors)]


def _name(G: Geometry, blocks: Sequence[EigenvalueBlock], index: int) -> str:
    """Index from 1 and share of the trace, or the block it lies in."""
    total = G.trace.value
    top = blocks[0].value if blocks else 0.0
    block = next((b for b in blocks if b.start <= index < b.stop), None)
    if block is None:
        return f"{index + 1}"
    if block.value <= NULL * top:
        share = "at zero"
    else:
        share = f"{_percent(block.value / total)}{' each' if block.size > 1 else ''}"
    if block.size == 1:
        return f"{index + 1}\n{share}"
    return f"{block.start + 1}–{block.stop}, one block\n{share}"


def _percent(share: float) -> str:
    """A share with two digits.

    >>> _percent(0.1234), _percent(0.00042), _percent(3.1e-9)
    ('12 %', '0.042 %', '3.1·10⁻⁷ %')
    """
    value = 100 * share
    if 0 < value < 0.001:
        digits, _, power = f"{value:.1e}".partition("e")
        return f"{digits}·10{_superscript(int(power))} %"
    return f"{value:.0f} %" if value >= 10 else f"{value:.2g} %"


def draw_vector(ax: Axes, vector: np.ndarray) -> None:
    limit = float(np.abs(vector).max()) or 1.0
    picture = _picture(vector)
    if picture is None:
        series = vector.reshape(-1, vector.shape[-1]) if vector.ndim == 2 else vector.reshape(1, -1)
        places = np.arange(1, series.shape[1] + 1)
        for i, values in enumerate(series):
            if len(series) == 1 and len(values) <= 64:
                ax.bar(places, values, width=0.8, color=np.where(values < 0, LINE, MARK))
            else:
                ax.plot(places, values, linewidth=1.0, color=COLOURS[i % len(COLOURS)])
        ax.axhline(0, color="0.4", linewidth=0.6)
        ax.set_ylim(-1.1 * limit, 1.1 * limit)
        ax.set_box_aspect(1)
    elif picture.ndim == 3:
        ax.imshow(np.clip(0.5 + picture / (2 * limit), 0, 1), interpolation="nearest")
    else:
        ax.imshow(picture, cmap=DIVERGING, vmin=-limit, vmax=limit, interpolation="nearest")
    ax.set_xticks([])
    ax.set_yticks([])


def _picture(vector: np.ndarray) -> np.ndarray | None:
    """The vector as (H, W) or (H, W, 3); channels side by side when there are two or more than three; None: a line."""
    if vector.ndim == 2 and min(vector.shape) >= 8:
        return vector
    if vector.ndim != 3:
        return None
    if len(vector) == 3:
        return vector.transpose(1, 2, 0)
    return np.concatenate(list(vector), axis=1)
