"""The Cayley table of a group as a picture: a quilt of coloured patches, one colour for every element."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes

from netgrain.groups.axioms import Ints
from netgrain.groups.group import Group
from netgrain.groups.structure import Direct, Semidirect
from netgrain.runtime.figures import axes_or_new

MOST = 1024  # elements drawn along a side; of a larger group every k-th
NAMED = 24  # elements that still have room for their names
TILES = 32  # cosets that still have room for lines between them
PALETTE = "viridis"


def coset_order(group: Group) -> tuple[Ints, int]:
    """Elements coset by coset and the size of a coset: N × {h} for N ⋊ H, {n} × H for a direct product."""
    s, every = group.structure, np.arange(group.order)
    if isinstance(s, Semidirect):
        return every.reshape(s.normal.order, s.acting.order).T.ravel(), s.normal.order
    if isinstance(s, Direct):
        return every, s.right.order
    return every, group.order


def quilt(group: Group, ax: Axes | None = None) -> Axes:
    """Row a, column b has the colour of ab; elements stand coset by coset, so that the quotient shows as tiles.

    Of a group of more than 1024 elements every k-th is drawn; no table is made.
    """
    ax = axes_or_new(ax, (6.4, 5.6))
    order, tile = coset_order(group)
    step = -(-group.order // MOST)
    shown = order[::step]
    place = np.argsort(order)
    image = ax.imshow(
        place[group.structure.multiply(shown[:, None], shown[None, :])],
        cmap=PALETTE,
        vmin=0,
        vmax=max(group.order - 1, 1),
        interpolation="nearest" if len(shown) <= 512 else "antialiased",
        extent=(0, group.order, group.order, 0),
    )
    _ticks(ax, group, order, tile)
    ax.set_xlabel("b", fontsize=9)
    ax.set_ylabel("a", fontsize=9, rotation=0, labelpad=8)
    notes = [
        f"cosets of {tile}" if tile < group.order <= TILES * tile else "",
        f"one element in {step} drawn" if step > 1 else "",
    ]
    ax.set_title(", ".join([f"{group.name}: ab", *filter(None, notes)]), fontsize=10.5)
    bar = ax.figure.colorbar(image, ax=ax, pad=0.02, aspect=28)
    bar.set_label("place of ab in the order of the axes", fontsize=9)
    bar.ax.tick_params(labelsize=8)
    bar.ax.invert_yaxis()
    return ax


def _ticks(ax: Axes, group: Group, order: Ints, tile: int) -> None:
    """Names of elements or of cosets where there is room for them, else numbers; white lines between cosets."""
    n = group.order
    cosets = n // tile
    if 1 < cosets <= TILES:
        for edge in range(tile, n, tile):
            for line in (ax.axhline, ax.axvline):
                line(edge, color="white", linewidth=0.8 if cosets <= 16 else 0.4)
    if n <= NAMED:
        at, names = np.arange(n) + 0.5, [group.names[i] for i in order]
    elif 1 < cosets <= TILES // 2:
        at = np.arange(cosets) * tile + tile / 2
        names = [_coset(group, int(i)) for i in order[::tile]]
    else:
        at = np.unique(np.linspace(0, n, 5).round())
        names = [f"{value:.0f}" for value in at]
    turned = 90 if max(map(len, names)) > 3 and len(names) > 8 else 0
    ax.set_xticks(at, names, fontsize=8, rotation=turned)
    ax.set_yticks(at, names, fontsize=8)
    ax.xaxis.tick_top()
    ax.xaxis.set_label_position("top")
    ax.tick_params(length=0 if n <= NAMED or 1 < cosets <= TILES // 2 else 3)


def _coset(group: Group, first: int) -> str:
    """Nh, where the quotient is known by its first element (e, h) → h, the last part of its name."""
    if isinstance(group.structure, Semidirect):
        name = group.names[first]
        last = name.strip("()").split(",")[-1]
        return "N" if first == 0 else f"N({last})" if last.startswith("-") else f"N{last}"
    return group.names[first]
