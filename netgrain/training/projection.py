"""Corr(A, G S G) where A and G are sampled from the same members, every product over different members only.

G S G squares a noisy G, and A shares its noise. With A_i, G_i the parts of one ensemble,

    ⟨A, GSG⟩ = E⟨A_i, G_j S G_k⟩,      ‖GSG‖² = E tr(G_i S G_j G_k S G_l),      ‖A‖² = E⟨A_i, A_j⟩

over distinct i, j, k, l are unbiased U-statistics; their ratio is corrected by the jackknife of geometry.correlation.
"""

from __future__ import annotations

import itertools
import math
import warnings
from functools import cached_property, reduce

import torch
from torch import Tensor

from netgrain.geometry.correlation import Deletions, applied, cosine, jackknife_one
from netgrain.geometry.estimate import Estimate
from netgrain.geometry.forms import Dense, Factored, Form
from netgrain.runtime.errors import GrainWarning, NetgrainError
from netgrain.training.pairs import SymmetricPairs

MOST, FEWEST = 16, 6  # parts: all quadruples of them are formed, and two may leave
MOST_ROWS = 1024  # directions of S that are used
NUMBERS = 2**26  # held at a time: 512 MiB
NULL = 1e-12  # relative: a data covariance has no variance below this


def factor(S: Form) -> Tensor:
    """Rows r with S = Σ r rᵀ, float64: at most `size` of them, and no more than the MOST_ROWS leading ones."""
    if isinstance(S, Factored) and len(S.rows) <= min(S.size, MOST_ROWS):
        return torch.mul(S.rows.double(), S.weight**0.5)
    values, vectors = torch.linalg.eigh(S.dense())
    keep = values > NULL * values[-1]
    keep[:-MOST_ROWS] = False
    return torch.mul(vectors[:, keep], values[keep].sqrt()).T.contiguous()


