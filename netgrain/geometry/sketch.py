"""The leading directions of a matrix too large to hold: a Frequent Directions sketch of its rows.

Rows a of G = Σ aᵀa stream through a buffer of 2·rank rows; whenever it is full, its singular values are shrunk so that
half of it becomes free. Deterministic, one pass, and certified: 0 ⪯ G − Ĝ ⪯ `loss`·I (Ghashami, Liberty, Phillips and
Woodruff 2016).
"""

from __future__ import annotations

import torch
from torch import Tensor

NOISE = 1e-6  # squared singular values below this share of the largest drown in float32 rounding


class FrequentDirections:
    """Accumulates rows of length `size`; `rows` are at most 2·rank rows B with BᵀB ≈ Σ aᵀa."""

    def __init__(self, size: int, rank: int) -> None:
        self.rank = rank
        self.loss = 0.0  # ‖Σ aᵀa − BᵀB‖₂ is at most this
        self._buffer = torch.zeros(2 * rank, size)
        self._filled = 0

    def add(self, rows: Tensor) -> None:
        """rows: (any number, size)."""
        for piece in rows.split(self.rank):
            if self._filled + len(piece) > len(self._buffer):
                self._shrink()
            self._buffer[self._filled : self._filled + len(piece)] = piece
            self._filled += len(piece)

    def _shrink(self) -> None:
        filled = self._buffer[: self._filled]
        values, left = torch.linalg.eigh(_gram(filled))  # ascending; squared singular values
        values, left = values.flip(0).clamp(min=0), left.flip(1)
        cut = float(values[self.rank]) if len(values) > self.rank else 0.0
        kept = values[: self.rank]
        usable = kept > max(cut, NOISE * float(values[0]))
        # rows of UᵀA have norms √values; shrinking rescales them to √(values − cut)
        factors = ((kept[usable] - cut) / kept[usable]).sqrt()
        shrunk = (left[:, : self.rank][:, usable] * factors).T.to(filled.dtype) @ filled
        self._buffer[: len(shrunk)] = shrunk
        self._filled = len(shrunk)
        self.loss += max(cut, NOISE * float(values[0]))

    @property
    def rows(self) -> Tensor:
        return self._buffer[: self._filled].clone()


def _gram(rows: Tensor) -> Tensor:
    """Row inner products: float32 over short slices of the columns, added up in float64."""
    total = torch.zeros(len(rows), len(rows), dtype=torch.float64)
    for columns in rows.split(1024, dim=1):
        total += columns @ columns.T
    return total
