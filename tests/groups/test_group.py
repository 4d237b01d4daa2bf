"""A group as a value: convolution, correlation, reordering. Nothing here depends on a basis."""

import copy
import pickle
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from netgrain.groups import Group, cyclic, dihedral, direct
from tests.groups.known_groups import BARE, BUILT, TOLERANCE, every_group, refused, signals


def convolution(G: Group, f: Tensor, h: Tensor) -> Tensor:
    """The definition, one sum at a time."""
    T, inverse, n = G.cayley, G.inverse, G.order
    return torch.stack([sum(f[T[u, inverse[v]]] * h[v] for v in range(n)) for u in range(n)])


def correlation(G: Group, x: Tensor, w: Tensor) -> Tensor:
    return torch.stack([sum(x[G.cayley[u, v]] * w[v] for v in range(G.order)) for u in range(G.order)])


@pytest.mark.quick
def test_reordered_group_is_the_authors_d8() -> None:
    D8, order = dihedral(order=8), [0, 4, 2, 6, 1, 5, 7, 3]  # e, r², r, r³, s, sr² , sr, sr³
    G = D8.reorder(order)
    assert G.names[:4] == ("e", "r^2", "r", "r^3")
    f = signals(D8)
    mine = sorted(torch.cat(D8.fourier(f).singular_values()).tolist())
    theirs = sorted(torch.cat(G.fourier(f[order]).singular_values()).tolist())
    assert mine == pytest.approx(theirs, abs=TOLERANCE)


def test_a_group_travels_and_is_not_copied() -> None:
    for G in (BUILT["C5xC5:Q8"], BARE["D8"], BUILT["S5"]):
        there = pickle.loads(pickle.dumps(G))  # noqa: S301
        assert there.names == G.names
        assert torch.equal(there.cayley, G.cayley)
        assert torch.equal(there.character_table, G.character_table)
        assert copy.deepcopy(G) is G


@pytest.mark.quick
@pytest.mark.parametrize("name", ["C12", "D8", "Q8"])
def test_convolution_and_correlation_are_their_definitions(name: str) -> None:
    for G in (BUILT[name], BARE[name]):
        f, h = signals(G), signals(G, seed=1)
        z = f + 1j * signals(G, seed=2)
        for a, b in ((f, h), (z, h), (h, z)):
            torch.testing.assert_close(G.convolve(a, b), convolution(G, a, b))
            torch.testing.assert_close(G.correlate(a, b), correlation(G, a, b))


@pytest.mark.parametrize("name", ["D8", "C5xC5:Q8", "C10xC10xC2"])
def test_batches_broadcast(name: str) -> None:
    G = BUILT[name]
    f, h = signals(G, 4, 1), signals(G, 3, seed=1)
    for method in (G.convolve, G.correlate):
        whole = method(f, h)
        assert whole.shape == (4, 3, G.order)
        for i, j in ((0, 0), (3, 2)):
            torch.testing.assert_close(whole[i, j], method(f[i, 0], h[j]))
        torch.testing.assert_close(method(f[0, 0], h), torch.stack([method(f[0, 0], one) for one in h]))


@every_group
def test_correlation_is_equivariant(G: Group) -> None:
    x, w = signals(G), signals(G, seed=1)
    for g in (0, 1, G.order // 2, G.order - 1):
        torch.testing.assert_close(G.correlate(G.translate(g, x), w), G.translate(g, G.correlate(x, w)))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: direct(cyclic(200), cyclic(200)).cayley, r"C200xC200 is too large: 11.9 GiB"),
        (lambda: cyclic(3).fourier(torch.zeros(4)), r"one value for each of the 3 elements; found shape \(4,\)"),
        (lambda: dihedral(order=8).reorder([1, 0, 2, 3, 4, 5, 6, 7]), "the identity 0 first"),
    ],
)
def test_bad_input_of_group_is_one_clear_sentence(call: Callable[[], object], words: str) -> None:
    refused(call, words)
