"""All axes of a tensor, where the batch is not simply in front or the channels are split.

Windows are moved into the batch, heads are split off the channels, and sequences come before the batch. Each axis is
then a product of *atoms*: the batch, positions, and the channel or pieces of it. What such a tensor holds is the same
as before, so moments are left alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

CHANNEL = -1
BATCH = -2
FIRST_PIECE = -10  # piece i of the channel is atom −10 − i
Axes = tuple[tuple[int, ...], ...]


def piece(i: int) -> int:
    """The atom of a piece of the channel."""
    return FIRST_PIECE - i


def is_channel(atom: int) -> bool:
    return atom == CHANNEL or atom <= FIRST_PIECE


@dataclass(frozen=True)
class Layout:
    """The atoms of every axis, slowest first.

    >>> heads = Layout(((BATCH,), (piece(0),), (0,), (piece(1),)), pieces=(3, 8))  # (batch, heads, tokens, head size)
    >>> heads.shape(2, 24, (5,)), heads.together().standard()
    ((2, 3, 5, 8), None)
    >>> Layout(((BATCH,), (0,), (piece(0), piece(1))), pieces=(3, 8)).together().standard()
    ((0,), (-1,))
    """

    axes: Axes
    pieces: tuple[int, ...] = ()  # sizes of the pieces of the channel, slowest first; none: the channel is whole

    @property
    def atoms(self) -> list[int]:
        return [a for axis in self.axes for a in axis]

    def size(self, atom: int, batch: int, channels: int, sizes: Sequence[int]) -> int:
        """Of one atom."""
        if atom == BATCH:
            return batch
        if atom == CHANNEL:
            return channels
        return self.pieces[FIRST_PIECE - atom] if atom <= FIRST_PIECE else sizes[atom]

    def shape(self, batch: int, channels: int, sizes: Sequence[int]) -> tuple[int, ...]:
        """Of the tensor, with so many samples."""
        return tuple(math.prod(self.size(a, batch, channels, sizes) for a in axis) for axis in self.axes)

    def standard(self) -> Axes | None:
        """The axes without the batch, if it stands alone in front and the channel is whole."""
        return None if self.pieces or self.axes[0] != (BATCH,) else self.axes[1:]

    def without_batch(self, count: int) -> Axes:
        """The axes that rules see: those without the batch; if the channel is split, the channel and every position."""
        if self.pieces:
            return ((CHANNEL,), *((k,) for k in range(count)))
        bare = (tuple(a for a in axis if a != BATCH) for axis in self.axes)
        return tuple(atoms for axis, atoms in zip(self.axes, bare, strict=True) if axis != (BATCH,))

    def with_axes(self, axes: Axes) -> Layout | None:
        """With other atoms behind the axes, and the batch where it was; None if that does not fit."""
        found: list[tuple[int, ...]] = []
        left = list(axes)
        for axis in self.axes:
            if axis == (BATCH,):
                found.append(axis)
                continue
            if not left:
                return None
            atoms = left.pop(0)
            if BATCH in axis:
                if len(atoms) + 1 != len(axis):
                    return None
                at = axis.index(BATCH)
                atoms = (*atoms[:at], BATCH, *atoms[at:])
            found.append(atoms)
        return None if left or self.pieces else Layout(tuple(found))

    def in_order(self) -> bool:
        """Whether the pieces of the channel come in their order."""
        pieces = [a for a in self.atoms if a <= FIRST_PIECE]
        return pieces == sorted(pieces, reverse=True)

    def together(self) -> Layout:
        """With the channel whole again, where its pieces stand side by side (in whatever order)."""
        if not self.pieces:
            return self
        joined: list[tuple[int, ...]] = []
        for axis in self.axes:
            inside = [i for i, a in enumerate(axis) if a <= FIRST_PIECE]
            if inside and (len(inside) != len(self.pieces) or inside[-1] - inside[0] + 1 != len(inside)):
                return self
            joined.append((*axis[: inside[0]], CHANNEL, *axis[inside[-1] + 1 :]) if inside else axis)
        return Layout(tuple(joined))

    def read(self, tensor: Tensor, channels: int, sizes: Sequence[int]) -> Tensor:
        """A real tensor as (samples, channels, positions), float64."""
        batch = tensor.numel() // math.prod((channels, *sizes))
        atoms = self.atoms
        split = tensor.double().reshape([self.size(a, batch, channels, sizes) for a in atoms])
        mine = [i for i, a in sorted(enumerate(atoms), key=lambda pair: -pair[1]) if is_channel(a)]
        order = [atoms.index(BATCH), *mine, *(atoms.index(k) for k in range(len(sizes)))]
        return split.permute(order).reshape(batch, channels, -1)
