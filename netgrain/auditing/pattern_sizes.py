"""How much of some vectors lies in patterns of which size: octaves of frequency for images, entries of tables."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

AT_ONCE = 2**20  # numbers that are transformed together
MOST_ENTRIES = 64  # of a table, whose entries are parts of their own


def part_names(shape: Sequence[int], features: Sequence[str] = ()) -> list[str]:
    """The parts of an input space by name: sizes of patterns in images, the entries of a table; none otherwise.

    A pattern of frequency f (in cycles for each pixel) has the size 1/(2f): stripes of 1 pixel are the finest.

    >>> part_names((1, 8, 8))
    ['the mean colour', '4 pixels and more', '2 to 4 pixels', 'below 2 pixels']
    >>> part_names((2,), ["age", "height"])
    ['age', 'height']
    """
    if len(shape) == 3 and min(shape[1:]) >= 4:
        edges = _edges(min(shape[1:]))
        middle = [f"{low} to {2 * low} pixels" for low in edges[1:]]
        return ["the mean colour", f"{edges[0]} pixels and more", *middle, f"below {edges[-1]} pixels"]
    if len(shape) == 1 and shape[0] <= MOST_ENTRIES:
        return list(features) or [f"entry {i}" for i in range(shape[0])]
    return []


def _edges(side: int) -> list[int]:
    """Sizes at which one part ends and the next begins, descending: powers of two from a half of the side down to 2."""
    return [2**k for k in range(int(math.log2(side)) - 1, 0, -1)]


def part_energies(rows: Tensor, shape: Sequence[int]) -> Tensor:
    """Squared norm of each row (n, d) in each of the parts that `part_names` lists, (n, parts) float64.

    The parts are orthogonal, so they add up to ‖row‖².

    >>> part_energies(torch.ones(1, 16), (1, 4, 4)).round().tolist()  # 16 pixels of one colour
    [[16.0, 0.0, 0.0]]
    """
    if len(shape) == 1:
        return rows.double().square()
    h, w = shape[1:]
    fy, fx = torch.fft.fftfreq(h)[:, None], torch.fft.fftfreq(w)[None]
    frequency = (fy.square() + fx.square()).sqrt()
    limits = torch.tensor([1e-9, *(0.5 / edge for edge in _edges(min(h, w)))])
    # a frequency on an edge belongs to the coarser part
    place = torch.bucketize(frequency.flatten() * (1 - 1e-6), limits)
    parts = torch.nn.functional.one_hot(place, len(limits) + 1).double()  # (pixels, parts)
    pieces = [torch.zeros(0, len(limits) + 1, dtype=torch.float64)]
    for some in rows.split(max(1, AT_ONCE // rows.shape[1])):
        power = torch.fft.fft2(some.reshape(len(some), *shape), norm="ortho").abs().square().sum(1)
        pieces.append(power.double().flatten(1) @ parts)
    return torch.cat(pieces)
