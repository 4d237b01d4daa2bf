"""Slow, obvious versions of what the library does fast. Tests compare the two."""

from __future__ import annotations

import itertools
import math

import torch
from torch import Tensor, nn


def jacobian(model: nn.Module, x: Tensor) -> Tensor:
    """(outputs, d) at one point, one backward pass per output."""
    x = x.detach().clone().requires_grad_(True)
    y = model(x[None])[0]
    rows = [torch.autograd.grad(y[j], x, retain_graph=True)[0].flatten() for j in range(len(y))]
    return torch.stack(rows).double()


def geometry(models: list[nn.Module], points: Tensor) -> Tensor:
    """Mean of JᵀJ over models and points, as a loop."""
    d = points[0].numel()
    total = torch.zeros(d, d, dtype=torch.float64)
    for model in models:
        for x in points:
            J = jacobian(model, x)
            total += J.T @ J
    return total / (len(models) * len(points))


def corr(A: Tensor, B: Tensor) -> float:
    return float((A * B).sum() / A.norm() / B.norm())


def unbiased_corr(a: list[Tensor], b: list[Tensor]) -> float:
    """Corr from lists of independent unbiased matrices: products of different members only."""
    aa = sum(float((x * y).sum()) for x, y in itertools.permutations(a, 2)) / (len(a) * (len(a) - 1))
    bb = sum(float((x * y).sum()) for x, y in itertools.permutations(b, 2)) / (len(b) * (len(b) - 1))
    ab = sum(float((x * y).sum()) for x, y in itertools.product(a, b)) / (len(a) * len(b))
    return ab / math.sqrt(aa * bb)


def without(items: list[Tensor], i: int) -> list[Tensor]:
    return items[:i] + items[i + 1 :]


def jackknifed_corr(a: list[Tensor], b: list[Tensor]) -> float:
    """unbiased_corr minus its delete-one jackknife bias, both samples in turn."""
    value = unbiased_corr(a, b)
    left_a = sum(unbiased_corr(without(a, i), b) for i in range(len(a))) / len(a)
    left_b = sum(unbiased_corr(a, without(b, i)) for i in range(len(b))) / len(b)
    return value - (len(a) - 1) * (left_a - value) - (len(b) - 1) * (left_b - value)


def jackknifed_corr_error(a: list[Tensor], b: list[Tensor]) -> float:
    """Delete-one jackknife standard error of jackknifed_corr."""
    variance = 0.0
    for values in (
        [jackknifed_corr(without(a, i), b) for i in range(len(a))],
        [jackknifed_corr(a, without(b, i)) for i in range(len(b))],
    ):
        v = torch.tensor(values, dtype=torch.float64)
        variance += (len(v) - 1) / len(v) * float((v - v.mean()).square().sum())
    return math.sqrt(variance)


def spread(layer: nn.Module, spatial: tuple[int, ...], Q: Tensor) -> Tensor:
    """Σ over kernel entries of S_Δ Q S_Δᵀ, with S_Δ read off the layer by setting one kernel entry to one."""
    size = math.prod(spatial)
    total = torch.zeros(size, size, dtype=torch.float64)
    kernel = tuple(layer.kernel_size)
    for entry in itertools.product(*(range(k) for k in kernel)):
        weight = torch.zeros_like(layer.weight)
        weight[(0, 0, *entry)] = 1
        with torch.no_grad():
            layer.weight.copy_(weight)
            basis = torch.eye(size, dtype=layer.weight.dtype).reshape(size, 1, *spatial)
            S = layer(basis).flatten(1).double()  # (input, output)
        total += S @ Q @ S.T
    return total
