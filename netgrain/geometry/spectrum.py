"""Eigenvalues and eigenvectors of a form, and the blocks inside which eigenvectors are not defined.

Eigenvectors of equal eigenvalues are any basis of their eigenspace. The basis shown is chosen by one rule that depends
on the eigenspace only, not on the linear algebra library: seeded Gaussian vectors are projected onto the space and
orthonormalised in order. For a single eigenvector the rule fixes its sign.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from netgrain.geometry.forms import Factored, Form
from netgrain.geometry.large_spectrum import leading_pairs
from netgrain.geometry.lattice import Lattice, lattice_of
from netgrain.geometry.probed import Probed
from netgrain.geometry.products import Products
from netgrain.geometry.standardised_forms import Centred, Contrasts
from netgrain.geometry.structured_forms import Kronecker, Separated, Spread
from netgrain.runtime.errors import NetgrainError

FEW = 24  # leading pairs of a large sample, unless asked otherwise
FULL_LIMIT = 4096  # whole spectra by dense methods up to here
LANCZOS_FROM = 1536  # a few directions of a larger matrix come from Lanczos iterations
LANCZOS_FROM_COSTLY = 128  # where every product takes passes through a network
SAME = 1e-6  # eigenvalues closer than this (relative) form one block
BLOCK = 4  # vectors that Lanczos iterations advance together
MOST_ROUNDS = 200  # restarts of the Lanczos iterations
LANCZOS_MEMORY = 2**32  # bytes of their basis and its images
NULL = 1e-10  # below this share of the largest, an eigenvalue is zero


@dataclass(frozen=True)
class EigenvalueBlock:
    """Eigenvalues start … start+size−1 (descending order) that are equal; the vectors inside are not defined."""

    start: int
    size: int
    value: float

    @property
    def stop(self) -> int:
        return self.start + self.size


@dataclass(frozen=True, eq=False)
class Spectrum:
    """Eigenvalues of the core, descending, and its eigenvectors as rows; each occurs `copies` times in the whole."""

    values: Tensor  # (known,) float64
    vectors: Tensor  # (known, core size)
    copies: int
    complete: bool  # every non-zero eigenvalue is here

    @property
    def all_values(self) -> Tensor:
        return self.values.repeat_interleave(self.copies)


def decompose(form: Form, k: int | None = None) -> Spectrum:
    """The spectrum of a form; with k, at least its k leading pairs (more when that costs nothing)."""
    if isinstance(form, Kronecker):
        inner = decompose(form.core, None if k is None else math.ceil(k / form.copies))
        return Spectrum(inner.values, inner.vectors, form.copies, inner.complete)
    if isinstance(form, Contrasts):
        return _of_channels(form, k)
    if isinstance(form, Probed):
        return decompose(form.whole, FEW if k is None and form.size > FULL_LIMIT else k)
    if isinstance(form, Spread) and isinstance(form.source, Factored) and form.size > FULL_LIMIT:
        values, vectors = leading_pairs(form.source, form.stem, FEW if k is None else k)
        return settled(values, vectors, complete=False)
    if isinstance(form, Centred) and isinstance(form.source, Factored) and form.size > FULL_LIMIT:
        values, vectors = leading_pairs(form.source, form.stem, FEW if k is None else k, centred=True)
        return settled(values, vectors, complete=False)
    if isinstance(form, Separated) and form.size > FULL_LIMIT and (lattice := lattice_of(form)) is not None:
        return decompose(lattice, k)
    if isinstance(form, Lattice):
        known = form.size if form.size <= FULL_LIMIT else min(form.size, 64 if k is None else k)
        values, vectors = form.leading(known)
        return settled(values.clamp(min=0), vectors, complete=known == form.size)
    if isinstance(form, Factored) and len(form.rows) < form.size and len(form.rows) <= FULL_LIMIT:
        return _from_rows(form)
    costly = isinstance(form, Products)  # whose dense matrix takes `size` passes
    few = k is not None and k <= form.size // 8 and form.size > (LANCZOS_FROM_COSTLY if costly else LANCZOS_FROM)
    if few or form.size > FULL_LIMIT:
        return _leading(form, 64 if k is None else k)
    values, vectors = torch.linalg.eigh(form.dense())
    return settled(values.flip(0).clamp(min=0), vectors.T.flip(0), complete=True)


def _of_channels(form: Contrasts, k: int | None) -> Spectrum:
    """Through the spectra over positions of the mean over channels and of the contrasts between them."""
    found = [(places, decompose(block, k)) for places, block in form.spaces]
    values, vectors = [], []
    for places, spectrum in found:
        for place in places:
            along = torch.zeros(form.copies, len(spectrum.values), form.size // form.copies, dtype=torch.float64)
            along[place] = spectrum.vectors
            values.append(spectrum.values)
            vectors.append(form.from_channels(along))
    joined, order = torch.cat(values).sort(descending=True, stable=True)
    complete = all(spectrum.complete for _, spectrum in found)
    # beyond the last value that every block knows, one of them may have more
    known = len(joined)
    if not complete:
        least = max(float(spectrum.values[-1]) for _, spectrum in found if not spectrum.complete)
        known = int((joined >= least).sum())
    return settled(joined[:known], torch.cat(vectors)[order[:known]], complete=complete)


def _from_rows(form: Factored) -> Spectrum:
    """Through the Gram matrix of the rows: the rank is at most their number."""
    rows = form.rows.double()
    values, left = torch.linalg.eigh(rows @ rows.T)
    values, left = values.flip(0).clamp(min=0), left.flip(1)
    keep = values > NULL * values[0] if len(values) and values[0] > 0 else torch.zeros(len(values), dtype=torch.bool)
    vectors = (left[:, keep] / values[keep].sqrt()).T @ rows
    # one re-orthonormalisation: the Gram route squares the condition number
    if len(vectors):
        vectors = torch.linalg.qr(vectors.T)[0].T
    return settled(values[keep] * form.weight, vectors, complete=True)


def _leading(form: Form, k: int) -> Spectrum:
    """The k leading pairs by block Lanczos iterations with full orthogonalisation and thick restarts.

    Wu and Simon, SIAM J. Matrix Anal. Appl. 22 (2000) 602, for blocks. A Krylov space holds no more copies of a
    multiple eigenvalue than its block has vectors, so the pairs found are checked against fresh random vectors, until
    another round changes nothing.
    """
    most = _room_for(form, k)
    keep = k + max(k // 2, 4 * BLOCK)
    basis = torch.empty(most, form.size, dtype=torch.float64)
    images = torch.empty_like(basis)  # G times the basis
    generator = torch.Generator().manual_seed(0)
    nothing = torch.zeros(BLOCK, form.size, dtype=torch.float64)
    block, filled = _orthonormal(nothing, basis[:0], generator), 0
    before: Tensor | None = None
    for _ in range(MOST_ROUNDS):
        while filled + BLOCK <= most:
            basis[filled : filled + BLOCK] = block
            images[filled : filled + BLOCK] = image = form.matvec(block)
            filled += BLOCK
            block = _orthonormal(image, basis[:filled], generator)
        within = basis[:filled] @ images[:filled].T
        values, mixing = torch.linalg.eigh((within + within.T) / 2)
        values, mixing = values.flip(0)[:keep], mixing.flip(1).T[:keep]
        basis[:keep], images[:keep] = mixing @ basis[:filled], mixing @ images[:filled]
        filled = keep
        # the vectors of a block of equal eigenvalues are chosen from all of it, also where the k-th cuts it
        wanted = k + int((values[k - 1] - values[k : k + 2 * BLOCK] <= SAME * values[k - 1]).sum())
        residuals = torch.linalg.vector_norm(images[:wanted] - values[:wanted, None] * basis[:wanted], dim=1)
        top = float(values[0].clamp(min=0))
        # pairs found before a check are not improved after it, so they were held to a tenth
        allowed = (1e-8 * values[:wanted]).clamp(1e-11 * top, 1e-10 * top) * (0.1 if before is None else 1.0)
        if bool((residuals > allowed).any()):
            continue
        if before is not None and float((values[:k] - before).abs().max()) <= 1e-9 * top:
            found = settled(values[:wanted].clamp(min=0), basis[:wanted], complete=False)
            return Spectrum(found.values[:k].clone(), found.vectors[:k].clone(), 1, complete=False)
        before, filled = values[:k].clone(), wanted
        block = _orthonormal(nothing, basis[:filled], generator)
    raise NetgrainError(
        f"the {k} leading directions of a {form.size}-dimensional geometry did not converge; ask for fewer."
    )


def _room_for(form: Form, k: int) -> int:
    """How many basis vectors the search for k directions holds; refused where they would not fit."""
    most = max(3 * k, k + 10 * BLOCK)
    allowed = min(form.size // 2, LANCZOS_MEMORY // (16 * form.size))
    if most > allowed:
        raise NetgrainError(
            f"expected at most {allowed // 3} directions of a {form.size}-dimensional core, found {k}: the search for "
            f"more would take {16 * most * form.size / 2**30:.1f} GiB; ask for fewer."
        )
    return most


def _orthonormal(rows: Tensor, basis: Tensor, generator: torch.Generator) -> Tensor:
    """Rows made orthonormal and orthogonal to the basis; those that lie in its span are replaced by random ones."""

    def outside(rows: Tensor) -> Tensor:
        for _ in range(2):  # twice is enough (Kahan and Parlett)
            rows = rows - (rows @ basis.T) @ basis
        return rows

    scale = float(torch.linalg.vector_norm(rows, dim=1).max())
    q, r = torch.linalg.qr(outside(rows).T)
    inside = r.diagonal().abs() <= 1e-11 * scale
    if bool(inside.any()):
        q[:, inside] = torch.randn(rows.shape[1], int(inside.sum()), generator=generator, dtype=torch.float64)
        q = torch.linalg.qr(outside(q.T).T)[0]
    new: Tensor = q.T.contiguous()
    return new


def blocks_of(values: Tensor, copies: int = 1) -> list[EigenvalueBlock]:
    """Group descending eigenvalues that are equal to SAME (relative); everything below NULL·largest is one block."""
    found: list[EigenvalueBlock] = []
    top = float(values[0]) if len(values) else 0.0
    start = 0
    listed = values.tolist()
    for i in range(1, len(listed) + 1):
        if i < len(listed):
            first, here = listed[start], listed[i]
            null = first <= NULL * top
            if null or first - here <= SAME * first:
                continue
        size = (i - start) * copies
        found.append(EigenvalueBlock(start * copies, size, float(values[start:i].mean())))
        start = i
    return found


def settled(values: Tensor, vectors: Tensor, complete: bool) -> Spectrum:
    """Replace the vectors of each block by the basis of the rule above."""
    vectors = vectors.clone()
    for block in blocks_of(values):
        generator = torch.Generator().manual_seed(block.start)  # a block's basis does not depend on other blocks
        vectors[block.start : block.stop] = basis_within(vectors[block.start : block.stop], generator)
    return Spectrum(values, vectors, 1, complete)


def basis_within(span: Tensor, generator: torch.Generator) -> Tensor:
    """An orthonormal basis of the span of orthonormal rows (size, core): random vectors, projected onto it in order."""
    seeds = torch.randn(span.shape[1], len(span), generator=generator, dtype=torch.float64)
    within = span @ seeds  # coordinates of the projected seeds in the span
    q, r = torch.linalg.qr(within)
    signs = torch.where(r.diagonal() < 0, -1.0, 1.0)
    basis: Tensor = (q * signs).T @ span
    return basis


def resolved_blocks(form: Form, level: float = 0.01) -> list[EigenvalueBlock]:
    """Blocks that the sample can tell apart.

    Eigenvectors come from one half of the members and are tested on the other half, so that their order does not bias
    the values. Walking down the spectrum, a new block starts where a value differs from the mean of the current block
    by a t-test at `level` (Bonferroni over the spectrum).
    """
    from scipy.special import stdtr

    if isinstance(form, Kronecker):
        inner = resolved_blocks(form.core, level)
        return [EigenvalueBlock(b.start * form.copies, b.size * form.copies, b.value) for b in inner]
    parts = form.parts
    if parts < 6:
        raise NetgrainError(f"blocks by error bars need at least 6 members, found {parts}; sample more.")
    first, second = form.subset(range(0, parts, 2)), form.subset(range(1, parts, 2))
    vectors = decompose(first).vectors
    measured = torch.stack(
        [(vectors * p.matvec(vectors)).sum(1) for p in (second.part(i) for i in range(second.parts))]
    )
    n, count = measured.shape
    found: list[EigenvalueBlock] = []
    start = 0
    for j in range(1, count + 1):
        if j < count:
            difference = measured[:, start:j].mean(1) - measured[:, j]
            error = float(difference.std()) / math.sqrt(n)
            t = abs(float(difference.mean())) / error if error > 0 else 0.0
            if 2 * float(stdtr(n - 1, -t)) > level / count:
                continue
        found.append(EigenvalueBlock(start, j - start, float(measured[:, start:j].mean())))
        start = j
    return found
