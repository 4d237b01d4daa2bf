"""Forms and geometries that several files of this room are tested with."""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

import netgrain as ng
from netgrain.families.convolution import ConvStem
from netgrain.geometry.forms import Dense, Factored, Form
from netgrain.geometry.provenance import ProbeUsed, Provenance
from netgrain.geometry.standardised_forms import behind_standardised
from netgrain.geometry.structured_forms import Kronecker, Separated, Spread

GRIDS = [(12,), (3, 4), (4, 3), (2, 2, 3), (3, 1, 4), (1, 12)]


def _psd(d: int, seed: int = 0) -> torch.Tensor:
    A = torch.randn(d, d, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return A @ A.T / d


def _rows(n: int, r: int, s: int) -> torch.Tensor:
    return torch.randn(n, r, s, generator=torch.Generator().manual_seed(s))


def _geometry(form: Form, shape: tuple[int, ...]) -> ng.Geometry:
    return ng.Geometry(
        form, shape, Provenance("sampled", model="test", members=form.parts, probe=ProbeUsed(used="origin"), seed=0)
    )


def geometries() -> dict[str, ng.Geometry]:
    stem = ConvStem((4, 4), (3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1))
    order = torch.randperm(24, generator=torch.Generator().manual_seed(1))
    return {
        "dense": ng.Geometry.from_matrix(_psd(24), (2, 3, 4)),
        "factored": _geometry(Factored.of_members(_rows(9, 4, 24)), (2, 3, 4)),
        "low rank": _geometry(Factored.of_members(_rows(7, 1, 24)), (24,)),
        "kronecker": _geometry(Kronecker(Factored.of_members(_rows(9, 2, 8)), 3, order), (24,)),
        "spread": _geometry(
            Kronecker(Spread(Factored.of_members(_rows(8, 2, 16)), stem), 2, torch.arange(32)), (2, 4, 4)
        ),
        "standardised": _geometry(
            behind_standardised(Factored.of_members(_rows(8, 2, 16)), stem, 2, torch.arange(32)), (2, 4, 4)
        ),
        "batches": _geometry(
            Dense.from_pieces(torch.stack([_psd(24, i) for i in range(8)]), torch.arange(1, 9)), (24,)
        ),
    }


class Standardised(nn.Conv2d):
    """Weights of mean zero and variance gain²/N in every row, as timm's ScaledStdConv2d computes them."""

    def __init__(self, channels: int, out: int, kernel: int, gain: float = 1.5, **sizes: int) -> None:
        super().__init__(channels, out, kernel, **sizes)
        self.gain = nn.Parameter(torch.full((out, 1, 1, 1), gain))
        self.scale = self.weight[0].numel() ** -0.5

    def weights(self) -> Tensor:
        rows = self.weight.reshape(1, self.out_channels, -1)
        made = F.batch_norm(rows, None, None, weight=(self.gain * self.scale).view(-1), training=True, momentum=0.0)
        return made.reshape_as(self.weight)

    def forward(self, x: Tensor) -> Tensor:
        return F.conv2d(x, self.weights(), self.bias, self.stride, self.padding, self.dilation, self.groups)


def _factors(axes: tuple[int, ...], terms: int, seed: int = 0) -> tuple[Tensor, ...]:
    """Random positive semi-definite factors."""
    generator = torch.Generator().manual_seed(seed)
    roots = [torch.randn(terms, n, n, generator=generator, dtype=torch.float64) for n in axes]
    return tuple(A @ A.mT / n for A, n in zip(roots, axes, strict=True))


def _separated(axes: tuple[int, ...], terms: int = 3, seed: int = 0) -> Separated:
    return Separated(_factors(axes, terms, seed))


def _kron(form: Separated) -> Tensor:
    """The slow obvious matrix."""
    total = torch.zeros(form.size, form.size, dtype=torch.float64)
    for term in zip(*form.factors, strict=True):
        product = torch.ones(1, 1, dtype=torch.float64)
        for factor in term:
            product = torch.kron(product, factor)
        total += product
    return total


def _smooth(n: int, terms: int) -> Tensor:
    """Gaussian kernels of several widths: what a deep convolutional network does along one axis, about."""
    x = torch.arange(n, dtype=torch.float64)
    return torch.stack([torch.exp(-((x[:, None] - x) ** 2) / (2 * 2.0**r)) for r in range(terms)])


def _diagonal(*values: Tensor) -> Separated:
    return Separated(tuple(torch.diag(v.double())[None] for v in values))


def _closed_form(form: Form, shape: tuple[int, ...], exact: bool = True) -> ng.Geometry:
    return ng.Geometry(
        form, shape, Provenance("closed-form", model="ResNet18", probe=ProbeUsed(used="origin"), exact=exact)
    )


Make = Callable[[], nn.Module]


def closed(make: Make, shape: tuple[int, ...], **options: object) -> ng.Geometry:
    return ng.average_geometry(make, shape, method="closed-form", **options)
