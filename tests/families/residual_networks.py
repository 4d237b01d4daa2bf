"""Small residual networks that start with everything on, or with one thing off."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.families.networks import Net

Make = Callable[[], nn.Module]
WIDTH = 6


def residual(branch_end: Callable[[nn.Module, Tensor], Tensor], **more: Callable[[], object]) -> Make:
    """Two residual branches, each ending in a function of the network; more: layers and parameters by name."""

    def forward(net: nn.Module, x: Tensor) -> Tensor:
        h = net.stem(x)
        return net.head(h + branch_end(net, torch.tanh(net.branch(h))))

    def make() -> nn.Module:
        layers = {"stem": nn.Linear(5, WIDTH), "branch": nn.Linear(WIDTH, WIDTH), "head": nn.Linear(WIDTH, 3)}
        net = Net(forward, **layers)
        for name, build in more.items():
            made = build()
            if isinstance(made, nn.Module):
                net.add_module(name, made)
            else:
                net.register_parameter(name, nn.Parameter(made))
        return net

    return make


def zeroed(make: Make, name: str) -> Make:
    def built() -> nn.Module:
        model = make()
        nn.init.zeros_(model.get_parameter(name))
        return model

    return built


class ResponseNorm(nn.Module):
    """x + γ·(x·n(x)) + β."""

    def __init__(self) -> None:
        super().__init__()
        self.gamma, self.beta = nn.Parameter(torch.zeros(WIDTH)), nn.Parameter(torch.zeros(WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.gamma * (x * x.norm(dim=-1, keepdim=True)) + self.beta


class Standardised(nn.Linear):
    """A linear layer whose weight is standardised and then multiplied by a gain."""

    def __init__(self, gain: float) -> None:
        super().__init__(WIDTH, WIDTH)
        self.gain = nn.Parameter(torch.full((WIDTH, 1), gain))

    def forward(self, x: Tensor) -> Tensor:
        w = (self.weight - self.weight.mean(1, keepdim=True)) / self.weight.std(1, keepdim=True)
        return F.linear(x, w * self.gain, self.bias)


def norm() -> nn.Module:
    return nn.BatchNorm1d(WIDTH)


def scale(value: float, *sizes: int) -> Callable[[], Tensor]:
    return lambda: torch.full(sizes or (WIDTH,), value)


def multiplied(net: nn.Module, h: Tensor) -> Tensor:
    return h * net.gamma


def reshaped(net: nn.Module, h: Tensor) -> Tensor:
    return h.mul(net.gamma.view(1, -1))


ON: dict[str, Make] = {
    "plain": lambda: nn.Sequential(nn.Linear(5, WIDTH), nn.BatchNorm1d(WIDTH), nn.ReLU(), nn.Linear(WIDTH, 3)),
    "norm": residual(lambda net, h: net.norm(h), norm=norm),
    "scale": residual(multiplied, gamma=scale(0.5)),
    "random scale": residual(multiplied, gamma=lambda: 1e-3 * torch.randn(WIDTH)),
    "one plus zero": residual(lambda net, h: h * (1 + net.gamma), gamma=scale(0.0)),
    "exp of zero": residual(lambda net, h: h * net.gamma.exp(), gamma=scale(0.0)),
    "added": residual(lambda net, h: h + net.gamma, gamma=scale(0.0)),
    "no way around": residual(lambda net, h: h, gamma=scale(1e-3)),
}

# what is off: kind, count, of, the parameter, and where it starts
OFF: dict[str, tuple[Make, str, int, int, str, float]] = {
    "norm": (zeroed(ON["norm"], "norm.weight"), "norm", 1, 1, "norm.weight", 0.0),
    "gain": (residual(lambda net, h: (2 * h).mul_(net.gain), gain=scale(0.0, 1)), "gain", 1, 1, "gain", 0.0),
    "scale": (residual(multiplied, gamma=scale(1e-6)), "layer scale", 1, 1, "gamma", 1e-6),
    "reshaped": (residual(reshaped, gamma=scale(1e-5)), "layer scale", 1, 1, "gamma", 1e-5),
    "addcmul": (
        residual(lambda net, h: torch.addcmul(net.beta, net.gamma, h), gamma=scale(1e-4), beta=scale(0.0)),
        "layer scale",
        1,
        1,
        "gamma",
        1e-4,
    ),
    "standardised": (
        residual(lambda net, h: net.b(net.a(h)), a=lambda: Standardised(1.0), b=lambda: Standardised(0.0)),
        "gain",
        1,
        2,
        "b.gain",
        0.0,
    ),
    "response norm": (
        residual(lambda net, h: net.grn(h), grn=ResponseNorm),
        "response norm",
        1,
        1,
        "grn.gamma",
        0.0,
    ),
    "layer": (zeroed(ON["norm"], "branch.weight"), "layer", 1, 3, "branch.weight", 0.0),
    "head": (zeroed(ON["norm"], "head.weight"), "head", 1, 1, "head.weight", 0.0),
    "norm in a chain": (zeroed(ON["plain"], "1.weight"), "norm", 1, 1, "1.weight", 0.0),
}
