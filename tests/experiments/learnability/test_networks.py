"""Networks of the experiment: shapes, sizes, and what the two that are ours compute."""

import pytest
import torch
from torch import nn

from netgrain import NetgrainError
from netgrain.experiments.learnability.networks import NETWORKS, DepthwiseCNN, Mixer, MixerBlock, family


@pytest.mark.parametrize("name", NETWORKS)
def test_networks_take_images_and_some_take_tables(name: str) -> None:
    net = family(name, (3, 16, 16), 5)().eval()
    assert net(torch.randn(2, 3, 16, 16)).shape == (2, 5)
    assert sum(p.numel() for p in net.parameters()) < 250_000
    if NETWORKS[name].tables:
        assert family(name, (13, 1, 1), 3)()(torch.randn(2, 13, 1, 1)).shape == (2, 3)


def test_at_least_eight_kinds() -> None:
    assert len(NETWORKS) >= 8
    with pytest.raises(NetgrainError, match="did you mean 'LeNet'"):
        family("LeNett", (1, 16, 16), 2)


def test_a_mixer_block_is_two_residual_perceptrons() -> None:
    block, x = MixerBlock(4, 6).double(), torch.randn(2, 4, 6, dtype=torch.float64)

    def perceptron(layers: nn.Sequential, rows: torch.Tensor) -> torch.Tensor:
        first, _, second = layers
        return torch.nn.functional.gelu(rows @ first.weight.T + first.bias) @ second.weight.T + second.bias

    normed = (x - x.mean(2, keepdim=True)) / (x.var(2, unbiased=False, keepdim=True) + 1e-5).sqrt()
    mixed = x + torch.stack([torch.stack([perceptron(block.tokens, n[:, c]) for c in range(6)], 1) for n in normed])
    normed = (mixed - mixed.mean(2, keepdim=True)) / (mixed.var(2, unbiased=False, keepdim=True) + 1e-5).sqrt()
    expected = mixed + torch.stack([torch.stack([perceptron(block.channels, row) for row in n]) for n in normed])
    assert torch.allclose(block(x), expected, atol=1e-12)


def test_a_mixer_mixes_patches() -> None:
    net, x = Mixer(channels=1, image_size=16, outputs=2).eval(), torch.zeros(2, 1, 16, 16)
    x[1, 0, 0, 0], x.requires_grad = 1.0, True
    tokens = net.blocks(net.embed(x).flatten(2).transpose(1, 2))
    assert not torch.equal(tokens[0, 5], tokens[1, 5])  # a pixel of patch 0 reaches patch 5


def test_depthwise_convolutions_keep_channels_apart() -> None:
    net = DepthwiseCNN(channels=1, image_size=16, outputs=2)
    deep = [m for m in net.modules() if isinstance(m, nn.Conv2d) and m.groups > 1]
    assert len(deep) == 4
    assert all(m.groups == m.in_channels == m.out_channels for m in deep)
