"""ResNet18: homogeneous, its maps, and where it activates."""

import torch
from torch.nn import functional as F

from tests.models.networks import images, small


def test_resnet_without_norm_is_homogeneous_up_to_the_head() -> None:
    model = small("resnet18")
    assert [n for n, _ in model.named_parameters() if n.endswith("bias")] == ["head.bias"]
    x = images()
    h, tripled = model(x) - model.head.bias, model(3 * x) - model.head.bias
    assert torch.allclose(tripled, 3 * h, atol=1e-6)
    assert h.abs().max() > 1e-5


def test_resnet_halves_the_map_three_times_and_keeps_the_stem_full() -> None:
    model = small("resnet18")
    sides = [model.stem(images()).shape[-1]]
    x = model.stem(images())
    for block in model.blocks:
        x = block(x)
        sides.append(x.shape[-1])
    assert sides == [16, 16, 16, 8, 8, 4, 4, 2, 2]


def test_resnet_activates_after_the_addition() -> None:
    block = small("resnet18").blocks[1]
    x = images(channels=16)
    expected = F.conv2d(F.conv2d(x, block.branch[0].weight, padding=1).relu(), block.branch[2].weight, padding=1)
    assert torch.allclose(block(x), (expected + x).relu(), atol=1e-6)
