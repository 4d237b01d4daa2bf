"""The built-in models, small, and what tests of several of them need."""

from collections.abc import Callable, Iterator

import torch
from torch import Tensor, nn

from netgrain.models import MLP, VGG11, LeNet, ResNet18, SmallLeNet, ViT

MODELS = {"mlp": MLP, "lenet": LeNet, "smalllenet": SmallLeNet, "vgg11": VGG11, "resnet18": ResNet18, "vit": ViT}


NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.GroupNorm, nn.LayerNorm)


def small(name: str, **options: object) -> nn.Module:
    """A quarter of the width on 16×16 grey images with three outputs, the same weights every time."""
    torch.manual_seed(0)
    return MODELS[name](**{"channels": 1, "image_size": 16, "outputs": 3, "width": 0.25} | options)


def count(make: Callable[[], nn.Module]) -> int:
    return sum(p.numel() for p in make().parameters())


def images(*, channels: int = 1, size: int = 16, batch: int = 2) -> Tensor:
    return torch.randn(batch, channels, size, size, generator=torch.Generator().manual_seed(1))


def leaves(module: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    for name, child in module.named_modules(remove_duplicate=False):
        if not list(child.children()):
            yield name, child
