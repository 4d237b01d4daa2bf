"""Standardised weights against sampled networks."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import netgrain as ng
from netgrain.closed_form.computed_weights import seen_inputs
from netgrain.families.convolution import Taps
from tests.closed_form.networks import S, closed_form, images, thorough


class StdConv(nn.Conv2d):
    """As timm's ScaledStdConv2d."""

    def __init__(self, *args: int, **options: int) -> None:
        super().__init__(*args, bias=False, **options)
        self.gain = nn.Parameter(torch.ones(self.out_channels, 1, 1, 1))
        self.scale = 1.4 * self.weight[0].numel() ** -0.5

    def forward(self, x: Tensor) -> Tensor:
        flat, gain = self.weight.reshape(1, self.out_channels, -1), (self.gain * self.scale).view(-1)
        weight = F.batch_norm(flat, None, None, weight=gain, training=True, momentum=0.0, eps=1e-6)
        return F.conv2d(x, weight.reshape_as(self.weight), None, self.stride, self.padding, self.dilation, self.groups)


class Scaled(nn.Linear):
    """Weights of variance one, multiplied where they are used."""

    def __init__(self, n: int, m: int) -> None:
        super().__init__(n, m)
        nn.init.normal_(self.weight)

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, self.weight * 0.3, self.bias / 2)


NETWORKS: dict[str, Callable[[], nn.Module]] = {
    "standardised": lambda: S(
        *(StdConv(2, 4, 3, padding=1), nn.Tanh(), StdConv(4, 3, 2, stride=2)),
        *(nn.Flatten(), nn.Linear(12, 2)),
    ),
    "in groups, pooled": lambda: S(
        *(StdConv(2, 4, 3), nn.Tanh(), StdConv(4, 4, 2, groups=2), nn.AvgPool2d(2), nn.Flatten(), nn.Linear(4, 2)),
    ),
    "scaled": lambda: S(Scaled(5, 4), nn.Tanh(), Scaled(4, 3), nn.Flatten(), nn.Linear(30, 2)),
}


@pytest.mark.quick
@pytest.mark.parametrize("name", NETWORKS)
def test_computed_weights_at_the_origin(name: str) -> None:
    result = ng.check(NETWORKS[name], (2, 5, 5), members=thorough(1600), workers=1, progress=False)
    assert result.closed.exact or name == "scaled"
    assert result.agrees, str(result)


def test_standardised_weights_see_no_common_value() -> None:
    """Each row adds up to zero: what all inputs of a window have in common is not seen."""
    G = closed_form(lambda: S(StdConv(2, 4, 3), nn.Tanh(), nn.Flatten(), nn.Linear(36, 2)), (2, 5, 5))
    assert float(torch.ones(50).double() @ G.matrix() @ torch.ones(50).double()) < 1e-10 * float(G.trace.value)


def test_standardised_weights_away_from_the_origin() -> None:
    """The mean of channels that went through a ReLU is not seen either."""

    def make() -> nn.Module:
        first = nn.Conv2d(1, 96, 3, bias=False)
        nn.init.normal_(first.weight, std=0.5)
        return S(first, nn.ReLU(), StdConv(96, 96, 2), nn.ReLU(), nn.Flatten(), nn.Linear(96, 2, bias=False))

    probe = ng.Data(images((1, 4, 4)))
    G = closed_form(make, (1, 4, 4), probe=probe)
    assert "standardised" in G.about.leaves_out[0]
    sampled = ng.average_geometry(make, (1, 4, 4), probe=probe, members=100, method="sampled", workers=1)
    assert abs(G.trace.value - sampled.trace.value) < 4 * sampled.trace.stderr
    assert ng.corr(G, sampled).value > 0.98


def test_seen_inputs() -> None:
    assert seen_inputs(Taps(4, 2, 2, 2, 1)).tolist() == [[1, 0, 0, 0], [0, 1, 1, 0]]
