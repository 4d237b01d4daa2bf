"""Sums of values that share channels: the maps add up, not the moments."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import netgrain as ng
from tests import naive
from tests.closed_form.networks import Forward, closed


class PoolAndSkip(nn.Module):
    """PoolFormer's mixer around a skip: h + ½ (pool(h) − h), and the same channels once more after a crop and a pad."""

    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Conv1d(1, 2, 2, bias=False)
        self.b = nn.Conv1d(2, 1, 2, bias=False)
        self.c = nn.Linear(3, 1, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        h = torch.tanh(self.a(x))
        h = h + 0.5 * (F.avg_pool1d(h, 3, 1, 1, count_include_pad=False) - h)
        h = h - F.pad(h[..., 1:], (1, 0))
        return self.c(self.b(h).flatten(1))


class Cancelled(nn.Module):
    """Identity parts that cancel: (norm(h) + f(h)) − norm(h) = f(h), as in RepMixer."""

    def __init__(self, whole: bool = True) -> None:
        super().__init__()
        self.whole = whole
        self.a, self.b, self.c = (nn.Conv1d(n, m, 2, bias=False) for n, m in ((1, 2), (2, 2), (2, 1)))
        self.norm = nn.BatchNorm1d(2)

    def forward(self, x: Tensor) -> Tensor:
        h = self.a(x)
        branch = F.pad(self.b(h), (0, 1))
        h = (self.norm(h) + branch) - self.norm(h) if self.whole else branch
        return self.c(torch.tanh(h)).flatten(1)


@pytest.mark.quick
def test_pool_minus_identity_over_every_sign() -> None:
    G = closed(PoolAndSkip, (1, 5))
    expected = naive.every_sign(PoolAndSkip().double(), (1, 5))
    assert G.exact
    assert torch.allclose(G.matrix(), expected, rtol=1e-10, atol=1e-12 * float(expected.max()))


def test_parts_that_cancel() -> None:
    assert torch.allclose(
        closed(Cancelled, (1, 5)).matrix(), closed(lambda: Cancelled(False), (1, 5)).matrix(), rtol=1e-12, atol=1e-15
    )


def activated_branch(m: nn.ModuleDict, x: Tensor) -> Tensor:
    h = F.gelu(m["a"](x))
    return m["c"](h + F.gelu(m["b"](h)))


def input_skip(m: nn.ModuleDict, x: Tensor) -> Tensor:
    return m["c"](torch.tanh(m["b"](x + torch.tanh(m["s"](x)))))


def depthwise(m: nn.ModuleDict, x: Tensor) -> Tensor:
    return m["c"](F.relu(m["d"](m["e"](x[:, None]))).flatten(1))


LOCAL: dict[str, Callable[[], nn.Module]] = {
    "branch that ends in an activation": lambda: Forward(
        activated_branch, a=nn.Linear(6, 8), b=nn.Linear(8, 8), c=nn.Linear(8, 2)
    ),
    "input skip": lambda: Forward(input_skip, s=nn.Linear(6, 6), b=nn.Linear(6, 8), c=nn.Linear(8, 2)),
    "depthwise": lambda: Forward(
        depthwise, e=nn.Conv1d(1, 8, 3, padding=1), d=nn.Conv1d(8, 8, 3, groups=8), c=nn.Linear(32, 2)
    ),
}


@pytest.mark.parametrize("name", LOCAL)
def test_sums_and_slopes_at_the_values_of_members(name: str) -> None:
    probe = ng.Gaussian(1.0)
    G = closed(LOCAL[name], (6,), probe=probe, probes=24)
    plain = ng.average_geometry(
        LOCAL[name], (6,), probe=probe, members=200, probes=4, first_layer="never", seed=3, workers=1
    )
    assert "local" in [step.kind for step in G.about.steps]
    same = ng.corr(G, plain)
    assert same.value > 0.99 - 3 * same.stderr
    assert 0.6 < G.trace.value / plain.trace.value < 1.5


def test_slopes_of_two_functions_of_one_value_are_added() -> None:
    """At the origin h + tanh(h) has slope 2."""
    double = closed(lambda: Forward(lambda m, x: (h := m["a"](x)) + torch.tanh(h), a=nn.Linear(6, 4, False)), (6,))
    single = closed(lambda: nn.Linear(6, 4, False), (6,))
    assert torch.allclose(double.matrix(), 4 * single.matrix(), rtol=1e-12)


def test_an_input_skip_is_exact_at_the_origin() -> None:
    """(I + W)ᵀ(I + W) has mean I + n Var(W) I behind weights of variance v: v · m · (1 + n · Var W)."""
    G = closed(
        lambda: Forward(lambda m, x: m["c"](x + m["s"](x)), s=nn.Linear(6, 6, False), c=nn.Linear(6, 2, False)), (6,)
    )
    variance = 1 / 18  # uniform, as PyTorch starts it: 1 / (3 fan-in)
    assert G.exact
    assert torch.allclose(G.matrix(), 2 * variance * (1 + 6 * variance) * torch.eye(6, dtype=torch.float64))
