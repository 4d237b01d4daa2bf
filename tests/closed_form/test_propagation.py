"""The closed form against independent oracles: every sign pattern, the paper's examples, sampled networks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import netgrain as ng
from netgrain.families.initialisation import Initialisation, TensorLaw
from netgrain.families.reading import read
from netgrain.families.trace import Unsupported
from netgrain.geometry.closed import closed_form_geometry
from netgrain.models import MLP, VGG11, LeNet, ResNet18, SmallLeNet
from tests import naive
from tests.closed_form.networks import Forward, Make, S, closed, normal, sequence, thorough

# --- known by hand --------------------------------------------------------------------------------------------------


def test_the_papers_example() -> None:
    make = normal(sequence(lambda: nn.Conv1d(1, 1, 2, bias=False), lambda: nn.AvgPool1d(2), nn.Flatten), 1.5)
    G = closed(make, (1, 3))
    expected = 1.5**2 / 4 * torch.tensor([[1.0, 1, 0], [1, 2, 1], [0, 1, 1]], dtype=torch.float64)
    assert G.exact
    assert torch.allclose(G.matrix(), expected, rtol=1e-12, atol=0)
    assert torch.allclose(G.eigenvalues, 1.5**2 / 4 * torch.tensor([3.0, 1, 0]).double(), rtol=1e-12, atol=1e-12)


class Residual(nn.Module):
    """Eleven weights: a stem, a branch around an identity skip, a strided shortcut, a head."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv1d(1, 1, 2, bias=False)
        self.branch = S(nn.Conv1d(1, 1, 3, padding=1, bias=False), nn.Tanh(), nn.Conv1d(1, 1, 2, bias=False))
        self.down = nn.Conv1d(1, 1, 2, stride=2, bias=False)
        self.short = nn.Conv1d(1, 1, 1, stride=2, bias=False)
        self.head = nn.Linear(1, 1, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        h = F.gelu(self.stem(x))
        h = h[:, :, 1:] + self.branch(h)
        h = F.silu(self.down(h) + self.short(h)[..., :1])
        return self.head(h.mean(2))


class Joined(nn.Module):
    """Eight weights: channels are concatenated and split again."""

    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Conv1d(1, 1, 2, bias=False)
        self.b = nn.Conv1d(1, 1, 3, padding=1, bias=False)
        self.c = nn.Conv1d(2, 1, 2, dilation=2, bias=False)
        self.d = nn.Linear(1, 1, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        h = torch.tanh(self.a(x))
        h = torch.cat([h, 2 * F.gelu(self.b(h))], 1)
        first, _ = h.chunk(2, 1)
        h = F.pad(torch.sin(self.c(h)), (1, 0)) - first[:, :, 1:]
        return self.d(F.avg_pool1d(h, 2, stride=1).flatten(1))


class Turned(nn.Module):
    """Ten weights: a transposed convolution, upsampling, tokens with the channel last."""

    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Linear(2, 2, bias=False)
        self.up = nn.ConvTranspose1d(2, 1, 2, stride=2, bias=False)
        self.c = nn.Conv1d(1, 1, 2, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        h = F.mish(self.a(x))  # (batch, 3 tokens, 2)
        h = self.up(h.transpose(1, 2))
        h = F.interpolate(self.c(h), scale_factor=2, mode="linear")
        return h[..., 1::3].flatten(1)


@pytest.mark.quick
@pytest.mark.parametrize(("make", "shape"), [(Residual, (1, 5)), (Joined, (1, 4)), (Turned, (3, 2))])
def test_equals_the_average_over_every_sign(make: Make, shape: tuple[int, ...]) -> None:
    G = closed(make, shape)
    expected = naive.every_sign(make().double(), shape)
    assert G.exact
    assert torch.allclose(G.matrix(), expected, rtol=1e-10, atol=1e-12 * float(expected.max()))


# --- sampled networks, in standard errors ---------------------------------------------------------------------------


class DenseNet(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.stem = nn.Conv2d(1, width, 3, padding=1, bias=False)
        self.one = S(nn.BatchNorm2d(width), nn.GELU(), nn.Conv2d(width, width, 3, padding=1, bias=False))
        self.two = S(nn.BatchNorm2d(2 * width), nn.GELU(), nn.Conv2d(2 * width, width, 3, padding=1, bias=False))
        self.out = S(nn.GELU(), nn.Conv2d(3 * width, width, 1, bias=False), nn.AvgPool2d(2))
        self.head = nn.Linear(width, 2)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        x = torch.cat([x, self.one(x)], 1)
        x = torch.cat([x, self.two(x)], 1)
        return self.head(F.gelu(self.out(x)).mean((2, 3)))


class MobileNet(nn.Module):
    """Expand, filter each channel, project, around a skip."""

    def __init__(self, width: int) -> None:
        super().__init__()
        wide = 3 * width
        self.stem = nn.Conv2d(3, width, 3, stride=2, padding=1, bias=False)
        self.block = S(
            *(nn.Conv2d(width, wide, 1, bias=False), nn.BatchNorm2d(wide), nn.SiLU()),
            *(
                nn.Conv2d(wide, wide, 3, padding=1, groups=wide, bias=False),
                nn.BatchNorm2d(wide),
                nn.SiLU(inplace=True),
            ),
            *(nn.Conv2d(wide, width, 1, bias=False), nn.BatchNorm2d(width)),
        )
        self.tail = S(nn.Conv2d(width, 2 * width, 3, padding=2, dilation=2, groups=2, bias=False), nn.SiLU())
        self.head = S(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.2), nn.Linear(2 * width, 1))

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        x = x + self.block(x)
        return self.head(self.tail(x))


def one_dimensional(width: int) -> nn.Module:
    return S(
        *(nn.Conv1d(2, width, 5, stride=2, bias=False), nn.SiLU(), nn.AvgPool1d(3, stride=2, padding=1)),
        *(nn.Conv1d(width, width, 3, padding=1, padding_mode="circular", bias=False), nn.Tanh(), nn.Flatten()),
        nn.LazyLinear(2) if width == 0 else nn.Linear(width * 4, 2),
    )


def three_dimensional(width: int) -> nn.Module:
    return S(
        *(nn.Conv3d(1, width, 3, padding=1, bias=False), nn.GELU(approximate="tanh"), nn.AvgPool3d(2)),
        *(nn.Conv3d(width, width, 2, bias=False), nn.GELU(), nn.AdaptiveAvgPool3d(1), nn.Flatten()),
        nn.Linear(width, 1),
    )


def own_initialisation(width: int) -> nn.Module:
    """A user's own reset_parameters, and a bias-free VGG-like body."""

    class Own(nn.Conv2d):
        def reset_parameters(self) -> None:
            nn.init.kaiming_normal_(self.weight, a=0.3)

    return S(
        *(Own(1, width, 3, padding=1, bias=False), nn.Softsign(), nn.AvgPool2d(2)),
        *(Own(width, width, 3, padding=1, bias=False), nn.Softsign(), nn.Flatten(), nn.Linear(width * 16, 1)),
    )


EXACT: dict[str, tuple[Callable[[int], nn.Module], tuple[int, ...]]] = {
    "DenseNet": (DenseNet, (1, 8, 8)),
    "MobileNet": (MobileNet, (3, 8, 8)),
    "1-D": (one_dimensional, (2, 20)),
    "3-D": (three_dimensional, (1, 6, 6, 4)),
    "own initialisation": (own_initialisation, (1, 8, 8)),
    "ResNet18": (
        lambda w: ResNet18(channels=1, activation="gelu", width=w / 64, image_size=8, outputs=1),
        (1, 8, 8),
    ),
}


@pytest.mark.parametrize("width", [2, 16])
@pytest.mark.parametrize("name", EXACT)
def test_exact_at_any_width(name: str, width: int) -> None:
    make, shape = EXACT[name]
    if name == "ResNet18" and width == 16:
        width = 8
    result = ng.check(partial(make, width), shape, members=thorough(800), workers=1, progress=False)
    assert result.closed.exact
    assert result.closed.method == "closed-form"
    assert result.agrees, str(result)


BUILT_IN: dict[str, tuple[Make, tuple[int, ...], dict[str, object]]] = {
    "MLP": (partial(MLP, channels=1, image_size=8, outputs=2), (1, 8, 8), {}),
    "LeNet": (partial(LeNet, channels=1, image_size=16, outputs=2, activation="gelu"), (1, 16, 16), {}),
    "SmallLeNet": (partial(SmallLeNet, channels=3, image_size=16, outputs=2, activation="tanh"), (3, 16, 16), {}),
    "VGG11 avg": (
        partial(VGG11, channels=1, image_size=16, outputs=2, activation="gelu", pool="avg", width=0.25),
        (1, 16, 16),
        {},
    ),
    "batch norm": (
        partial(LeNet, channels=1, image_size=16, outputs=1, activation="gelu", norm="batch"),
        (1, 16, 16),
        {"output": 0},
    ),
}


@pytest.mark.parametrize("name", BUILT_IN)
def test_built_in_models_at_the_origin(name: str) -> None:
    make, shape, options = BUILT_IN[name]
    result = ng.check(make, shape, members=thorough(1000), workers=1, progress=False, **options)  # type: ignore[arg-type]
    assert result.agrees, str(result)
    assert abs(result.corr.value - 1) < 5 * result.corr.stderr + 1e-3


def test_the_check_rejects_a_forgotten_factor(monkeypatch: pytest.MonkeyPatch) -> None:
    make, shape = EXACT["own initialisation"]
    read = Initialisation.of

    def wrong(self: Initialisation, name: str) -> TensorLaw:
        law = read(self, name)
        return replace(law, variance=1.25 * law.variance) if name == "3.weight" else law

    with monkeypatch.context() as patch:
        patch.setattr(Initialisation, "of", wrong)
        off = closed(partial(make, 16), shape)
    judged = ng.check(partial(make, 16), shape, members=thorough(1000), closed=off, workers=1, progress=False)
    assert not judged.agrees
    assert "so this is a bug" in judged.verdict
    assert judged.bands[0].ratio.value == pytest.approx(0.8, abs=0.05)


# --- refusals -------------------------------------------------------------------------------------------------------


def lin(i: int, o: int) -> nn.Module:
    return nn.Linear(i, o, bias=False)


def orthogonal() -> nn.Module:
    layer = nn.Linear(8, 8, bias=False)
    nn.init.orthogonal_(layer.weight)
    return layer


REFUSED: dict[str, tuple[Make, str]] = {
    "mean over channels": (lambda: Forward(lambda m, x: m["a"](x).mean(-1), a=lin(8, 4)), "goes over channels"),
    "used twice": (
        lambda: Forward(lambda m, x: m["a"](torch.tanh(m["a"](x))), a=lin(8, 8)),
        "uses 'layers.a.weight' again",
    ),
    "correlated weights": (lambda: S(orthogonal(), nn.GELU(), lin(8, 1)), "'0.weight'"),
    "numbers decide": (
        lambda: Forward(lambda m, x: m["a"](x) if x.sum() > 0 else m["a"](2 * x), a=lin(8, 4)),
        "looks at numbers",
    ),
    "activation of the input": (lambda: S(nn.ReLU(), lin(8, 4)), "kink|input itself"),
    "instance norm": (lambda: S(nn.Conv1d(1, 4, 3), nn.InstanceNorm1d(4), nn.Flatten(), lin(24, 1)), "instance_norm"),
    "gradients stopped": (
        lambda: Forward(lambda m, x: m["a"](x) + m["b"](x).detach(), a=lin(8, 4), b=lin(8, 4)),
        "stops gradients",
    ),
    "recurrent": (lambda: S(nn.GRU(8, 4)), "'0' .GRU. has no closed form"),
    "nothing of the input": (lambda: Forward(lambda m, x: m["a"](torch.ones(len(x), 8)), a=lin(8, 2)), "not a tensor"),
}
SHAPES = {"instance norm": (1, 8)}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals_name_the_reason(name: str) -> None:
    make, reason = REFUSED[name]
    with pytest.raises(ng.NetgrainError, match=reason):
        closed(make, SHAPES.get(name, (8,)))


def test_a_first_layer_that_reshapes_the_batch() -> None:
    """One layer for both halves of x: G = 3 · (1/12) · I, the variance of three outputs' weights on either half."""

    def forward(m: nn.ModuleDict, x: Tensor) -> Tensor:
        return m["a"](x.view(-1, 4)).view(len(x), -1)

    G = ng.average_geometry(lambda: Forward(forward, a=nn.Linear(4, 3)), (2, 4))
    assert (G.method, G.exact) == ("closed-form", True)
    assert torch.allclose(G.matrix(), 0.25 * torch.eye(8, dtype=torch.float64))


def test_writing_into_a_shared_tensor_is_refused() -> None:
    def forward(m: nn.ModuleDict, x: Tensor) -> Tensor:
        h = m["a"](x)
        view = h.view(-1, 2, 2).mT
        h += 1
        return m["b"](view.flatten(1))

    with pytest.raises(Unsupported, match="writes in place into a tensor that is also used elsewhere"):
        closed_form_geometry(read(lambda: Forward(forward, a=lin(8, 4), b=lin(4, 1)), (8,)))


def test_shapes_may_decide() -> None:
    def forward(m: nn.ModuleDict, x: Tensor) -> Tensor:
        if x.shape[-1] == 8 and len(x) > 1:
            x = x * 2
        return m["a"](x.reshape(x.size(0), -1))

    G = closed(lambda: Forward(forward, a=lin(8, 3)), (2, 4, 1)[:2])
    H = closed(lambda: Forward(forward, a=lin(8, 3)), (8,))
    assert H.trace.value == pytest.approx(4 * G.trace.value)