class Projection:
    """G S G of one sampled G and S = Σ r rᵀ (rows r), ready to be compared with matrices of the same members."""

    def __init__(self, G: Form, rows: Tensor) -> None:
        self.plain = Factored(G.matvec(rows))  # G S G as it stands
        self.into: list[list[int]] = []
        most = min(MOST, G.parts, NUMBERS // rows.numel())
        widest = math.ceil(G.parts / max(most, 1)) * max(G.rows_per_part) if isinstance(G, Factored) else G.size
        self._by_rows = widest < len(rows) and most**3 * widest**2 <= NUMBERS
        if not self._by_rows:
            most = min(most, math.isqrt(NUMBERS) // len(rows))
        if most < FEWEST:
            return
        edges = [round(i * G.parts / most) for i in range(most + 1)]
        self.into = [list(range(a, b)) for a, b in itertools.pairwise(edges)]
        self._G, self._rows = grouped(G, self.into), rows
        self.counts = self._G.counts.double()
        self._seen = torch.stack([self._G.part(i).matvec(rows) for i in range(most)])  # G_i r: (parts, rows, d)

    @cached_property
    def _norm(self) -> Deletions:
        """‖GSG‖² from all tr(G_i S G_j G_k S G_l), S = RᵀR."""
        parts = len(self.into)
        if self._by_rows:
            # G_i = A_iᵀA_i with few rows: tr(C_jk W_kl C_li W_ij), C = A Aᵀ and W = A S Aᵀ in blocks
            C, W = self._blocks()
            Z = torch.einsum("jakb,kblc->jklac", C, W)
            values = torch.einsum("jklac,lijca->ijkl", Z, Z)
        else:
            Q = torch.stack([a @ b.T for a in self._seen for b in self._seen]).flatten(1)  # R G_j G_k Rᵀ
            values = (Q @ Q.T).reshape(parts, parts, parts, parts)  # ⟨Q_jk, Q_il⟩; the order of indices is no matter
        return _distinct(values, self.counts)

    def _blocks(self) -> tuple[Tensor, Tensor]:
        """(parts, rows, parts, rows) each, short parts filled up with zero rows."""
        assert isinstance(self._G, Factored)
        each = self._G.rows.double().split(list(self._G.rows_per_part))
        scales = (self._G.scale / self.counts).sqrt()
        A = torch.nn.utils.rnn.pad_sequence([s * rows for s, rows in zip(scales, each, strict=True)], batch_first=True)
        R = A @ self._rows.T
        return torch.einsum("jad,kbd->jakb", A, A), torch.einsum("jar,kbr->jakb", R, R)

    def corr(self, A: Form) -> Estimate:
        """Corr(A, G S G), `.plug_in` beside it; A has the same parts as G."""
        norms = math.sqrt(A.norm2() * self.plain.norm2())
        plug_in = A.inner(self.plain) / norms if norms > 0 else math.nan
        if not self.into or norms == 0:
            return Estimate(plug_in, math.nan, A.parts, plug_in)
        if A.parts != sum(len(group) for group in self.into):
            raise NetgrainError(f"expected the members of G, found {A.parts} parts of another ensemble.")
        A = grouped(A, self.into)
        flat = self._seen.flatten(0, 1)
        products = []
        for i in range(A.parts):
            moved = A.part(i).matvec(flat).reshape(self._seen.shape)
            products.append(moved.flatten(1) @ self._seen.flatten(1).T)
        across = _distinct(torch.stack(products), self.counts)
        own = _distinct(A.pairwise(A), self.counts)
        value, stderr = jackknife_one(applied(cosine, across, own, self._norm))
        if math.isnan(value):
            warnings.warn(
                f"Corr with G S G could not be bias-corrected with {int(self.counts.sum())} members: an "
                "estimated squared norm is not positive, so the value is NaN (plug_in holds the naive one); use more "
                "members, or a better known G.",
                GrainWarning,
                stacklevel=3,
            )
        return Estimate(value, stderr, A.parts, plug_in)


def _distinct(values: Tensor, n: Tensor) -> Deletions:
    """Mean over tuples of different members of values[i, j, …], whole, without each part, without each two of them."""
    order, parts = values.dim(), len(n)
    axes = [n.reshape([-1 if a == k else 1 for a in range(order)]) for k in range(order)]
    weights = reduce(torch.mul, axes).clone()
    index = torch.arange(parts)
    for a, b in itertools.combinations(range(order), 2):
        one, other = (index.reshape([-1 if k == axis else 1 for k in range(order)]) for axis in (a, b))
        weights = weights * (one != other)
    sums, counts = _without(weights * values), _without(weights)
    return applied(torch.divide, sums, counts)


def _without(values: Tensor) -> Deletions:
    """Sums of a tensor that is zero where two indices are equal: whole, and without each part or two of them."""
    axes = range(values.dim())

    def over(*kept: int) -> Tensor:
        others = [a for a in axes if a not in kept]
        return values.sum(others) if others else values

    total = values.sum()
    with_one = torch.stack([over(a) for a in axes]).sum(0)
    with_two = torch.stack([m + m.T for m in (over(a, b) for a, b in itertools.combinations(axes, 2))]).sum(0)
    return Deletions(total, total - with_one, total - with_one[:, None] - with_one + with_two)


def grouped(form: Form, into: list[list[int]]) -> Form:
    """The same matrix, neighbouring parts joined."""
    if isinstance(form, SymmetricPairs):
        left = grouped(form.left, into)
        assert isinstance(left, Factored)
        return SymmetricPairs(left, form.right)
    counts = torch.stack([form.counts[group].sum() for group in into])
    if isinstance(form, Factored):
        rows = tuple(sum(form.rows_per_part[i] for i in group) for group in into)
        return Factored(form.rows, form.scale, counts, rows)
    return Dense.from_pieces(torch.stack([form.subset(group).dense() for group in into]), counts)
