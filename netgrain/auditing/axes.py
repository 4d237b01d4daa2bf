"""The directions of a geometry as a basis, which of them lead, and how many eigenvalues a sample tells."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from netgrain.geometry.spectrum import FULL_LIMIT, NULL, blocks_of, decompose
from netgrain.geometry.structured_forms import Kronecker
from netgrain.geometry.value import Geometry
from netgrain.runtime.errors import NetgrainError

LEADING = 0.99  # of tr G
FEW = 32  # directions of an input of more than FULL_LIMIT entries
RESEMBLES = 0.5  # expected Corr with the truth, below which a large sample tells no direction
FACTOR = 2.0  # by which an eigenvalue of a sample may be too small
NEIGHBOURS, RATIO = 8, 1.25  # at least so many ranks are averaged, and all within this ratio
HELD_OUT = 4  # one member in so many confirms what the others found


@dataclass(frozen=True, eq=False)
class Axes:
    """The directions of a geometry as an orthonormal basis, in the order of their strength.

    Of an input of more than FULL_LIMIT entries they are the first few, and all others together are the rest.
    """

    values: Tensor  # (directions,) eigenvalues of G, descending
    vectors: Tensor  # (directions, d) orthonormal rows
    blocks: list[tuple[int, int]]
    leading: int  # so many of them, from the first, carry 99 % of the trace; all of them where that takes more
    known: int  # so many eigenvalues are above the noise of the sample; all of them where nothing was sampled
    whole: float | None = None  # tr G, where there are more directions than these

    @property
    def d(self) -> int:
        """Dimension of the input space."""
        return self.vectors.shape[1]

    @property
    def complete(self) -> bool:
        """Whether these are all directions of the input space."""
        return self.whole is None

    @property
    def trace(self) -> float:
        """tr G."""
        return float(self.values.sum()) if self.whole is None else self.whole

    @property
    def mean(self) -> float:
        """The eigenvalue of an average direction, tr G / d."""
        return self.trace / self.d

    @property
    def leading_share(self) -> float:
        """The share of tr G that the leading directions carry."""
        return min(float(self.values[: self.leading].sum()) / self.trace, 1.0)

    def directions_for(self, share: float) -> int | None:
        """How many directions carry a share of the trace; None if more than are here."""
        enough = (self.values.cumsum(0) >= share * self.trace * (1 - 1e-12)).nonzero()
        return int(enough[0]) + 1 if len(enough) else None

    @classmethod
    def of(
        cls,
        values: Tensor,
        vectors: Tensor,
        blocks: list[tuple[int, int]],
        known: int | None = None,
        *,
        whole: float | None = None,
        why: str = "",
    ) -> Axes:
        """Eigenvalues and eigenvectors; the leading ones carry 99 % of the trace, and a block is never cut.

        whole: tr G, where these are the first few. why: what is known about a matrix that is zero.
        """
        if not float(values.sum()) > 0:
            raise NetgrainError(
                f"the input gradient of this family is exactly zero{why}, so it reacts to no direction at "
                "initialisation; probe the features below the last layer, or give a trained checkpoint."
            )
        cumulative = values.cumsum(0) / (values.sum() if whole is None else whole)
        last = int((cumulative < LEADING * (1 - 1e-12)).sum())
        stop = next((b for a, b in blocks if a <= last < b), len(values))
        return cls(values, vectors, blocks, stop, len(values) if known is None else known, whole)


def axes_of(G: Geometry) -> Axes:
    """The eigenvectors of G: up to FULL_LIMIT entries a whole basis, completed where a sample has fewer rows.

    Of a larger input the FEW leading ones.

    >>> axes_of(Geometry.from_matrix(torch.diag(torch.tensor([1.0, 3.0])))).values.tolist()
    [3.0, 1.0]
    """
    off = G.about.switches()
    why = f" ({off})" if off else ""
    if G.d > FULL_LIMIT:
        return _first_of(G, why)
    values, vectors = torch.zeros(G.d, dtype=torch.float64), G.directions().flatten(1)
    values[: len(G.eigenvalues)] = G.eigenvalues.clamp(min=0)
    return Axes.of(values, vectors, [(b.start, b.stop) for b in G.blocks()], known_of(G), why=why)


def _first_of(G: Geometry, why: str) -> Axes:
    """The leading directions of a geometry that has too many for a whole basis."""
    trace = G.trace.value
    if not trace > 0:
        return Axes.of(torch.zeros(1), torch.zeros(1, G.d), [(0, 1)], why=why)
    form = G.form
    copies = form.copies if isinstance(form, Kronecker) else 1
    core = decompose(form.core if isinstance(form, Kronecker) else form, math.ceil(FEW / copies))
    count = min(FEW, len(core.values) * copies)
    values = core.values.clamp(min=0).repeat_interleave(copies)[:count]
    vectors = core.vectors[:count]
    if isinstance(form, Kronecker):
        places, vectors = form.order.reshape(copies, -1), torch.zeros(count, G.d, dtype=torch.float64)
        for row in range(count):
            index, copy = divmod(row, copies)
            vectors[row, places[copy]] = core.vectors[index]
    blocks = [(b.start, b.stop) for b in blocks_of(values)]
    known = 0 if G.fidelity < RESEMBLES else count  # NaN where nothing was sampled
    whole = max(trace, float(values.sum()))
    return Axes.of(values, vectors, blocks, known, whole=whole, why=why)


def known_of(G: Geometry) -> int:
    """How many eigenvalues of a sampled geometry, from the largest, are above the noise of the sample.

    Sampling spreads a spectrum out: the smallest eigenvalues come out too small, and as zero beyond the number of rows.
    So the directions of three quarters of the members (or points) are measured on the others, over neighbouring ranks;
    from where those react more than FACTOR times as strongly as it looked, nothing is known. All d where nothing was
    sampled, and of more than FULL_LIMIT, where only leading ones are computed, which are never too small.

    >>> known_of(Geometry.from_matrix(torch.eye(3)))
    3
    """
    if G.d > FULL_LIMIT:
        return G.d
    form = G.form.core if isinstance(G.form, Kronecker) else G.form
    copies = G.d // form.size
    form = form.batched()
    if form.parts < 2:
        return 0 if form.parts and G.method == "sampled" else G.d
    held_out = range(0, form.parts, HELD_OUT)
    first, second = form.subset([i for i in range(form.parts) if i not in held_out]), form.subset(held_out)
    if not min(first.trace(), second.trace()) > 0:
        return G.d
    spectrum = decompose(first)
    # both relative to their sums: single networks may be many times as steep as others
    here = spectrum.values / first.trace()
    there = (spectrum.vectors * second.matvec(spectrum.vectors)).sum(1) / second.trace()
    start = 0
    while start < len(there):
        stop = min(max(start + NEIGHBOURS, round(start * RATIO)), len(there))
        # NULL: neither reacts, and that is known
        if float(there[start:stop].mean()) > FACTOR * float(here[start:stop].mean()) + NULL:
            return start * copies
        start = stop
    beyond = 1 - float(there.sum())  # the rank of the first part
    return G.d if beyond <= NULL * form.size else start * copies
