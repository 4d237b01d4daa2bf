"""Networks with and without an entry and a last layer, and the step that no trace sees through."""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class Net(nn.Module):
    """Any forward over a few named layers."""

    def __init__(self, forward: Callable[[nn.Module, Tensor], Tensor], **layers: nn.Module) -> None:
        super().__init__()
        for name, layer in layers.items():
            self.add_module(name, layer)
        self.run = forward

    def forward(self, x: Tensor) -> Tensor:
        return self.run(self, x)


class Opaque(torch.autograd.Function):
    """The identity, which no trace sees through."""

    @staticmethod
    def forward(ctx: object, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: object, g: Tensor) -> Tensor:
        return g


def opaque(make: Callable[[], nn.Module]) -> Callable[[], nn.Module]:
    """The same network, behind a step that cannot be traced."""

    def wrapped() -> nn.Module:
        return Net(lambda net, x: Opaque.apply(net.inner(x)), inner=make())

    return wrapped


def mlp() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 2))


def tokens() -> nn.Module:
    def forward(net: nn.Module, x: Tensor) -> Tensor:
        patches = x.reshape(-1, 1, 3, 2).flip(3).permute(0, 2, 1, 3).reshape(-1, 3, 2)
        return net.head(torch.tanh(net.embed(patches)).flatten(1)).squeeze(-1)

    return Net(forward, embed=nn.Linear(2, 4), head=nn.Linear(12, 1))


def strided() -> nn.Module:
    return nn.Sequential(nn.Conv1d(2, 3, 2, padding=1), nn.GELU(), nn.Flatten(), nn.Linear(12, 2))


def two(forward: Callable[[nn.Module, Tensor], Tensor]) -> Callable[[], nn.Module]:
    return lambda: Net(forward, a=nn.Linear(6, 6), b=nn.Linear(6, 6))


def hooked() -> nn.Module:
    net = nn.Sequential(nn.Linear(6, 6), nn.Tanh(), nn.Linear(6, 1))
    net[0].register_forward_hook(lambda _m, _i, out: out**2)
    return net


NO_ENTRY = {
    "around": (two(lambda n, x: n.b(n.a(x).tanh() + x)), "other way", "a"),
    "several": (two(lambda n, x: n.a(x) * n.b(x)), "several entries", ""),
    "ReLU first": (two(lambda n, x: n.b(n.a(x.relu()).tanh())), "no entry", ""),
    "sorted first": (two(lambda n, x: n.b(n.a(x.sort(1).values).tanh())), "no entry", ""),
    "mixed samples": (two(lambda n, x: n.b(n.a(x.flip(0)).tanh())), "no entry", ""),
    "by hand": (two(lambda n, x: n.b(F.linear(x, n.a.weight).tanh())), "no entry", ""),
    "used twice": (two(lambda n, x: n.a(n.a(x).tanh())), "used elsewhere", "a"),
    "seen again": (two(lambda n, x: n.b(n.a(x).tanh()) @ n.a.weight), "used elsewhere", "a"),
    "seen through a norm": (two(lambda n, x: n.b(n.a(x).tanh()) / n.a.weight.norm()), "used elsewhere", "a"),
    "seen by Python": (two(lambda n, x: n.b(n.a(x).tanh()) / float(n.a.weight.norm())), "used elsewhere", "a"),
    "hooked": (hooked, "own layer", "0"),
    "parametrised": (
        lambda: nn.Sequential(nn.utils.parametrizations.weight_norm(nn.Linear(6, 6)), nn.Linear(6, 1)),
        "computed weight",
        "0",
    ),
}


NO_LAST = {
    "softmax": (two(lambda n, x: n.b(n.a(x)).softmax(1)), "not linear"),
    "square": (two(lambda n, x: (y := n.b(n.a(x))) * y), "not linear"),
    "inverse": (two(lambda n, x: 1 / n.b(n.a(x))), "not linear"),
    "around": (two(lambda n, x: n.b(n.a(x).tanh()) + x), "other way"),
    "scaled": (two(lambda n, x: n.b(n.a(x).tanh()) * n.a.bias), "other way"),
    "none": (lambda: nn.Conv1d(1, 1, 3), "no last layer"),
    "tied": (two(lambda n, x: n.a(n.a(x).tanh())), "used elsewhere"),
}
