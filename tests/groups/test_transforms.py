"""Fast transforms against their matrices and the FFT."""

import math

import pytest
import torch

from netgrain.groups import cyclic, direct, parse
from netgrain.groups.transforms import DenseTransform
from tests.groups.known_groups import TOLERANCE, signals


@pytest.mark.quick
@pytest.mark.parametrize("name", ["C8xC8:D8", "C7xC7:Q8", "D400", "C20xD10", "S4xD20", "D10xS4xC3", "Q8xC5xA4"])
def test_structured_transforms_against_their_matrices(name: str) -> None:
    G = parse(name)
    assert not isinstance(G._transform, DenseTransform)
    f = signals(G, 2) + 1j * signals(G, 2, seed=1)
    F = G.fourier(f)
    for block, irrep in zip(F.blocks, G.irreps, strict=True):
        expected = torch.tensordot(f, irrep.matrices, dims=1)
        torch.testing.assert_close(block, expected, atol=1e-9, rtol=0)
        a = torch.randint(G.order, (2, 50), generator=torch.Generator().manual_seed(0))
        torch.testing.assert_close(irrep.at(G.multiply(*a)), irrep.at(a[0]) @ irrep.at(a[1]), atol=1e-10, rtol=0)
    torch.testing.assert_close(F.inverse(), f, atol=TOLERANCE, rtol=0)
    sigma = torch.cat(
        [s.repeat_interleave(r.dimension, -1) for s, r in zip(F.singular_values(), G.irreps, strict=True)], -1
    )
    direct_way = torch.linalg.svdvals(G.regular(f[0]))
    torch.testing.assert_close(sigma[0].sort(descending=True).values, direct_way, atol=1e-9, rtol=0)


@pytest.mark.quick
@pytest.mark.parametrize("n", [1, 2, 7, 12, 300])
def test_cyclic_is_the_fft(n: int) -> None:
    f = signals(cyclic(n), 2)
    order = [
        int((torch.angle(r.at([1 % n])[0, 0, 0].conj()) / (2 * math.pi) * n).round()) % n for r in cyclic(n).irreps
    ]
    mine = torch.stack(cyclic(n).fourier(f).blocks, dim=-1)[:, 0, 0]
    torch.testing.assert_close(mine, torch.fft.fft(f)[:, order])


def test_abelian_is_the_fftn() -> None:
    G = direct(cyclic(4), cyclic(3), cyclic(5))
    f = signals(G)
    mine = torch.stack(G.fourier(f).blocks).flatten()
    theirs = torch.fft.fftn(f.reshape(4, 3, 5)).flatten()
    key = lambda z: (round(z.real, 6), round(z.imag, 6))  # noqa: E731
    assert sorted(map(key, mine.tolist())) == sorted(map(key, theirs.tolist()))
    torch.testing.assert_close(mine[0], theirs[0])
