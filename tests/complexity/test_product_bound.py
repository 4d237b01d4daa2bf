"""The product bound: every rule against the norm of its matrix."""

import math
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from netgrain.complexity.product_bound import SLOPES, convolution_bound, product_bound


def noise(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def dense(function: Callable[[Tensor], Tensor], shape: tuple[int, ...]) -> float:
    """Operator norm of a linear map, from its matrix."""
    eye = torch.eye(math.prod(shape), dtype=torch.float64)
    return float(torch.linalg.matrix_norm(function(eye.reshape(-1, *shape)).detach().flatten(1), ord=2))


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"padding": 1},
        {"padding": 3},
        {"padding": 1, "stride": 2},
        {"stride": 3, "padding": 2},
        {"padding": 2, "dilation": 2},
        {"padding": 1, "groups": 2},
        {"padding": "same"},
    ],
    ids=str,
)
def test_convolutions_are_bounded_and_tightly(options: dict[str, int]) -> None:
    torch.manual_seed(0)
    layer = nn.Conv2d(4, 6, 3, bias=True, **options).double()
    true = dense(lambda x: layer(x) - layer(torch.zeros_like(x)), (4, 8, 9))
    bound = product_bound(layer, noise(1, 4, 8, 9))
    assert true * (1 - 1e-9) <= bound <= 1.2 * true


def test_other_convolutions_are_bounded() -> None:
    torch.manual_seed(0)
    cases = [
        (nn.Conv1d(3, 5, 4, stride=2, padding=1), (3, 11)),
        (nn.Conv3d(2, 2, 2, padding=1), (2, 4, 3, 4)),
        (nn.ConvTranspose2d(4, 3, 3, stride=2, padding=1, output_padding=1), (4, 5, 5)),
        (nn.ConvTranspose1d(4, 4, 3, groups=2), (4, 7)),
        (nn.Conv2d(2, 3, 3, padding=1, padding_mode="circular"), (2, 5, 5)),
        (nn.Conv2d(2, 3, 3, padding=1, padding_mode="reflect"), (2, 5, 5)),
    ]
    for layer, shape in cases:
        layer = layer.double()
        true = dense(lambda x, layer=layer: layer(x) - layer(torch.zeros_like(x)), shape)
        assert true * (1 - 1e-9) <= product_bound(layer, noise(1, *shape)) <= 2.5 * true, layer


def test_on_a_torus_the_bound_is_the_norm() -> None:
    """With circular padding made by hand the Fourier blocks are the whole truth."""
    w = noise(5, 4, 3, 3)
    true = dense(lambda x: F.conv2d(F.pad(x, (1, 1, 1, 1), mode="circular"), w), (4, 8, 8))
    # a torus of 8: an image of 6 and a reach of 2
    assert math.isclose(convolution_bound(w, (6, 6), stride=(1, 1), dilation=(1, 1)), true, rel_tol=1e-3)
    strided = dense(lambda x: F.conv2d(F.pad(x, (1, 1, 1, 1), mode="circular"), w, stride=2), (4, 8, 8))
    assert math.isclose(convolution_bound(w, (6, 6), stride=(2, 2), dilation=(1, 1)), strided, rel_tol=1e-3)


def test_linear_pools_are_bounded_and_exactly_where_windows_do_not_overlap() -> None:
    for layer, exact in [
        (nn.AvgPool2d(2), True),
        (nn.AvgPool2d(3, stride=1, padding=1), False),
        (nn.AdaptiveAvgPool2d(1), True),
        (nn.AdaptiveAvgPool2d(4), False),
        (nn.Upsample(scale_factor=2), True),
        (nn.ZeroPad2d(2), True),
        (nn.ReplicationPad2d(1), False),
    ]:
        true = dense(layer, (2, 6, 6))
        bound = product_bound(layer, noise(1, 2, 6, 6))
        assert true * (1 - 1e-9) <= bound <= 2 * true, layer
        assert not exact or math.isclose(bound, true), layer


def test_max_pools_count_windows() -> None:
    x = noise(1, 1, 6, 6)
    assert product_bound(nn.MaxPool2d(2), x) == 1
    assert product_bound(nn.MaxPool2d(3, stride=1), x) == 3
    assert product_bound(nn.MaxPool2d(3, stride=2, padding=1), x) == 2
    # one peak moves all windows that it is in
    layer, peak = nn.MaxPool2d(3, stride=1), torch.zeros(1, 1, 6, 6)
    peak[..., 2, 2] = 1
    assert float((layer(peak) - layer(torch.zeros_like(peak))).norm()) == 3


@pytest.mark.parametrize("name", sorted({*SLOPES} - {"neg", "abs"}))
def test_slopes_of_activations(name: str) -> None:
    function = getattr(F, name, None) or getattr(torch, name)
    x = torch.linspace(-40, 40, 400_001, dtype=torch.float64, requires_grad=True)
    (slope,) = torch.autograd.grad(function(x).sum(), x)
    assert float(slope.abs().max()) <= SLOPES[name] * (1 + 1e-7) <= 1.001 * float(slope.abs().max())


def test_batch_norm_dropout_and_slopes_with_options() -> None:
    norm = nn.BatchNorm1d(2).double().eval()
    norm.running_var.copy_(torch.tensor([4.0, 1.0]))
    norm.weight.data.copy_(torch.tensor([-8.0, 3.0]))
    assert math.isclose(product_bound(norm, noise(1, 2)), 4.0, rel_tol=1e-5)
    assert product_bound(nn.LeakyReLU(-3.0), noise(1, 2)) == 3
    assert product_bound(nn.ELU(2.5), noise(1, 2)) == 2.5
    assert product_bound(nn.Dropout(0.5).eval(), noise(1, 2)) == 1


class Branches(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(3, 3, bias=False), nn.Linear(3, 3, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([x + 2 * self.a(x), x - self.b(x) / 4 + 1], 1)


def test_sums_add_and_concatenations_square() -> None:
    net = Branches().double()
    net.a.weight.data.copy_(5 * torch.eye(3))
    net.b.weight.data.copy_(8 * torch.eye(3))
    assert math.isclose(product_bound(net, noise(1, 3)), math.hypot(11, 3))
    assert math.hypot(11, 1) <= math.hypot(11, 3)  # the truth: x + 10x and x − 2x
