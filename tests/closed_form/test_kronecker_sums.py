"""Sums of Kronecker products in fewer terms."""

import pytest
import torch

from netgrain.geometry.structured_forms import Separated
from tests.geometry.networks import GRIDS, _factors, _kron


@pytest.mark.quick
@pytest.mark.parametrize("axes", [*GRIDS, (9, 14)])
@pytest.mark.parametrize("symmetric", [True, False])
def test_compressed_is_the_same_matrix(axes: tuple[int, ...], symmetric: bool) -> None:
    factors = _factors(axes, 4)
    if not symmetric:
        factors = tuple(F + torch.triu(F.roll(1, 0)) for F in factors)
    form = Separated(tuple(torch.cat([F, 2 * F, F[:1], 0 * F]) for F in factors))
    small = form.compressed()
    assert small.terms <= (4 if len(axes) > 1 else 1)
    assert float((small.dense() - _kron(form)).abs().max()) <= 1e-13 * float(_kron(form).abs().max())
    assert all(torch.equal(F, F.mT) for F in small.factors) == (symmetric or axes == (1,))


def test_compressed_finds_the_rank_and_keeps_what_is_small() -> None:
    a, b = _factors((20, 30), 6)
    mixed = torch.randn(40, 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    # dependent, not merely repeated, terms; sizes fall by nine orders of magnitude, where Gram matrices would be blind
    weights = 10.0 ** -torch.arange(0, 12, 2, dtype=torch.float64)
    form = Separated(
        (torch.einsum("sr,rij->sij", mixed, a), torch.einsum("sr,rij->sij", mixed, b * weights[:, None, None]))
    )
    small = form.compressed()
    assert small.terms == 6
    assert float((small.dense() - form.dense()).abs().max()) <= 1e-13 * float(form.dense().abs().max())
    assert form.compressed(1e-5).terms < 6
    zero = Separated((0 * a, b)).compressed()
    assert (zero.terms, zero.trace()) == (1, 0)


def test_compressed_merges_over_three_axes() -> None:
    a, b = _factors((4, 5), 2)
    channels = torch.eye(3, dtype=torch.float64)[None] * torch.arange(1.0, 9.0, dtype=torch.float64)[:, None, None]
    for order in ((0, 1, 2), (1, 2, 0), (1, 0, 2)):
        stacks = (channels, a.repeat(4, 1, 1), b.repeat(4, 1, 1))
        form = Separated(tuple(stacks[i] for i in order))
        small = form.compressed()
        assert small.terms == 2
        torch.testing.assert_close(small.dense(), _kron(form), rtol=1e-13, atol=1e-12)
