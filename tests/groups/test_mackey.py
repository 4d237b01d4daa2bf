"""Semidirect products by little groups."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from netgrain.groups import axioms, cyclic, dihedral, direct, from_cayley, p4m, semidirect
from tests.groups.known_groups import TOLERANCE, signals


def test_groups_of_order_6272_without_a_table() -> None:
    G = p4m(28)
    assert {d: G.dimensions.count(d) for d in sorted(set(G.dimensions))} == {1: 8, 2: 6, 4: 78, 8: 78}
    H = direct(cyclic(28), cyclic(28), dihedral(order=8))
    assert {d: H.dimensions.count(d) for d in sorted(set(H.dimensions))} == {1: 3136, 2: 784}
    rng = np.random.default_rng(0)
    for K in (G, H):
        a, b = torch.from_numpy(rng.integers(0, K.order, (2, 500)))
        for i in (0, 1, len(K.irreps) // 2, len(K.irreps) - 1):
            irrep = K.irreps[i]
            torch.testing.assert_close(irrep.at(K.multiply(a, b)), irrep.at(a) @ irrep.at(b), atol=TOLERANCE, rtol=0)
        f, h = signals(K, 2), signals(K, seed=1)
        F = K.fourier(f)
        torch.testing.assert_close(F.inverse(), f, atol=TOLERANCE, rtol=0)
        torch.testing.assert_close(F.inner(K.fourier(h)), f @ h, atol=1e-9, rtol=0)
        u = rng.integers(0, K.order, 5)  # the convolution at a few elements, from its definition
        v = torch.arange(K.order)
        got = K.convolve(f, h)
        for place in u.tolist():
            quotient = K.multiply(torch.tensor(place), K.inverse[v])
            torch.testing.assert_close(got[:, place], f[:, quotient] @ h, atol=1e-9, rtol=0)
        assert "cayley" not in K.__dict__
        assert sum(r.frobenius_schur * r.dimension for r in K.irreps) == int((K.multiply(v, v) == 0).sum())


@pytest.mark.quick
@given(st.integers(1, 9), st.integers(1, 6), st.integers(0, 100))
@settings(max_examples=25, deadline=None)
def test_random_metacyclic_groups(n: int, m: int, pick: int) -> None:
    units = [u for u in range(n) if pow(u, m, n) == 1 % n]
    u = units[pick % len(units)]
    G = semidirect(cyclic(n), cyclic(m), [[a * pow(u, h, n) % n for a in range(n)] for h in range(m)])
    axioms.check_table(G.cayley.numpy())
    mine, bare = G._transform, from_cayley(G.cayley)
    assert mine.sizes == bare._transform.sizes
    torch.testing.assert_close(G.character_table, bare.character_table, atol=1e-9, rtol=0)
    for irrep in G.irreps:
        rho = irrep.matrices
        torch.testing.assert_close(rho[G.cayley], rho[:, None] @ rho[None], atol=TOLERANCE, rtol=0)
