"""Irreducible representations by every route."""

import itertools
import math

import numpy as np
import pytest

from netgrain.groups import Group, alternating, dihedral, from_cayley, irreps, symmetric
from tests.groups.known_groups import BARE, DIMENSIONS, TOLERANCE, check_representation, every_group


@every_group
def test_irreps(G: Group) -> None:
    found = {d: G.dimensions.count(d) for d in sorted(set(G.dimensions))}
    assert found == DIMENSIONS[G.name]
    check_representation(G)


def test_a_bad_draw_is_drawn_again(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    cuts = irreps._cuts

    def first_merged(values: np.ndarray) -> np.ndarray:
        calls.append(1)
        return cuts(values)[1:] if len(calls) == 1 else cuts(values)

    monkeypatch.setattr(irreps, "_cuts", first_merged)
    G = dihedral(order=12)
    found = irreps.split_regular(from_cayley(G.cayley).structure, G._labels)
    assert len(calls) == 2
    assert sorted(rho.shape[-1] for rho in found) == [1, 1, 1, 1, 2, 2]


@pytest.mark.quick
def test_known_character_tables() -> None:
    def rows(G: Group) -> list[tuple[float, ...]]:
        sizes = [(len(c), o) for c, o in zip(G.classes, G.class_orders, strict=True)]
        assert G.character_table.imag.abs().max() < TOLERANCE
        order = sorted(range(len(sizes)), key=lambda i: sizes[i])
        return sorted(tuple(round(v, 6) + 0.0 for v in row) for row in G.character_table.real[:, order].tolist())

    phi = (1 + math.sqrt(5)) / 2
    # A5: classes by size 1, 12, 12, 15, 20
    table = rows(alternating(5))
    expected = [
        (1, 1, 1, 1, 1),
        (3, phi, 1 - phi, -1, 0),
        (3, 1 - phi, phi, -1, 0),
        (4, -1, -1, 0, 1),
        (5, 0, 0, 1, -1),
    ]
    assert table == sorted(tuple(round(v, 6) + 0.0 for v in row) for row in expected)
    # S5: class sizes (orders) 1, 10 (2), 15 (2), 20 (3), 20 (6), 24 (5), 30 (4)
    expected = [
        (1, 1, 1, 1, 1, 1, 1),
        (1, -1, 1, 1, -1, 1, -1),
        (4, 2, 0, 1, -1, -1, 0),
        (4, -2, 0, 1, 1, -1, 0),
        (5, 1, 1, -1, 1, 0, -1),
        (5, -1, 1, -1, -1, 0, 1),
        (6, 0, -2, 0, 0, 1, 0),
    ]
    assert rows(symmetric(5)) == sorted(tuple(map(float, row)) for row in expected)


def test_d8_and_q8_share_their_table_but_not_their_types() -> None:
    D8, Q8 = BARE["D8"], BARE["Q8"]
    match = [
        order
        for order in itertools.permutations(range(5))
        if {tuple(row) for row in D8.character_table.real.round().long().tolist()}
        == {tuple(row) for row in Q8.character_table.real[:, list(order)].round().long().tolist()}
    ]
    assert match
    assert [r.frobenius_schur for r in D8.irreps] == [1, 1, 1, 1, 1]
    assert [r.frobenius_schur for r in Q8.irreps] == [1, 1, 1, 1, -1]
    assert "quaternionic" in repr(Q8.irreps[-1])
