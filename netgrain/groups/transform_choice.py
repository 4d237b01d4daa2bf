"""Which transform a group gets: FFT, product or little groups where its construction allows, else dense irreps."""

from __future__ import annotations

import numpy as np

from netgrain.groups.axioms import Ints, conjugacy_labels
from netgrain.groups.class_algebra import split_isotypic
from netgrain.groups.irreps import Complex, split_regular
from netgrain.groups.mackey import Mackey
from netgrain.groups.structure import Abelian, AnyStructure, Direct, Semidirect
from netgrain.groups.transforms import FFT, DenseTransform, Product, Transform
from netgrain.runtime.errors import NetgrainError

SPLIT_REGULAR = 1000  # up to this order algorithm A, above it algorithm B
MATRIX = 128  # up to this order a transform is one matrix product, whatever the structure
COLUMNS = 64  # elements whose characters are computed at once, to order irreps
MOST_BYTES = 2 * 2**30  # of a Cayley table, or of the irreps of a group without structure


def transform_for(group: AnyStructure, name: str) -> Transform:
    """The cheapest transform known for this structure."""
    if isinstance(group, Abelian):
        return FFT(group.moduli)
    if isinstance(group, Direct):
        return _small_as_matrix(Product(transform_for(group.left, name), transform_for(group.right, name)))
    if isinstance(group, Semidirect) and isinstance(group.normal, Abelian):
        return _small_as_matrix(Mackey(group, lambda little: dense_irreps(little, name)))
    transform = DenseTransform(dense_irreps(group, name))
    return _sorted(transform) if transform.order <= SPLIT_REGULAR else transform  # a large matrix is not made twice


def _small_as_matrix(transform: Transform) -> Transform:
    """One matrix product is faster than many steps when the matrix is small."""
    return _sorted(transform) if transform.order <= MATRIX else transform


def _sorted(transform: Transform) -> DenseTransform:
    """Stored matrices in canonical order."""
    every = np.arange(transform.order)
    return DenseTransform(
        [
            transform.matrices(size, slot, every)
            for size, slots in enumerate(canonical_order(transform))
            for slot in slots
        ]
    )


def dense_irreps(group: AnyStructure, name: str) -> list[Complex]:
    """All irreps as matrices, by algorithm A or B; a sentence if they do not fit."""
    check_bytes(name, "irreps", 16 * group.order**2)
    labels = conjugacy_labels(group.order, group.generators, group.multiply, group.inverse)
    if group.order <= SPLIT_REGULAR or labels.max() + 1 == group.order:
        return split_regular(group, labels)
    return split_isotypic(group, labels)


def check_bytes(name: str, what: str, needed: int) -> None:
    if needed > MOST_BYTES:
        shown = min(needed, 2**70) / 2**30  # (200!)² is no floating-point number
        raise NetgrainError(
            f"{name} is too large: {shown:.1f} GiB for its {what}, of at most {MOST_BYTES / 2**30:.0f} GiB; "
            "direct() and semidirect() of abelian groups make groups whose transforms store neither table nor irreps."
        )


def canonical_order(transform: Transform) -> list[Ints]:
    """Irreps of each size by their characters at elements 1, 2, 3, …, descending; the trivial one comes first.

    Only as many elements are looked at as it takes to tell all irreps apart.
    """
    ranks = [np.zeros(count, dtype=np.int64) for _, count in transform.sizes]
    for start in range(0, transform.order, COLUMNS):
        chunk = transform.characters(np.arange(start, min(start + COLUMNS, transform.order)))
        ranks = [_refined(rank, characters) for rank, characters in zip(ranks, chunk, strict=True)]
        if all(rank.max() + 1 == len(rank) for rank in ranks):
            return [np.argsort(rank) for rank in ranks]
    raise NetgrainError("two irreps have equal characters: the table is not that of a group.")


def _refined(rank: Ints, characters: Complex) -> Ints:
    """Ties of a rank broken by the columns of characters (irreps, elements), one after another."""
    columns = np.round(-characters * 1e6).T  # descending
    for values in np.stack([columns.real, columns.imag], axis=1).reshape(-1, len(rank)).astype(np.int64):
        if rank.max() + 1 == len(rank):
            break
        if (values != values[0]).any():
            place = np.unique(values, return_inverse=True)[1].ravel()
            rank = np.unique(rank * (place.max() + 1) + place, return_inverse=True)[1].ravel()
    return rank
