"""Parts of the input space by the size of the pattern: bands of spatial frequency, or the features of a table.

A pattern has the size of its finest wave: exp(2πi (f·x + g·y)) has the size 1 / max(|f|, |g|) in pixels, which is 2 for
a chessboard. So the patterns finer than 4 pixels are the ones that images of half the resolution cannot hold. Bands are
octaves, of every channel together; they are orthogonal and add up to the input space.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Literal

import torch
from torch import Tensor

COARSEST = 32  # pixels: from here on patterns form one band
SQUARE = 8  # entries: as many rows as columns, at least so many, are an image without an axis of channels
CHANNELS = 4  # a last axis of at most so many entries behind a larger first one holds channels
AT_ONCE = 2**22  # numbers that are transformed in one go


@dataclass(frozen=True, eq=False)
class Bands:
    """Orthogonal parts of the space of inputs of one shape, and the energy of vectors in each.

    kind: "image", "signal" (channels and time) or "table". ends: sizes from … to below …, in pixels or time steps; the
    last is open and holds the constants, too. None for a table, where every feature is a part of its own.
    """

    kind: Literal["image", "signal", "table"]
    shape: tuple[int, ...]  # of one input
    names: tuple[str, ...]
    ends: tuple[tuple[float, float | None], ...] | None = None

    def __len__(self) -> int:
        return len(self.names)

    @property
    def unit(self) -> str:
        return {"image": "px", "signal": "steps", "table": "features"}[self.kind]

    @cached_property
    def _spatial(self) -> tuple[int, ...]:
        """The axes of pixels or time, those of a batch counted from 0."""
        if self.kind == "signal":
            return (2,)
        return (1, 2) if len(self.shape) == 2 or _channels_last(self.shape) else (2, 3)

    @cached_property
    def _places(self) -> tuple[Tensor, Tensor]:
        """For each half-spectrum coefficient its band, and how many coefficients of the whole spectrum it is."""
        sizes = [(1, *self.shape)[axis] for axis in self._spatial]
        *others, last = sizes
        finest = torch.fft.rfftfreq(last, dtype=torch.float64)
        counts = torch.full_like(finest, 2)
        counts[0] = 1
        if last % 2 == 0:
            counts[-1] = 1
        for size in others:
            finest = torch.maximum(torch.fft.fftfreq(size, dtype=torch.float64).abs()[:, None], finest)
            counts = counts.expand_as(finest)
        assert self.ends is not None
        # a size at an edge belongs to the coarser band
        edges = torch.tensor([1 / low for low, _ in self.ends[:0:-1]], dtype=torch.float64)
        return len(self.ends) - 1 - torch.bucketize(finest * (1 - 1e-9), edges), counts

    @cached_property
    def dims(self) -> Tensor:
        """How many dimensions each part has: (bands,), they add up to d."""
        if self.kind == "table":
            return torch.ones(len(self), dtype=torch.float64)
        band, counts = self._places
        channels = torch.tensor(self.shape).prod() // torch.tensor([self.shape[a - 1] for a in self._spatial]).prod()
        empty = torch.zeros(len(self), dtype=torch.float64)
        return empty.index_add_(0, band.flatten(), counts.flatten()) * channels

    def energies(self, V: Tensor) -> Tensor:
        """‖P_b v‖² of vectors V (n, *shape) in each part, (n, bands) in float64; rows add up to ‖v‖².

        Of the stripes (1, −1, 1, −1) all energy is in waves of 2 steps, of a constant all is in the last band:

        >>> bands = bands_of((1, 4))
        >>> bands.names, bands.energies(torch.tensor([[[1.0, -1, 1, -1]], [[1.0, 1, 1, 1]]])).tolist()
        (('2–4 steps', '4 steps and coarser'), [[4.0, 0.0], [0.0, 4.0]])
        """
        if self.kind == "table":
            return V.reshape(len(V), -1).double().square()
        band, counts = self._places
        owners = torch.zeros(band.numel(), len(self), dtype=torch.float64)
        owners[torch.arange(band.numel()), band.flatten()] = counts.flatten()
        found = []
        for some in V.split(max(1, AT_ONCE // V[0].numel())):
            waves = torch.fft.rfftn(
                some.float() if some.dtype == torch.float16 else some, dim=self._spatial, norm="ortho"
            )
            power = (waves.real.square() + waves.imag.square()).movedim(self._spatial, tuple(range(-band.dim(), 0)))
            found.append(power.reshape(len(some), -1, band.numel()).sum(1).double() @ owners)
        return torch.cat(found) if found else torch.zeros(0, len(self), dtype=torch.float64)


def bands_of(shape: Sequence[int], features: Sequence[str] = ()) -> Bands | None:
    """Bands for images (channels, rows, columns), signals (channels, time) and tables; None for any other input.

    >>> bands_of((3, 32, 32)).names
    ('2–4 px', '4–8 px', '8–16 px', '16–32 px', '32 px and coarser')
    """
    shape = tuple(shape)
    if features or len(shape) == 1:
        d = int(torch.tensor(shape).prod())
        return Bands("table", shape, tuple(features) or tuple(f"feature {i}" for i in range(d)))
    if len(shape) not in (2, 3):
        return None
    pixels = len(shape) == 3 or shape[0] == shape[1] >= SQUARE
    kind: Literal["image", "signal"] = "image" if pixels else "signal"
    side = max(shape[:2] if _channels_last(shape) else shape[1:])
    if side < 4:
        return None  # one band only
    unit = "px" if kind == "image" else "steps"
    edges = [2.0]
    while 2 * edges[-1] <= min(side, COARSEST):
        edges.append(2 * edges[-1])
    ends: list[tuple[float, float | None]] = [*pairwise(edges), (edges[-1], None)]
    names = [f"{low:g} {unit} and coarser" if high is None else f"{low:g}–{high:g} {unit}" for low, high in ends]
    return Bands(kind, shape, tuple(names), tuple(ends))


def _channels_last(shape: tuple[int, ...]) -> bool:
    return len(shape) == 3 and shape[2] <= CHANNELS < shape[0]
