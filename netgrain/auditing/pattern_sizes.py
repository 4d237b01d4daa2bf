"""How much of some vectors lies in patterns of which size: the bands of `bands_of`, or the entries of a small table."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from netgrain.auditing.bands import Bands, bands_of

MOST_ENTRIES = 64  # of a table, whose entries are parts of their own


def part_names(shape: Sequence[int], features: Sequence[str] = ()) -> list[str]:
    """The parts of an input space by name: sizes of patterns in images, the entries of a table; none otherwise.

    >>> part_names((1, 8, 8))
    ['2–4 px', '4–8 px', '8 px and coarser']
    >>> part_names((2,), ["age", "height"])
    ['age', 'height']
    """
    bands = _bands(shape, features)
    return [] if bands is None else list(bands.names)


def part_energies(rows: Tensor, shape: Sequence[int]) -> Tensor:
    """Squared norm of each row (n, d) in each of the parts that `part_names` lists, (n, parts) float64.

    The parts are orthogonal, so they add up to ‖row‖².

    >>> part_energies(torch.ones(1, 16), (1, 4, 4)).tolist()  # 16 pixels of one colour
    [[0.0, 16.0]]
    """
    bands = _bands(shape)
    if bands is None:
        return torch.zeros(len(rows), 0, dtype=torch.float64)
    return bands.energies(rows.reshape(len(rows), *shape))


def _bands(shape: Sequence[int], features: Sequence[str] = ()) -> Bands | None:
    bands = bands_of(shape, features)
    return None if bands is None or (bands.kind == "table" and len(bands) > MOST_ENTRIES) else bands
