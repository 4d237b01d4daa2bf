"""A softmax over branches or positions: its derivative channel by channel, and sampled networks."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import netgrain as ng
from netgrain.closed_form.feature_maps import Term
from netgrain.closed_form.moments import Full
from netgrain.closed_form.rules.selection import sent_back
from tests.closed_form.networks import closed, images

POINT = ng.Gaussian(2.0)


class SelectiveKernel(nn.Module):
    """Two convolutions, weighed by a softmax over both for every channel."""

    def __init__(self, width: int = 8, hidden: int = 6) -> None:
        super().__init__()
        self.paths = nn.ModuleList(nn.Conv2d(1, width, 3, padding=d, dilation=d) for d in (1, 2))
        self.reduce, self.select = nn.Conv2d(width, hidden, 1), nn.Conv2d(hidden, 2 * width, 1)
        self.head = nn.Conv2d(width, 2, 1)
        nn.init.normal_(self.select.weight, std=1.5)

    def forward(self, x: Tensor) -> Tensor:
        branches = torch.stack([path(x) for path in self.paths], 1)
        logits = self.select(F.gelu(self.reduce(branches.sum(1).mean((2, 3), keepdim=True))))
        shares = logits.view(len(x), 2, -1, 1, 1).softmax(1)
        y: Tensor = self.head((branches * shares).sum(1)).mean((2, 3))
        return y


class WeighedTokens(nn.Module):
    """A mean over tokens with weights of every channel's own."""

    def __init__(self) -> None:
        super().__init__()
        self.values, self.logits, self.head = nn.Linear(3, 8), nn.Linear(3, 8), nn.Linear(8, 2)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.head((self.values(x) * torch.softmax(self.logits(x), 1)).sum(1))
        return y


@pytest.mark.quick
def test_the_derivative_of_a_softmax_channel_by_channel() -> None:
    """E[J B J] over channels, along the middle one of three axes, against autograd."""
    sizes = (2, 3, 2)
    z, root = images((4, *sizes))[0], images((12, 12))[0]
    B = (root @ root.T).reshape(1, *sizes, *sizes)
    want = torch.zeros(12, 12, dtype=torch.float64)
    for channel in z:
        leaf = channel.clone().requires_grad_(True)
        rows = [torch.autograd.grad(leaf.softmax(1).flatten()[i], leaf)[0].flatten() for i in range(12)]
        J = torch.stack(rows)
        want += J.T @ B.reshape(12, 12) @ J / len(z)
    shares = z.softmax(2).flatten(1)[None]
    found = sent_back(Term(Full(sizes, B)), shares, [1], sizes).moment.full().spelled_out().matrices()[0]
    torch.testing.assert_close(found, want)


@pytest.mark.parametrize(("make", "shape"), [(SelectiveKernel, (1, 4, 4)), (WeighedTokens, (5, 3))])
def test_against_sampled_networks(make: type[nn.Module], shape: tuple[int, ...]) -> None:
    G = closed(make, shape, probe=POINT, probes=16)
    plain = ng.average_geometry(make, shape, probe=POINT, probes=4, members=150, first_layer="never", seed=3, workers=1)
    local = [step.where for step in G.about.steps if step.kind == "local"]
    assert any("softmax" in where for where in local)
    same = ng.corr(G, plain)
    assert same.value > 0.99 - 3 * same.stderr
    assert abs(G.trace.value / plain.trace.value - 1) < 0.25


def test_a_softmax_over_all_channels_is_refused() -> None:
    net = lambda: nn.Sequential(nn.Linear(3, 4), nn.Softmax(-1), nn.Linear(4, 2))  # noqa: E731
    with pytest.raises(ng.NetgrainError, match="something else than positions or branches"):
        closed(net, (3,), probe=POINT)
