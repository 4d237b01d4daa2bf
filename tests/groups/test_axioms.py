"""The axioms, checked on tables; classes and generators."""

import pytest

from netgrain.groups import Group, axioms, dihedral, from_cayley
from netgrain.runtime.errors import NetgrainError
from tests.groups.known_groups import every_group


@every_group
def test_classes_are_the_orbits_of_conjugation(G: Group) -> None:
    T, inverse = G.cayley, G.inverse
    found = {frozenset(c.tolist()) for c in G.classes}
    assert found == {frozenset(T[T[:, x], inverse].tolist()) for x in range(G.order)}
    assert [int(c[0]) for c in G.classes] == sorted(int(c.min()) for c in G.classes)


@every_group
def test_names_are_different_and_generators_generate(G: Group) -> None:
    assert len(set(G.names)) == G.order
    assert axioms.closure([0], G.generators, G.order, G.structure.multiply).all()


@pytest.mark.quick
@pytest.mark.parametrize(
    ("table", "words"),
    [
        ([[0, 1, 2], [1, 2, 0]], "square array of shape"),
        ([[0.5]], "holds the integers"),
        ([[0, 1], [1, 7]], r"entry \(1, 1\) is 7, outside 0..1"),
        ([[0, 1, 2], [1, 1, 0], [2, 0, 1]], "row 1 holds 1 twice"),
        ([[0, 1, 2], [1, 2, 0], [1, 0, 2]], "column 0 holds 1 twice"),
        ([[1, 0], [0, 1]], "the identity is element 1; list it first"),
        ([[0, 2, 1], [2, 1, 0], [1, 0, 2]], "no element e has ex = xe = x"),
    ],
)
def test_a_table_that_is_no_group_says_why(table: object, words: str) -> None:
    with pytest.raises(NetgrainError, match=words):
        from_cayley(table)


LOOP = [[0, 1, 2, 3, 4], [1, 0, 3, 4, 2], [2, 4, 0, 1, 3], [3, 2, 4, 0, 1], [4, 3, 1, 2, 0]]  # a loop of order 5


@pytest.mark.parametrize("exhaustive", [200, 1])
def test_a_loop_is_not_associative(monkeypatch: pytest.MonkeyPatch, exhaustive: int) -> None:
    monkeypatch.setattr(axioms, "EXHAUSTIVE", exhaustive)
    with pytest.raises(NetgrainError, match=r"not associative, \((\d)·(\d)\)·(\d) = (\d) but \1·\(\2·\3\) = (\d)") as e:
        from_cayley(LOOP)
    a, b, c, left, right = map(int, [ch for ch in str(e.value) if ch.isdigit()][:3] + _results(str(e.value)))
    assert LOOP[LOOP[a][b]][c] == left != right == LOOP[a][LOOP[b][c]]


def _results(text: str) -> list[str]:
    return [part.strip()[0] for part in text.split("=")[1:]]


def test_lights_test_accepts_and_refuses_large_tables() -> None:
    T = dihedral(order=400).cayley.clone()
    axioms.check_table(T.numpy())
    z, i, c = 200, 300, 7  # z = r¹⁰⁰, an involution: rows i, iz and columns c, zc hold two elements crosswise
    j, d = int(T[i, z]), int(T[z, c])
    assert T[i, c] == T[j, d] != T[i, d] == T[j, c]
    T[[i, i, j, j], [c, d, c, d]] = T[[i, i, j, j], [d, c, d, c]]  # still a latin square, no longer a group
    with pytest.raises(NetgrainError, match="not associative"):
        from_cayley(T)
