"""The same eigenvectors with the eigenvalues in reverse order: each eigenvalue by itself, or block by block."""

from __future__ import annotations

import torch
from torch import Tensor

from netgrain.geometry.forms import Dense, Factored, Form
from netgrain.geometry.spectrum import Spectrum, basis_within, blocks_of
from netgrain.runtime.randomness import generator_for


def reversed_values(spectrum: Spectrum, size: int, seed: int) -> Form:
    """The core (size × size) in which index i has the eigenvalue of index size − 1 − i.

    The directions of a block of equal eigenvalues are drawn at random, and so are those of a null space that the
    spectrum leaves out: only as many of the latter as end with an eigenvalue, so no size × size matrix is formed.
    """
    values, rank = spectrum.values, len(spectrum.values)
    vectors = spectrum.vectors.clone()
    for block in blocks_of(values):
        span = vectors[block.start : block.stop]
        if block.size > 1:
            vectors[block.start : block.stop] = basis_within(span, generator_for(seed, "flip", block.start))
    if rank == size:
        return Dense((vectors.T * values.flip(0)) @ vectors)
    outside = _outside(vectors, min(rank, size - rank), generator_for(seed, "flip", "null space"))
    rows = torch.cat([vectors[size - rank :], outside])  # indices size − rank to size − 1
    return Factored(rows * values.flip(0).sqrt()[:, None])


def reversed_blocks(spectrum: Spectrum) -> Form:
    """The core in which a whole block of equal eigenvalues takes the eigenvalue of the block that mirrors it."""
    found = blocks_of(spectrum.values)
    values = torch.empty_like(spectrum.values)
    for block, mirror in zip(found, reversed(found), strict=True):
        values[block.start : block.stop] = mirror.value
    return Dense((spectrum.vectors.T * values) @ spectrum.vectors)


def _outside(vectors: Tensor, count: int, generator: torch.Generator) -> Tensor:
    """Random orthonormal rows at right angles to these ones."""
    rows = torch.randn(count, vectors.shape[1], generator=generator, dtype=torch.float64)
    for _ in range(2):  # twice is enough (Kahan and Parlett)
        rows = rows - (rows @ vectors.T) @ vectors
        rows = torch.linalg.qr(rows.T)[0].T
    return rows.contiguous()
