"""The directions of a geometry as a basis, which of them lead, and how many eigenvalues a sample tells."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from netgrain.geometry.forms import Form
from netgrain.geometry.probed import Probed
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
    measured_apart: bool = False  # found on some networks of a sample, their strength measured on the others

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
    """The leading directions of a geometry that has too many for a whole basis.

    Those of a sample are found on three quarters of its networks and measured on the others. The eigenvalues of the
    sample itself are too large: directions that are chosen as its strongest follow its noise, too.
    """
    trace = G.trace.value
    if not trace > 0:
        return Axes.of(torch.zeros(1), torch.zeros(1, G.d), [(0, 1)], why=why)
    whole = G.form.core if isinstance(G.form, Kronecker) else G.form
    copies = G.d // whole.size
    first, second = _apart(whole)
    core = decompose(whole if first is None else first, math.ceil(FEW / copies))
    count = min(FEW, len(core.values) * copies)
    own = core.values.clamp(min=0)
    known = 0 if G.fidelity < RESEMBLES else count  # NaN where nothing was sampled
    if second is not None:
        # relative to their sums: single networks may be many times as steep as others
        share = (second.energies(core.vectors) / second.trace()).clamp(min=0)
        own = torch.tensor(descending(share.tolist()), dtype=torch.float64) * whole.trace()
    values = own.repeat_interleave(copies)[:count]
    vectors = core.vectors[:count]
    if isinstance(G.form, Kronecker):
        places, vectors = G.form.order.reshape(copies, -1), torch.zeros(count, G.d, dtype=torch.float64)
        for row in range(count):
            index, copy = divmod(row, copies)
            vectors[row, places[copy]] = core.vectors[index]
    blocks = [(b.start, b.stop) for b in blocks_of(values)]
    found = Axes.of(values, vectors, blocks, known, whole=max(trace, float(values.sum())), why=why)
    return replace(found, measured_apart=second is not None)


def _apart(form: Form) -> tuple[Form | None, Form | None]:
    """Three quarters of the networks of a sample and the others; None where it is not held network by network."""
    form = form.batched()
    if form.parts < 2 or (isinstance(form, Probed) and not form.holds_parts):
        return None, None
    held_out = range(0, form.parts, HELD_OUT)
    first, second = form.subset([i for i in range(form.parts) if i not in held_out]), form.subset(held_out)
    return (first, second) if min(first.trace(), second.trace()) > 0 else (None, None)


def descending(values: Sequence[float]) -> list[float]:
    """Numbers that should descend, where they do not replaced by the mean of neighbours; sums stay.

    >>> descending([3.0, 1.0, 2.0, 0.0])
    [3.0, 1.5, 1.5, 0.0]
    """
    runs: list[tuple[float, int]] = []  # mean and length
    for value in values:
        mean, length = value, 1
        while runs and runs[-1][0] <= mean:
            before, many = runs.pop()
            mean, length = (mean * length + before * many) / (length + many), length + many
        runs.append((mean, length))
    return [mean for mean, length in runs for _ in range(length)]


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
    parts = form.batched().parts
    if parts < 2:
        return 0 if parts and G.method == "sampled" else G.d
    first, second = _apart(form)
    if first is None or second is None:
        return G.d
    spectrum = decompose(first)
    # both relative to their sums: single networks may be many times as steep as others
    here = spectrum.values / first.trace()
    there = second.energies(spectrum.vectors) / second.trace()
    start = 0
    while start < len(there):
        stop = min(max(start + NEIGHBOURS, round(start * RATIO)), len(there))
        # NULL: neither reacts, and that is known
        if float(there[start:stop].mean()) > FACTOR * float(here[start:stop].mean()) + NULL:
            return start * copies
        start = stop
    beyond = 1 - float(there.sum())  # the rank of the first part
    return G.d if beyond <= NULL * form.size else start * copies
