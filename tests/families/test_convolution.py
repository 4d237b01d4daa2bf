"""The index map of a convolution against PyTorch's own."""

import itertools

import pytest
import torch
from torch.nn import functional as F

from netgrain.families.convolution import ConvStem, Taps, gathered, scattered, unfolded

STEMS = [
    ConvStem((5,), (3,), (1,), ((1, 1),), (1,)),
    ConvStem((7,), (2,), (3,), ((0, 1),), (2,)),
    ConvStem((2,), (3,), (1,), ((3, 0),), (1,)),  # a kernel entry that meets no input
    ConvStem((4, 5), (2, 3), (1, 2), ((1, 0), (1, 1)), (1, 1)),
    ConvStem((4, 4), (2, 2), (2, 2), ((0, 0), (0, 0)), (1, 1)),
]


def shifts(stem: ConvStem) -> list[torch.Tensor]:
    """S_Δᵀ, (out, input), for every kernel entry Δ, by a convolution with a kernel that is one there."""
    found = []
    pads = [p for lo_hi in reversed(stem.padding) for p in lo_hi]
    images = F.pad(torch.eye(stem.size, dtype=torch.float64).reshape(stem.size, 1, *stem.spatial), pads)
    convolve = {1: F.conv1d, 2: F.conv2d}[len(stem.spatial)]
    for entry in itertools.product(*(range(k) for k in stem.kernel)):
        kernel = torch.zeros(1, 1, *stem.kernel, dtype=torch.float64)
        kernel[(0, 0, *entry)] = 1
        found.append(convolve(images, kernel, stride=stem.stride, dilation=stem.dilation).flatten(1).T)
    return found


@pytest.mark.quick
@pytest.mark.parametrize("stem", STEMS)
def test_every_map_is_a_sum_over_kernel_entries(stem: ConvStem) -> None:
    generator = torch.Generator().manual_seed(0)
    S = shifts(stem)
    assert S[0].shape == (stem.out_size, stem.size)
    U = torch.stack(S).sum(0)
    V = torch.randn(3, stem.size, generator=generator, dtype=torch.float64)
    assert torch.allclose(stem.window_sums(V), V @ U.T)
    assert torch.allclose(stem.scattered_alike(V @ U.T), V @ U.T @ U)
    first, second, shared = stem.overlaps()
    overlaps = torch.zeros(stem.out_size, stem.out_size, dtype=torch.float64)
    overlaps[first, second] = shared
    assert torch.equal(overlaps, U @ U.T)
    Q = torch.randn(stem.out_size, stem.out_size, generator=generator, dtype=torch.float64)
    H = torch.randn(stem.size, stem.size, generator=generator, dtype=torch.float64)
    V = torch.randn(3, stem.size, generator=generator, dtype=torch.float64)
    U = torch.randn(3, len(S), stem.out_size, generator=generator, dtype=torch.float64)
    torch.testing.assert_close(stem.push(Q), sum(s.T @ Q @ s for s in S))
    torch.testing.assert_close(stem.pull(H), sum(s @ H @ s.T for s in S))
    torch.testing.assert_close(stem.pushed_and_pulled(Q), stem.pull(stem.push(Q)))
    patches = V.reshape(3, *stem.spatial)
    for k, taps in enumerate(stem.taps):
        patches = unfolded(patches, 1 + 2 * k, taps)
    order = [0, *range(1, patches.dim(), 2), *range(2, patches.dim(), 2)]
    torch.testing.assert_close(patches.permute(order).reshape(3, len(S), -1), stem.gather(V))
    torch.testing.assert_close(stem.gather(V), torch.stack([V @ s.T for s in S], 1))
    torch.testing.assert_close(stem.scatter(U), sum(U[:, i] @ s for i, s in enumerate(S)))


def test_one_axis_is_the_map_of_one_dimension() -> None:
    for stem in STEMS[:3]:
        taps = Taps(stem.size, stem.out_size, stem.kernel[0], stem.stride[0], stem.padding[0][0], stem.dilation[0])
        H = torch.randn(stem.size, stem.size, dtype=torch.float64)
        assert torch.equal(gathered(H, 0, 1, taps), stem.pull(H))
        Q = torch.randn(stem.out_size, stem.out_size, dtype=torch.float64)
        assert torch.equal(scattered(Q, 0, 1, taps), stem.push(Q))


def test_patches_and_squares() -> None:
    assert [stem.is_patching for stem in STEMS] == [False, False, False, False, True]
    assert [stem.is_square for stem in STEMS] == [False, False, False, False, True]


def test_a_map_that_does_nothing_is_recognised() -> None:
    x = torch.arange(25.0).reshape(5, 5)
    for taps in (Taps(5, 5, 1), Taps(5, 5, 3, 1, 1), Taps(5, 3, 1, 2), Taps(5, 4, 1), Taps(5, 5, 1, 1, 1)):
        same = taps.size == taps.out and torch.equal(gathered(x, 0, 1, taps), x)
        assert taps.does_nothing == same
