"""Groups with known irreps, each with its structure and as a bare table; what every representation must satisfy."""

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from netgrain.groups import Group, from_cayley, parse
from netgrain.runtime.errors import NetgrainError

TOLERANCE = 1e-10


NAMES = ("C12", "D8", "Q8", "A5", "S5", "D60", "D64", "C3xC3xD8", "C5xC5:Q8", "C10xC10xC2")


DIMENSIONS = {
    "C12": {1: 12},
    "D8": {1: 4, 2: 1},
    "Q8": {1: 4, 2: 1},
    "A5": {1: 1, 3: 2, 4: 1, 5: 1},
    "S5": {1: 2, 4: 2, 5: 2, 6: 1},
    "D60": {1: 4, 2: 14},
    "D64": {1: 4, 2: 15},
    "C3xC3xD8": {1: 36, 2: 9},
    "C5xC5:Q8": {1: 4, 2: 1, 8: 3},
    "C10xC10xC2": {1: 200},
}


BUILT = {name: parse(name) for name in NAMES}


BARE = {name: from_cayley(group.cayley, name=name) for name, group in BUILT.items()}  # the structure forgotten


EVERY = [*BUILT.values(), *BARE.values()]


every_group = pytest.mark.parametrize(
    "G", EVERY, ids=[f"{G.name}-{kind}" for kind, some in (("built", BUILT), ("bare", BARE)) for G in some.values()]
)


def signals(G: Group, *batch: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(*batch, G.order, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def check_representation(G: Group) -> None:
    """Every law of spec 2.6 that speaks of irreps."""
    n, T = G.order, G.cayley
    assert len(G.irreps) == len(G.classes)
    assert sum(irrep.dimension**2 for irrep in G.irreps) == n
    rows = []
    for d in sorted(set(G.dimensions)):
        same = [irrep for irrep in G.irreps if irrep.dimension == d]
        rho = torch.stack([irrep.matrices for irrep in same])  # (irreps, n, d, d)
        assert n % d == 0
        assert rho.dtype == torch.complex128
        assert rho.shape == (len(same), n, d, d)
        assert (rho @ rho.mH - torch.eye(d)).abs().max() < TOLERANCE
        for a in range(n):
            assert (rho[:, T[a]] - rho[:, a, None] @ rho).abs().max() < TOLERANCE
        characters = torch.stack([irrep.character for irrep in same])
        assert (characters - rho.diagonal(dim1=-2, dim2=-1).sum(-1)).abs().max() < TOLERANCE
        rows += [math.sqrt(d / n) * one.flatten(1).T for one in rho]
    F = torch.cat(rows)
    torch.testing.assert_close(F @ F.mH, torch.eye(n).to(F), atol=TOLERANCE, rtol=0)  # Schur, irreducibility
    table, sizes = G.character_table, torch.tensor([float(len(c)) for c in G.classes]).to(torch.complex128)
    first = [int(c[0]) for c in G.classes]
    torch.testing.assert_close(table, torch.stack([r.character[first] for r in G.irreps]), atol=TOLERANCE, rtol=0)
    identity = torch.eye(len(first)).to(table)
    torch.testing.assert_close(table * sizes @ table.mH / n, identity, atol=TOLERANCE, rtol=0)
    torch.testing.assert_close(table.mH @ table * sizes / n, identity, atol=TOLERANCE, rtol=0)
    assert torch.allclose(table[0], torch.ones_like(table[0]))  # the trivial irrep is first
    assert [r.dimension for r in G.irreps] == sorted(r.dimension for r in G.irreps)
    involutions = int((T.diagonal() == 0).sum())
    assert sum(r.frobenius_schur * r.dimension for r in G.irreps) == involutions
    for irrep in G.irreps:
        mean = irrep.character[T.diagonal()].mean()
        assert abs(mean - irrep.frobenius_schur) < TOLERANCE


def refused(call: Callable[[], object], words: str) -> None:
    """An error of one line that says this."""
    with pytest.raises(NetgrainError, match=words) as e:
        call()
    assert "\n" not in str(e.value)
