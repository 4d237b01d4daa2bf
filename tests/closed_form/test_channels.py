"""One channel as a random function of position: moments after activations and sums, by hand."""

import math

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from netgrain.closed_form.channels import (
    Channel,
    ConstantChannel,
    GaussianChannel,
    NeedsMembers,
    Points,
    activated,
    summed,
)
from netgrain.closed_form.moments import identity
from netgrain.families.convolution import Taps
from netgrain.runtime.memory import MemoryShortage, within
from tests.closed_form.gaussians import known

RELU = known(torch.relu)


def white(variance: float) -> GaussianChannel:
    return GaussianChannel(identity((2,)).scaled(variance))


def second(channel: Channel) -> Tensor:
    return channel.second().full().spelled_out().matrices()[0]


def matrix(on: float, beside: float) -> Tensor:
    return torch.tensor([[on, beside], [beside, on]], dtype=torch.float64)


@pytest.mark.quick
def test_a_relu_of_two_independent_positions() -> None:
    """E[relu²] = K/2 and E[relu]² = K/2π; half of the slopes are on, a quarter of the pairs."""
    channel = activated(RELU, white(2.0))
    torch.testing.assert_close(second(channel), matrix(1.0, 1 / math.pi))
    torch.testing.assert_close(channel.mean(), torch.full((1, 2), 1 / math.sqrt(math.pi), dtype=torch.float64))
    slopes = white(2.0).slope_kernel(RELU).full().spelled_out().matrices()[0]
    torch.testing.assert_close(slopes, matrix(0.5, 0.25))


def test_sums() -> None:
    assert torch.equal(second(summed(white(2.0), white(3.0))), matrix(5.0, 0.0))
    assert torch.equal(second(summed(ConstantChannel(3.0, (2,)), white(2.0))), matrix(11.0, 9.0))
    torch.testing.assert_close(second(summed(activated(RELU, white(2.0)), white(3.0))), matrix(4.0, 1 / math.pi))
    with pytest.raises(NeedsMembers, match="both have a mean"):
        summed(activated(RELU, white(2.0)), activated(RELU, white(2.0)))


def test_numbers_that_are_known() -> None:
    assert torch.equal(second(ConstantChannel(2.0, (2,)).scaled(-1.5)), matrix(9.0, 9.0))
    x = torch.tensor([[1.0, 2.0]], dtype=torch.float64)
    assert second(Points(x)).tolist() == [[1.0, 2.0], [2.0, 4.0]]
    assert torch.equal(second(activated(RELU, ConstantChannel(3.0, (2,)))), matrix(9.0, 9.0))


@pytest.mark.parametrize("transposed_points", [False, True])
def test_patches_of_known_numbers_are_convolved_moments(transposed_points: bool) -> None:
    """K(q, q') = Σ x(c, sq + t) x(c, sq' + t), by a moment over all inputs and by an unfolding of PyTorch's."""
    generator = torch.Generator().manual_seed(0)
    x, v = torch.randn(1, 2, 7, 6, generator=generator).double(), torch.randn(3, 2, 7, 6, generator=generator).double()
    points = Points(x, v if transposed_points else None)
    taps = [Taps(7, 4, 3, 2, 1), Taps(6, 3, 2, 2, 0)]
    found, tangent = points.convolved(1, taps)
    for moment, slow, other in zip((found, tangent), points.traced([0]), (x, v), strict=True):
        if moment is None or slow is None:
            assert moment is slow is None
            continue
        for axis, along in enumerate(taps):
            slow = slow.convolved(axis, along, back=False)
        torch.testing.assert_close(moment.full().values, slow.full().values)
        U, W = (F.unfold(F.pad(p, (0, 0, 1, 1)), (3, 2), stride=2) for p in (x, other))
        torch.testing.assert_close(moment.full().matrices(), U.mT @ W)


def test_a_stem_is_counted_at_its_output() -> None:
    points = Points(torch.ones(1, 1, 200, 200, dtype=torch.float64))
    taps = [Taps(200, 10, 20, 20)] * 2
    with within("2 MB"):
        assert points.convolved(1, taps)[0].full().positions == 100
        with pytest.raises(MemoryShortage, match="40000 positions"):
            points.second()
