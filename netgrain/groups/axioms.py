"""The axioms of a group, checked on its table; generators, classes and orders of elements.

A table T (n, n) with T[a, b] = index of ab is a group with identity 0 when every row and column is a permutation,
0 is neutral on both sides and (ab)c = a(bc). The error of a failed axiom names the place where it fails.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from netgrain.runtime.errors import NetgrainError

Ints = NDArray[np.int64]
Multiply = Callable[[Ints, Ints], Ints]

EXHAUSTIVE = 200  # up to this order every triple is tried; above it Light's test, which proves as much


def check_table(table: object) -> Ints:
    """The table as (n, n) int64, or a NetgrainError that says which axiom fails, and where.

    >>> check_table([[0, 1], [1, 0]]).shape
    (2, 2)
    >>> check_table([[0, 1], [1, 1]])
    Traceback (most recent call last):
    netgrain.runtime.errors.NetgrainError: not a group: row 1 holds 1 twice; every row ... holds each ... once.
    """
    try:
        found = np.asarray(table)
    except (ValueError, RuntimeError, TypeError) as e:
        raise NetgrainError(f"a Cayley table is a square array of integers; this is not an array: {e}") from e
    if found.ndim != 2 or found.shape[0] != found.shape[1] or not found.size:
        raise NetgrainError(f"a Cayley table is a square array of shape (n, n), n ≥ 1; found shape {found.shape}.")
    if found.dtype.kind not in "iu":
        if found.dtype.kind != "f" or not np.array_equal(found, np.round(found)):
            raise NetgrainError(f"a Cayley table holds the integers 0..n-1; found entries of type {found.dtype}.")
        found = np.round(found)
    T = found.astype(np.int64)
    n = len(T)
    outside = np.argwhere(~np.isin(T, np.arange(n)))
    if len(outside):
        a, b = outside[0]
        raise NetgrainError(f"not a group: entry ({a}, {b}) is {T[a, b]}, outside 0..{n - 1}.")
    for what, lines in (("row", T), ("column", T.T)):
        wrong = np.flatnonzero((np.sort(lines, axis=1) != np.arange(n)).any(axis=1))
        if len(wrong):
            line = lines[wrong[0]]
            twice = next(value for i, value in enumerate(line) if value in line[:i])
            raise NetgrainError(
                f"not a group: {what} {wrong[0]} holds {twice} twice; every {what} of a Cayley table holds each "
                "element once."
            )
    _check_identity(T)
    _check_associative(T)
    return T


def _check_identity(T: Ints) -> None:
    n = len(T)
    every = np.arange(n)
    neutral = np.flatnonzero((every == T).all(axis=1) & (every[:, None] == T).all(axis=0))
    if not len(neutral):
        raise NetgrainError("not a group: no element e has ex = xe = x for every x.")
    if neutral[0] != 0:
        raise NetgrainError(
            f"the identity is element {neutral[0]}; list it first: index 0 is the identity in every table here."
        )


def _check_associative(T: Ints) -> None:
    n = len(T)
    small = T.astype(np.int16 if n < 2**15 else np.int64)  # a quarter of the memory traffic
    middle = range(n) if n <= EXHAUSTIVE else generators(n, lambda a, b: T[a, b])
    for b in middle:  # Light: the b with (ab)c = a(bc) for all a, c are closed under products
        left, right = small[small[:, b]], small[:, small[b]]
        if not np.array_equal(left, right):
            a, c = np.argwhere(left != right)[0]
            raise NetgrainError(
                f"not a group: the product is not associative, ({a}·{b})·{c} = {T[T[a, b], c]} but "
                f"{a}·({b}·{c}) = {T[a, T[b, c]]}."
            )


def closure(start: Sequence[int], by: Sequence[int], n: int, multiply: Multiply) -> NDArray[np.bool_]:
    """Mask of the elements reached from `start` by right multiplication with the elements `by`."""
    reached = np.zeros(n, dtype=bool)
    front = np.unique(np.asarray(start, dtype=np.int64))
    reached[front] = True
    right = np.asarray(by, dtype=np.int64)
    while len(front) and len(right):
        found = np.unique(multiply(front[:, None], right[None, :]))
        front = found[~reached[found]]
        reached[front] = True
    return reached


def generators(n: int, multiply: Multiply) -> list[int]:
    """A few elements whose products are all of the group: each is the first not reached by those before it.

    >>> generators(6, lambda a, b: (a + b) % 6)
    [1]
    """
    chosen: list[int] = []
    reached = np.zeros(n, dtype=bool)
    reached[0] = True
    while not reached.all():
        chosen.append(int(np.flatnonzero(~reached)[0]))
        reached = closure([0, *chosen], chosen, n, multiply)
    return chosen


def conjugacy_labels(n: int, gens: Sequence[int], multiply: Multiply, inverse: Ints) -> Ints:
    """The class of every element, numbered by first appearance: the orbits under x → gxg⁻¹."""
    x = np.arange(n)
    maps = [multiply(multiply(np.full(n, g), x), np.full(n, inverse[g])) for g in gens]
    maps = [moved for moved in maps if (moved != x).any()]
    label = x.copy()
    while True:
        before = label
        for moved in maps:
            step = moved
            for _ in range(n.bit_length()):  # the least label on every cycle of the map, by doubling the step
                lower = np.minimum(label, label[step])
                if (lower == label).all() and step is not moved:
                    break
                label, step = lower, step[step]
        if (label == before).all():
            return np.asarray(np.unique(label, return_inverse=True)[1].ravel(), dtype=np.int64)


def element_orders(elements: Ints, multiply: Multiply) -> Ints:
    """The smallest k ≥ 1 with gᵏ = e, of each of the given elements."""
    orders = np.ones(len(elements), dtype=np.int64)
    power = elements.copy()
    while (power != 0).any():
        orders += power != 0
        power = np.where(power != 0, multiply(power, elements), 0)
    return orders
