"""Both ends of a network: the sizes of the entry. Where it is and why not: test_reading."""

import pytest
import torch
from torch import nn

from netgrain.families.ends import structure_of
from tests import naive

CONVOLUTIONS = [
    (nn.Conv1d(1, 1, 3, stride=2, padding=1, bias=False), (7,)),
    (nn.Conv2d(1, 1, 3, padding=1, bias=False), (5, 6)),
    (nn.Conv2d(1, 1, (3, 2), stride=(2, 3), padding=(2, 0), dilation=(2, 1), bias=False), (8, 7)),
    (nn.Conv2d(1, 1, 2, padding="same", bias=False), (4, 4)),
    (nn.Conv3d(1, 1, 2, stride=(1, 2, 1), padding=(1, 0, 1), bias=False), (3, 4, 3)),
]


@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel")
@pytest.mark.quick
@pytest.mark.parametrize(("layer", "spatial"), CONVOLUTIONS)
def test_stem_carries_second_moments_as_the_convolution_does(layer: nn.Module, spatial: tuple[int, ...]) -> None:
    layer = layer.double()
    layout = torch.arange(torch.Size(spatial).numel()).reshape(1, *spatial)
    stem = structure_of(layer, layout)[0]
    assert stem is not None
    assert stem.out == tuple(layer(torch.zeros(1, 1, *spatial, dtype=torch.float64)).shape[2:])
    A = torch.randn(stem.out_size, 4, dtype=torch.float64)
    Q = A @ A.T
    pushed = stem.push(Q)
    torch.testing.assert_close(pushed, naive.spread(layer, spatial, Q))
    H = torch.randn(stem.size, stem.size, dtype=torch.float64)
    assert float((stem.pull(H) * Q).sum()) == pytest.approx(float((H * pushed).sum()))
    V = torch.randn(2, stem.size, dtype=torch.float64)
    torch.testing.assert_close(stem.scatter(stem.gather(V) @ Q), V @ pushed)
