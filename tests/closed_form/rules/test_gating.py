"""Products of two values that depend on the input: exact where one is a known zero, else at members' values."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import netgrain as ng
from tests.closed_form.networks import Forward, closed, deviation, images
from tests.random_layers import Gated, SqueezeExcitation

POINT = ng.Gaussian(1.0)


def excited(bias: bool, hard: bool = False) -> Callable[[], nn.Module]:
    """SiLU(conv) behind a gate; bias: of the gate, so that it is random at the origin."""

    def make() -> nn.Module:
        net = Forward(
            lambda m, x: m["c"](m["se"](F.silu(m["a"](x)))).mean(-1).mean(-1),
            a=nn.Conv2d(1, 4, 3, padding=1, bias=False),
            se=SqueezeExcitation(4, nn.SiLU(), hard),
            c=nn.Conv2d(4, 2, 1, bias=False),
        )
        nn.init.zeros_(net.layers["se"].reduce.bias)
        nn.init.normal_(net.layers["se"].expand.bias, std=2.0 if bias else 0.0)
        return net

    return make


def sampled(make: Callable[[], nn.Module], shape: tuple[int, ...], members: int, **options: object) -> ng.Geometry:
    return ng.average_geometry(make, shape, members=members, first_layer="never", seed=3, workers=1, **options)


@pytest.mark.quick
@pytest.mark.parametrize("bias", [False, True])
def test_a_gate_of_zero_is_exact(bias: bool) -> None:
    """s(0)² · B, and E[s²] · B where biases make the gate random: in standard errors of plain sampling."""
    G, plain = closed(excited(bias), (1, 4, 4)), sampled(excited(bias), (1, 4, 4), 300)
    assert G.exact
    assert not G.about.leaves_out
    for v in (torch.ones(16), torch.eye(16)[5], images((16,))[0]):
        assert abs(deviation(G, plain, v)) < 4
    if not bias:  # against the same network without a gate: σ(0) = 1/2

        def ungated() -> nn.Module:
            net = excited(False)()
            net.layers["se"] = nn.Identity()
            return net

        assert torch.allclose(4 * G.matrix(), closed(ungated, (1, 4, 4)).matrix(), rtol=1e-12)


def spatial() -> nn.Module:
    """A gate with one channel for all, and one with one position for all."""
    return Forward(
        lambda m, x: m["c"](
            F.gelu(m["a"](x)) * torch.sigmoid(3 * m["b"](x)) * m["d"](x).mean((2, 3), keepdim=True)
        ).mean((2, 3)),
        a=nn.Conv2d(1, 8, 3, padding=1),
        b=nn.Conv2d(1, 1, 3, padding=1),
        c=nn.Conv2d(8, 2, 1),
        d=nn.Conv2d(1, 8, 3),
    )


def ratio() -> nn.Module:
    return Forward(
        lambda m, x: m["c"](m["a"](x) / (2 + torch.sigmoid(m["b"](x)))),
        a=nn.Linear(6, 8),
        b=nn.Linear(6, 8),
        c=nn.Linear(8, 2),
    )


GATES: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "squeeze-and-excitation": (excited(True, hard=True), (1, 4, 4)),
    "gated linear unit": (lambda: nn.Sequential(Gated(nn.Linear(6, 16), nn.SiLU(), -1), nn.Linear(8, 2)), (6,)),
    "spatial": (spatial, (1, 3, 3)),
    "division": (ratio, (6,)),
}


@pytest.mark.parametrize("name", GATES)
def test_gates_away_from_the_origin_have_the_right_shape(name: str) -> None:
    make, shape = GATES[name]
    G = closed(make, shape, probe=POINT, probes=24)
    plain = sampled(make, shape, 200, probe=POINT, probes=4)
    assert "local" in [step.kind for step in G.about.steps]
    assert any("followed at the values of members" in text for text in G.about.leaves_out)
    same = ng.corr(G, plain)
    assert same.value > 0.99 - 3 * same.stderr
    assert 0.6 < G.trace.value / plain.trace.value < 1.5


def test_an_activation_written_as_a_product_is_an_activation() -> None:
    """x · σ(x) and x · relu6(x + 3) / 6 are functions of one value: their slopes, not those of two factors."""

    def net(by_hand: bool) -> Callable[[], nn.Module]:
        def forward(m: nn.ModuleDict, x: Tensor) -> Tensor:
            h = m["a"](x)
            h = m["b"](h * torch.sigmoid(h) if by_hand else F.silu(h))
            return m["c"](h * F.relu6(h + 3) / 6 if by_hand else F.hardswish(h))

        return lambda: Forward(forward, a=nn.Linear(6, 8), b=nn.Linear(8, 8), c=nn.Linear(8, 2))

    written = closed(net(True), (6,), probe=POINT, probes=24)
    assert "local" not in [step.kind for step in written.about.steps]
    plain = sampled(net(False), (6,), 200, probe=POINT, probes=4)
    same = ng.corr(written, plain)
    assert same.value > 0.995 - 3 * same.stderr
    assert abs(written.trace.value / plain.trace.value - 1) < 0.15
