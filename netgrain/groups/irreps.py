"""Irreducible unitary representations of any finite group, from its multiplication alone: algorithm A.

A random Hermitian element of the group algebra, H[x, y] = a(x⁻¹y), commutes with all left translations
(L(g)f)(x) = f(g⁻¹x). Its eigenspaces are irreducible; an irrep of dimension d appears in d of them, each of dimension
d. (a must be complex: a real one merges ρ with its conjugate.) With V an orthonormal basis of an eigenspace,

    ρ(g) = V⁺ L(g) V,       χ(g)* = n · mean of q over the class of g,  q(z) = Σ_j V[z, j] V[0, j]*.

Everything is checked (⟨χ, χ⟩ = 1, orthogonality, Σd² = n, the homomorphism on generators) and drawn anew if it fails.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from netgrain.groups.axioms import Ints
from netgrain.groups.structure import AnyStructure
from netgrain.runtime.errors import NetgrainError

Complex = NDArray[np.complex128]

GAP = 1e-9  # eigenvalues nearer than this share of the spectrum belong together
TOLERANCE = 1e-6  # of inner products of characters, which are integers
HOMOMORPHISM = 1e-11  # largest error accepted on generators
DRAWS = 12
ALL_POINTS = 256  # up to this order the matrices are averaged over all points; above it over 6d of them


def split_regular(group: AnyStructure, labels: Ints, seed: int = 0) -> list[Complex]:
    """All irreps of a group, each (n, d, d) and unitary, by algorithm A: O(n³), for orders to about 2000.

    labels: the conjugacy class of every element.

    >>> from netgrain.groups.structure import Abelian
    >>> [irrep.shape for irrep in split_regular(Abelian((3,)), np.arange(3))]
    [(3, 1, 1), (3, 1, 1), (3, 1, 1)]
    """
    n = group.order
    elements = np.arange(n)
    quotient = group.multiply(group.inverse[:, None], elements[None, :])  # x⁻¹y
    rng = np.random.default_rng(seed)
    worst = np.inf
    for _ in range(DRAWS):
        a = rng.standard_normal(n) + 1j * rng.standard_normal(n)
        a = a + a[group.inverse].conj()
        values, vectors = np.linalg.eigh(a[quotient])
        bases = _distinct(np.split(vectors, _cuts(values), axis=1), labels)
        if bases is None:
            continue
        found = [irrep_of_module(group, V) for V in bases]
        worst = max(homomorphism_error(group, matrices) for matrices in found)
        if worst < HOMOMORPHISM:
            return found
    raise NetgrainError(
        f"the irreps of a group of order {n} were not found in {DRAWS} random draws (homomorphism error {worst:.1g}); "
        "is the table that of a group? Build it by from_cayley, which checks."
    )


def _cuts(values: NDArray[np.float64]) -> Ints:
    span = max(values[-1] - values[0], abs(values[0]), abs(values[-1]))
    return np.flatnonzero(np.diff(values) > GAP * span) + 1


def _distinct(clusters: Sequence[Complex], labels: Ints) -> list[Complex] | None:
    """One basis for every irrep, or nothing if the clusters are not irreducible modules."""
    n = len(labels)
    q = np.stack([V @ V[0].conj() for V in clusters], axis=1)  # (n, clusters)
    sizes = np.bincount(labels)
    characters = np.zeros((len(sizes), len(clusters)), dtype=np.complex128)
    np.add.at(characters, labels, q)
    characters *= n / sizes[:, None]
    gram = np.abs((characters.conj().T * sizes) @ characters) / n
    same = gram > 0.5
    if np.abs(gram - same).max() > TOLERANCE:
        return None
    kept = np.flatnonzero(np.argmax(same, axis=1) == np.arange(len(clusters))).tolist()  # the first of its kind
    dimensions = np.array([clusters[i].shape[1] for i in kept])
    if (dimensions**2).sum() != n or len(kept) != len(sizes) or (same.sum(axis=1)[kept] != dimensions).any():
        return None
    return [clusters[i] for i in kept]


def irrep_of_module(group: AnyStructure, V: Complex, seed: int = 0) -> Complex:
    """ρ(g) for every g from an orthonormal basis V (n, d) of an irreducible space of functions: V[g⁻¹x] = V[x] ρ(g)."""
    n, d = V.shape
    if d == 1:  # f(g⁻¹) = ρ(g) f(e): the function is its own irrep, of modulus one
        rho = (V[:, 0] / V[0, 0])[group.inverse]
        return np.asarray((rho / np.abs(rho))[:, None, None])
    points = np.arange(n)
    if n > ALL_POINTS and 6 * d < n:
        points = np.random.default_rng(seed).choice(n, 6 * d, replace=False)
    solve = V[points].conj().T if len(points) == n else np.linalg.pinv(V[points])
    moved = V[group.multiply(group.inverse[:, None], points[None, :])]  # (n, points, d)
    return nearest_unitary(solve @ moved)


def nearest_unitary(matrices: Complex) -> Complex:
    """The polar factor of matrices that are almost unitary: A ← A (3 − A⁺A)/2, which squares the error."""
    identity = np.eye(matrices.shape[-1])
    for _ in range(2):
        matrices = matrices @ (1.5 * identity - 0.5 * (matrices.conj().swapaxes(-1, -2) @ matrices))
    return matrices


def homomorphism_error(group: AnyStructure, matrices: Complex) -> float:
    """max |ρ(sg) − ρ(s)ρ(g)| over generators s and all g: zero here is zero everywhere."""
    elements = np.arange(group.order)
    errors = [
        np.abs(matrices[group.multiply(np.full(group.order, s), elements)] - matrices[s] @ matrices).max()
        for s in group.generators
    ]
    return float(max(errors, default=abs(matrices[0, 0, 0] - 1)))
