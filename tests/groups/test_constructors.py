"""Groups by name, generators, table and product."""

import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from netgrain.groups import (
    Group,
    alternating,
    axioms,
    cyclic,
    dicyclic,
    dihedral,
    direct,
    from_cayley,
    from_matrices,
    from_permutations,
    linear_action,
    p4m,
    planes_by_quaternions,
    quaternion,
    semidirect,
    symmetric,
)
from tests.groups.known_groups import TOLERANCE, check_representation, refused, signals


@pytest.mark.quick
def test_dihedral_index() -> None:
    G = dihedral(order=8)
    assert G.names == ("e", "s", "r", "rs", "r^2", "r^2s", "r^3", "r^3s")
    r, s = 2, 1
    assert G.cayley[s, r] == 7  # sr = r³s


def test_quaternion_names_multiply_as_they_should() -> None:
    G = quaternion()
    at = {name: i for i, name in enumerate(G.names)}
    for a, b, c in (("i", "j", "k"), ("j", "k", "i"), ("k", "i", "j"), ("i", "i", "-1"), ("j", "i", "-k")):
        assert G.names[G.cayley[at[a], at[b]]] == c


def test_permutations_multiply_as_functions() -> None:
    G = symmetric(4)
    at = {name: i for i, name in enumerate(G.names)}
    assert G.names[G.cayley[at["(0 1)"], at["(1 2)"]]] == "(0 1 2)"  # 2 → 1 → 0
    assert G.class_orders == tuple(math.lcm(*map(len, _cycles(G.names[int(c[0])]))) for c in G.classes)


def _cycles(name: str) -> list[list[str]]:
    return [part.split() for part in name.replace("e", "(0)").strip("()").split(")(")]


@pytest.mark.parametrize(
    ("group", "order"),
    [
        (symmetric(1), 1),
        (symmetric(2), 2),
        (alternating(2), 1),
        (alternating(3), 3),
        (alternating(4), 12),
        (dihedral(order=2), 2),
        (dihedral(order=4), 4),
        (dicyclic(order=4), 4),
        (dicyclic(order=12), 12),
        (quaternion(order=16), 16),
        (cyclic(1), 1),
        (p4m(1), 8),
        (p4m(3), 72),
        (from_matrices([[[1, 1], [0, 1]], [[0, 1], [-1, 0]]], modulus=3), 24),  # SL(2, 3)
    ],
    ids=lambda value: value.name if isinstance(value, Group) else None,
)
def test_small_and_odd_groups(group: Group, order: int) -> None:
    assert group.order == order
    check_representation(group)
    check_representation(from_cayley(group.cayley))


@st.composite
def permutation_groups(draw: st.DrawFn) -> Group:
    degree = draw(st.integers(1, 5))
    gens = draw(st.lists(st.permutations(range(degree)), min_size=1, max_size=3))
    return from_permutations(gens)


@given(permutation_groups(), st.integers(0, 2**16))
@settings(max_examples=25, deadline=None)
def test_random_permutation_groups(G: Group, seed: int) -> None:
    axioms.check_table(G.cayley.numpy())
    assert sum(d * d for d in G.dimensions) == G.order
    assert len(G.irreps) == len(G.classes)
    for irrep in G.irreps:
        rho = irrep.matrices
        torch.testing.assert_close(rho[G.cayley], rho[:, None] @ rho[None], atol=TOLERANCE, rtol=0)
    f, h = signals(G, seed=seed), signals(G, seed=seed + 1)
    torch.testing.assert_close((G.fourier(f) @ G.fourier(h)).inverse(), f[G.cayley[:, G.inverse]] @ h)
    torch.testing.assert_close(G.fourier(f).inner(G.fourier(h)), f @ h)
    involutions = int((G.cayley.diagonal() == 0).sum())
    assert sum(r.frobenius_schur * r.dimension for r in G.irreps) == involutions


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: cyclic(0), "expects a positive integer as n; found 0"),
        (lambda: dihedral(order=7), "positive multiple of 2 as order; found 7"),
        (lambda: dicyclic(order=6), "positive multiple of 4"),
        (lambda: quaternion(order=12), "power of two"),
        (lambda: from_permutations([]), "at least one permutation"),
        (lambda: from_permutations([[0, 0, 1]]), "generator 0 is not a permutation"),
        (lambda: from_matrices([[[2, 0], [0, 1]]], modulus=4), "generator 0 has no inverse modulo 4"),
        (lambda: from_matrices([[[1]]], modulus=1), "modulus of at least 2"),
        (lambda: from_cayley([[0]], names=["a", "b"]), "one for each of the 1 elements; found 2"),
        (lambda: symmetric(9), r"S9 is too large: 981.1 GiB for its Cayley table"),
        (lambda: direct(), "at least one group"),
        (lambda: semidirect(cyclic(3), cyclic(2), [[0, 1, 2]]), r"shape \(\|H\|, \|N\|\) = \(2, 3\); found \(1, 3\)"),
        (lambda: semidirect(cyclic(3), cyclic(2), [[0, 1, 2], [0, 0, 2]]), "element 1 is not a permutation"),
        (lambda: semidirect(cyclic(4), cyclic(2), [[0, 1, 2, 3], [0, 2, 1, 3]]), "not act by an automorphism"),
        (lambda: semidirect(cyclic(3), cyclic(3), [[0, 1, 2], [0, 2, 1], [0, 1, 2]]), "not a homomorphism"),
        (lambda: linear_action(symmetric(3), [[[1]]]), "S3 was not built as one"),
        (lambda: linear_action(cyclic(3), [[1]]), "expected matrices of shape"),
        (lambda: planes_by_quaternions(9), "odd prime p; found 9"),
    ],
)
def test_bad_input_of_constructors_is_one_clear_sentence(call: Callable[[], object], words: str) -> None:
    refused(call, words)
