"""The directions of a geometry as a basis, which of them lead, and how many eigenvalues a sample tells."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from netgrain.geometry.forms import Form
from netgrain.geometry.spectrum import FULL_LIMIT, NULL, Spectrum, blocks_of, decompose
from netgrain.geometry.structured_forms import Kronecker
from netgrain.geometry.value import Geometry
from netgrain.runtime.errors import NetgrainError

LEADING = 0.99  # of tr G
FACTOR = 2.0  # by which an eigenvalue of a sample may be too small
NEIGHBOURS, RATIO = 8, 1.25  # at least so many ranks are averaged, and all within this ratio
HELD_OUT = 4  # one member in so many confirms what the others found


@dataclass(frozen=True, eq=False)
class Axes:
    """The directions of a geometry as an orthonormal basis, in the order of their strength."""

    values: Tensor  # (d,) eigenvalues of G, descending
    vectors: Tensor  # (d, d) rows
    blocks: list[tuple[int, int]]
    leading: int  # so many of them, from the first, carry 99 % of the trace
    known: int  # so many eigenvalues are above the noise of the sample; all of them where nothing was sampled

    @classmethod
    def of(
        cls, values: Tensor, vectors: Tensor, blocks: list[tuple[int, int]], known: int | None = None, *, why: str = ""
    ) -> Axes:
        """Eigenvalues and eigenvectors; the leading ones carry 99 % of the trace, and a block is never cut.

        why: what is known about a matrix that is zero.
        """
        if not float(values.sum()) > 0:
            raise NetgrainError(
                f"the input gradient of this family is exactly zero{why}, so it reacts to no direction at "
                "initialisation; probe the features below the last layer, or give a trained checkpoint."
            )
        cumulative = values.cumsum(0) / values.sum()
        last = int((cumulative < LEADING * (1 - 1e-12)).sum())
        stop = next((b for a, b in blocks if a <= last < b), len(values))
        return cls(values, vectors, blocks, stop, len(values) if known is None else known)


def axes_of(G: Geometry) -> Axes:
    """The eigenvectors of G, completed to a basis where a sample has fewer rows than there are directions."""
    if G.d > FULL_LIMIT and not isinstance(G.form, Kronecker):  # of which a geometry gives its leading ones only
        whole = _whole(G.form)
        values, vectors, blocks = whole.values, whole.vectors, blocks_of(whole.values)
    else:
        values, vectors, blocks = torch.zeros(G.d, dtype=torch.float64), G.directions().flatten(1), G.blocks()
        values[: len(G.eigenvalues)] = G.eigenvalues.clamp(min=0)
    off = G.about.switches()
    why = f" ({off})" if off else ""
    return Axes.of(values, vectors, [(b.start, b.stop) for b in blocks], known_of(G), why=why)


def known_of(G: Geometry) -> int:
    """How many eigenvalues of a sampled geometry, from the largest, are above the noise of the sample.

    Sampling spreads a spectrum out: the smallest eigenvalues come out too small, and as zero beyond the number of rows.
    So the directions of three quarters of the members (or points) are measured on the others, over neighbouring ranks;
    from where those react more than FACTOR times as strongly as it looked, nothing is known. All d where nothing was
    sampled.

    >>> known_of(Geometry.from_matrix(torch.eye(3)))
    3
    """
    form = G.form.core if isinstance(G.form, Kronecker) else G.form
    copies = G.d // form.size
    form = form.batched()
    if form.parts < 2:
        return 0 if form.parts and G.method == "sampled" else G.d
    held_out = range(0, form.parts, HELD_OUT)
    first, second = form.subset([i for i in range(form.parts) if i not in held_out]), form.subset(held_out)
    if not min(first.trace(), second.trace()) > 0:
        return G.d
    spectrum = _whole(first)
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


def _whole(form: Form) -> Spectrum:
    """All eigenvalues and eigenvectors that are not zero, whatever the size."""
    if form.size <= FULL_LIMIT:
        return decompose(form)
    ascending, columns = torch.linalg.eigh(form.dense())
    return Spectrum(ascending.flip(0).clamp(min=0), columns.T.flip(0), 1, complete=True)
