"""Irreducible representations of a large group without structure: algorithm B, through its character table.

Class functions form a commutative algebra of dimension k, the number of classes. Multiplication by a random Hermitian
class function r is a Hermitian k × k matrix in the basis of normalised class indicators; its eigenvectors q are the
irreducible characters, χ(C) = q_C √(n / |C|). For an irrep of dimension d > 1 the isotypic part of the functions on
the group is a d × d array of copies of it, in which conj χ is the identity matrix; right multiplication by a sparse
Hermitian element acts as a d × d matrix B, and d steps of Lanczos from conj χ span the powers of B. A Ritz vector is a
projector of rank one: its left translates span one copy of the irrep.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from netgrain.groups.axioms import Ints
from netgrain.groups.irreps import DRAWS, GAP, Complex, homomorphism_error, irrep_of_module
from netgrain.groups.structure import AnyStructure
from netgrain.runtime.errors import NetgrainError

INTEGER = 1e-6  # how near χ(e) must be to an integer
HOMOMORPHISM = 1e-10  # largest error accepted on generators
FEW = 4  # random elements in one factor of the sparse Hermitian element


def character_table(group: AnyStructure, labels: Ints, seed: int = 0) -> Complex:
    """χ_ρ(C), (k, k), rows in no particular order: O(kn) lookups and one k × k eigenproblem.

    >>> from netgrain.groups import dihedral
    >>> G = dihedral(order=8)
    >>> sorted(character_table(G.structure, G._labels)[:, 0].real.round(6).tolist())
    [1.0, 1.0, 1.0, 1.0, 2.0]
    """
    n, k = group.order, int(labels.max()) + 1
    sizes = np.bincount(labels)
    first = np.unique(labels, return_index=True)[1]
    inverse_class = labels[group.inverse[first]]
    rng = np.random.default_rng(seed)
    every = np.arange(n)
    quotient = labels[group.multiply(first[:, None], group.inverse[every][None, :])]  # class of z_i y⁻¹, (k, n)
    order = np.argsort(labels, kind="stable")
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    for _ in range(DRAWS):
        r = rng.standard_normal(k) + 1j * rng.standard_normal(k)
        r = r + r[inverse_class].conj()
        sums = np.add.reduceat(r[quotient[:, order]], starts, axis=1)  # Σ_{y ∈ C_j} r(z_i y⁻¹)
        M = sums * np.sqrt(sizes[:, None] / sizes[None, :])
        values, vectors = np.linalg.eigh((M + M.conj().T) / 2)
        if k > 1 and np.diff(values).min() < GAP * max(values[-1] - values[0], 1e-300):
            continue
        table = (vectors * (np.abs(vectors[0]) / vectors[0])).T * np.sqrt(n / sizes)
        dimensions = table[:, 0].real
        if np.abs(dimensions - np.round(dimensions)).max() < INTEGER and (np.round(dimensions) ** 2).sum() == n:
            return np.asarray(table)
    raise NetgrainError(
        f"the character table of a group of order {n} was not found in {DRAWS} random draws; "
        "is its table that of a group?"
    )


def split_isotypic(group: AnyStructure, labels: Ints, seed: int = 0) -> list[Complex]:
    """All irreps of a group, each (n, d, d) and unitary, by algorithm B: for orders of thousands.

    >>> from netgrain.groups import symmetric
    >>> G = symmetric(4)
    >>> sorted(irrep.shape[-1] for irrep in split_isotypic(G.structure, G._labels))
    [1, 1, 2, 3, 3]
    """
    table = character_table(group, labels, seed)
    rng = np.random.default_rng(seed + 1)
    return [_irrep(group, row[labels], rng) for row in table]


def _irrep(group: AnyStructure, character: Complex, rng: np.random.Generator) -> Complex:
    d = int(np.round(character[0].real))
    if d == 1:
        return np.asarray((character / np.abs(character))[:, None, None])
    worst = np.inf
    for _ in range(DRAWS):
        for p in _projectors(group, character.conj(), d, rng):
            V = _translates(group, p, d, rng)
            if V is None:
                continue
            found = irrep_of_module(group, V, int(rng.integers(2**31)))
            worst = homomorphism_error(group, found)
            if worst < HOMOMORPHISM:
                return found
    raise NetgrainError(
        f"an irrep of dimension {d} of a group of order {group.order} was not found in {DRAWS} random draws "
        f"(homomorphism error {worst:.1g})."
    )


def _projectors(group: AnyStructure, start: Complex, d: int, rng: np.random.Generator) -> Iterator[Complex]:
    """Ritz vectors of right multiplication by a random sparse Hermitian element, best separated first."""
    n = group.order
    every = np.arange(n)
    factors: list[tuple[list[Ints], NDArray[np.complex128]]] = []
    for _ in range(2):
        chosen = rng.integers(1, n, FEW)
        weights = rng.standard_normal(FEW) + 1j * rng.standard_normal(FEW)
        both = np.concatenate([chosen, group.inverse[chosen]])
        moves = [group.multiply(every, np.full(n, g)) for g in both]
        factors.append((moves, np.concatenate([weights, weights.conj()])))

    def times(v: Complex) -> Complex:  # v → v a₁ a₂ a₁, each aᵢ Hermitian
        for moves, weights in (factors[0], factors[1], factors[0]):
            v = np.sum([w * v[move] for w, move in zip(weights, moves, strict=True)], axis=0)
        return v

    basis = np.zeros((n, d), dtype=np.complex128)
    basis[:, 0] = start / np.linalg.norm(start)
    T = np.zeros((d, d), dtype=np.complex128)
    for j in range(d):
        v = times(basis[:, j])
        for _ in range(2):  # orthogonalised twice is enough
            overlap = basis[:, : j + 1].conj().T @ v
            T[: j + 1, j] += overlap
            v = v - basis[:, : j + 1] @ overlap
        if j + 1 < d:
            size = np.linalg.norm(v)
            if size < 1e-8 * max(np.abs(T).max(), 1e-300):
                return  # fewer than d different eigenvalues: another element
            basis[:, j + 1] = v / size
    values, ritz = np.linalg.eigh(np.triu(T) + np.triu(T, 1).conj().T)
    gaps = np.min(np.abs(values[:, None] - values[None, :]) + np.diag(np.full(d, np.inf)), axis=1)
    for i in np.argsort(-gaps)[:2]:
        yield basis @ ritz[:, i]


def _translates(group: AnyStructure, p: Complex, d: int, rng: np.random.Generator) -> Complex | None:
    """Orthonormal basis of the left translates of p, if they span d dimensions."""
    n = group.order
    shifts = rng.integers(0, n, 3 * d)
    rows = np.stack([p[group.multiply(np.full(n, g), np.arange(n))] for g in shifts], axis=1)  # (n, 3d)
    U, sigma, _ = np.linalg.svd(rows, full_matrices=False)
    if sigma[d - 1] < 1e-4 * sigma[0] or sigma[d] > 1e-6 * sigma[0]:
        return None
    return np.asarray(U[:, :d])
