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
    G = closed(make, shape, probe=POINT, probes=12)
    plain = sampled(make, shape, 200, probe=POINT, probes=4)
    if name in ("squeeze-and-excitation", "gated linear unit"):  # two layers, or two parts of one
        assert {step.kind for step in G.about.steps} == {"exact", "wide limit"}
    else:
        assert "local" in [step.kind for step in G.about.steps]
        assert any("followed at the values of members" in text for text in G.about.leaves_out)
    same = ng.corr(G, plain)
    assert same.value > 0.99 - 3 * same.stderr
    assert 0.6 < G.trace.value / plain.trace.value < 1.5


# --- independent factors ----------------------------------------------------------------------------------------------


def glu(m: nn.ModuleDict, x: Tensor) -> Tensor:
    return F.glu(m["a"](x))


def glu_by_hand(m: nn.ModuleDict, x: Tensor) -> Tensor:
    a, b = m["a"](x).chunk(2, -1)
    return a * torch.sigmoid(b)


def gmlp(m: nn.ModuleDict, x: Tensor) -> Tensor:
    u, w = m["a"](x).chunk(2, -1)
    return u * m["mix"](w.mT).mT


def unit(run: Callable[[nn.ModuleDict, Tensor], Tensor], features: int, gate: float = 0.3) -> Callable[[], nn.Module]:
    """A unit of width 6 over four tokens, a mean over tokens and a head; normal weights, so that it is exact."""

    def make() -> nn.Module:
        net = Forward(
            lambda m, x: m["head"](run(m, x)).mean(1),
            a=nn.Linear(features, 12),
            mix=nn.Linear(4, 4),
            head=nn.Linear(6, 2, bias=False),
        )
        for layer in net.layers.values():
            nn.init.normal_(layer.weight, std=layer.weight.shape[1] ** -0.5)
        nn.init.normal_(net.layers["mix"].weight, std=gate)
        nn.init.ones_(net.layers["mix"].bias)
        nn.init.normal_(net.layers["a"].bias)
        return net

    return make


@pytest.mark.parametrize("run", [glu, gmlp], ids=["glu", "gmlp"])
def test_independent_factors_at_one_point(run: Callable[[nn.ModuleDict, Tensor], Tensor]) -> None:
    """What ties both factors through x counts, too: in standard errors of plain sampling, above all along x itself."""
    x = images((4, 3))
    G = closed(unit(run, 3), (4, 3), probe=ng.Data(x))
    assert {step.kind for step in G.about.steps} == {"exact", "wide limit"}
    assert not G.about.leaves_out
    plain = sampled(unit(run, 3), (4, 3), 200, probe=ng.Data(x))
    for v in (x[0], torch.ones(12), torch.eye(12)[4]):
        assert abs(deviation(G, plain, v)) < 4


@pytest.mark.quick
def test_glu_is_a_product_with_a_sigmoid() -> None:
    for options in ({"probe": ng.Data(images((4, 3)))}, {"probe": ng.Origin()}):
        G, H = (closed(unit(run, 3), (4, 3), **options) for run in (glu, glu_by_hand))
        torch.testing.assert_close(G.matrix(), H.matrix())


@pytest.mark.quick
def test_a_spatial_gate_by_hand() -> None:
    """B_u = B∘(11ᵀ + v tr(K_w) I), B_w = v tr(B∘K_u) I, and the same twice along x: u and w are linear in x.

    With weights of variance 1/3 behind three features and none but the gate's bias of one, K_u = K_w = (xxᵀ + 3·11ᵀ)/3.
    """
    gate, x = 0.3, images((4, 3))[0]
    G = closed(unit(gmlp, 3, gate), (4, 3), probe=ng.Data(x[None]))
    K = x @ x.T / 3 + 1
    ones = torch.ones(4, 4, dtype=torch.float64)
    B = ones / 16 * 2  # both outputs, mean over four tokens, six units with weights of variance 1/6
    B_u = B * (ones + gate**2 * K.trace() * torch.eye(4))
    B_w = gate**2 * (B * K).trace() * torch.eye(4)
    want = torch.kron((B_u + B_w) / 3, torch.eye(3, dtype=torch.float64))
    # ∂ₓK_u ∂_z tr(K_w) and the other way round: K_u(p, p) depends on x_p alone, tr K_w on all tokens
    along = torch.einsum("p,pi,qj->piqj", B.diagonal(), x, x).reshape(12, 12) * gate**2 / 9
    torch.testing.assert_close(G.matrix(), want + along + along.T)


@pytest.mark.quick
def test_parts_of_one_value_are_apart_and_others_are_not() -> None:
    """h · (W h along tokens) is no product of independent channels: it is followed at members' values."""

    def gated_by_itself(m: nn.ModuleDict, x: Tensor) -> Tensor:
        h = m["a"](x)[..., :6]
        return h * m["mix"](h.mT).mT

    G = closed(unit(gated_by_itself, 3), (4, 3), probe=POINT, probes=3)
    assert "local" in [step.kind for step in G.about.steps]


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
