"""VGG11: its pools and its initialisation."""

import pytest
import torch
from torch import nn

from netgrain.models import VGG11
from tests.models.networks import leaves


@pytest.mark.parametrize(("size", "pools"), [(1, 0), (8, 3), (16, 4), (32, 5), (64, 5)])
def test_vgg_pools_only_maps_larger_than_one(size: int, pools: int) -> None:
    parts = [part for _, part in leaves(VGG11(image_size=size, width=0.02))]
    assert sum(isinstance(part, nn.MaxPool2d) for part in parts) == pools


def test_vgg_can_average() -> None:
    parts = [type(part) for _, part in leaves(VGG11(width=0.02, pool="avg"))]
    assert parts.count(nn.AvgPool2d) == 5
    assert nn.MaxPool2d not in parts


def test_vgg_convolutions_start_with_variance_two_over_fan_out() -> None:
    torch.manual_seed(0)
    for _, part in leaves(VGG11(width=0.25)):
        if isinstance(part, nn.Conv2d):
            n, variance = part.weight.numel(), 2 / (9 * part.out_channels)
            assert abs(part.weight.var().item() - variance) < 4 * variance * (2 / n) ** 0.5
            assert abs(part.weight.mean().item()) < 4 * (variance / n) ** 0.5
            assert part.bias.abs().max() == 0
