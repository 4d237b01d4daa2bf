"""Networks of the closed form's tests, and its distance from sampled ones in standard errors."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn

import netgrain as ng

Make = Callable[[], nn.Module]


S = nn.Sequential


THOROUGH = "NETGRAIN_THOROUGH" in os.environ  # with it, as many members as docs/closed_form.md tells of


def thorough(members: int) -> int:
    return members if THOROUGH else members // 4


def closed(make: Make, shape: tuple[int, ...], **options: object) -> ng.Geometry:
    return ng.average_geometry(make, shape, method="closed-form", **options)


def sequence(*layers: Callable[[], nn.Module]) -> Make:
    return lambda: S(*(layer() for layer in layers))


def normal(make: Make, sd: float) -> Make:
    def made() -> nn.Module:
        net = make()
        for p in net.parameters():
            nn.init.normal_(p, std=sd)
        return net

    return made


class Forward(nn.Module):
    """A module from layers and a function of them."""

    def __init__(self, forward: Callable[[nn.ModuleDict, Tensor], Tensor], **layers: nn.Module) -> None:
        super().__init__()
        self.layers = nn.ModuleDict(layers)
        self.call = forward

    def forward(self, x: Tensor) -> Tensor:
        return self.call(self.layers, x)


closed_form = partial(ng.average_geometry, method="closed-form")


def images(shape: tuple[int, ...], count: int = 1) -> Tensor:
    return torch.randn(count, *shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def deviation(closed: ng.Geometry, sampled: ng.Geometry, v: Tensor) -> float:
    """Standard errors between sampled and closed energy along v."""
    v = v.flatten().double() / v.double().norm()
    form = sampled.form.batched(32)
    energies = torch.stack([(v * form.part(i).matvec(v[None])[0]).sum() for i in range(form.parts)])
    expected = float(v @ closed.matvec(v[None])[0])
    return float((energies.mean() - expected) / (energies.std() / form.parts**0.5))


def gaussian(make: Callable[[], nn.Sequential], gain: float = 1.5) -> Callable[[], nn.Sequential]:
    """The same networks with normal weights: their first pre-activations are Gaussian at any fan-in."""

    def made() -> nn.Sequential:
        net = make()
        for layer in net:
            if isinstance(layer, nn.Conv2d | nn.Linear):
                nn.init.normal_(layer.weight, std=(gain / layer.weight[0].numel()) ** 0.5)
                if layer.bias is not None:
                    nn.init.normal_(layer.bias, std=0.3)
        return net

    return made
