"""Every kind of activation, and small covariances."""

import math
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from netgrain.closed_form.activations import with_moments
from netgrain.closed_form.gaussian_expectations import Activation
from netgrain.families.activations import activation_of

X = torch.zeros(1)


def known(function: Callable, *args: object, **kwargs: object) -> Activation:
    call = activation_of(function, (X, *args), kwargs)
    assert call is not None
    return with_moments(call)


STRAIGHT = [
    known(torch.relu),
    known(F.leaky_relu, 0.2),
    known(torch.abs),
    known(torch.pow, 1),
    known(F.relu6),
    known(F.hardtanh),
    known(F.hardsigmoid),
    known(F.softshrink, 0.3),
    known(torch.clamp, max=0.5),
]


CLOSED = [known(torch.erf), known(F.gelu), known(torch.sin), known(torch.cos), known(torch.exp)]


SMOOTH = [
    known(F.gelu, approximate="tanh"),
    known(F.silu),
    known(F.mish),
    known(torch.tanh),
    known(torch.sigmoid),
    known(F.softplus, beta=3.0),
    known(F.logsigmoid),
    known(torch.square),
    known(torch.pow, 3),
    known(torch.atan),
]


BENT = [
    known(F.elu),
    known(F.elu, 0.5),
    known(F.celu, 2.0),
    known(F.selu),
    known(F.softsign),
    known(F.hardswish),
    known(F.hardshrink, 0.4),
    known(F.threshold, 0.5, 0.2),
]


ALL = STRAIGHT + CLOSED + SMOOTH + BENT


every_activation = pytest.mark.parametrize("activation", ALL, ids=lambda a: a.name)


def pair(a: float, b: float, rho: float) -> Tensor:
    c = rho * math.sqrt(a) * math.sqrt(b)
    return torch.tensor([[a, c], [c, b]], dtype=torch.float64)


def psd(positions: int, rank: int, seed: int = 0) -> Tensor:
    factor = torch.randn(positions, rank, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return factor @ factor.T / rank
