"""Gradient descent with finite steps, the flow it should follow, and the flow it follows instead.

Gradient descent θ → θ − η∇L is the flow of L only to first order in η. To second order it is the flow of the modified
loss L + (η/4)‖∇L‖² (Barrett and Dherin, arXiv 2009.11162), whose velocity is −∇L − (η/2)H∇L with the Hessian H: the
distance to the first at a given time is O(η), to the second O(η²). For minibatches drawn without replacement the mean
over their orders follows L + (η/4)·mean ‖∇L_j‖² (Smith et al., arXiv 2101.12176).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

Field = Callable[[Tensor], Tensor]  # weights → their velocity


@dataclass(frozen=True, eq=False)
class SmallNetwork:
    """A network d → h → k with tanh units and half the squared error to targets, as a function of one weight vector."""

    X: Tensor  # (samples, d) float64
    Y: Tensor  # (samples, k)
    hidden: int

    @property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        d, k = self.X.shape[1], self.Y.shape[1]
        return (self.hidden, d), (self.hidden,), (k, self.hidden), (k,)

    def start(self, scale: float, generator: torch.Generator) -> Tensor:
        """Normal weights of variance scale²/fan_in and zero biases, in one vector."""
        parts = []
        for shape in self.shapes:
            drawn = torch.randn(shape, generator=generator, dtype=torch.float64)
            parts.append((drawn * scale / math.sqrt(shape[1]) if len(shape) > 1 else torch.zeros_like(drawn)).flatten())
        return torch.cat(parts)

    def parts(self, theta: Tensor) -> list[Tensor]:
        sizes = [math.prod(shape) for shape in self.shapes]
        return [part.reshape(shape) for part, shape in zip(theta.split(sizes), self.shapes, strict=True)]

    def loss(self, theta: Tensor, rows: slice = slice(None)) -> Tensor:
        """½‖f(x) − y‖², its mean over samples."""
        W, b, V, c = self.parts(theta)
        f = F.linear(torch.tanh(F.linear(self.X[rows], W, b)), V, c)
        return (f - self.Y[rows]).square().sum(1).mean() / 2

    def gradient(self, theta: Tensor, rows: slice = slice(None)) -> Tensor:
        leaf = theta.detach().requires_grad_(True)
        with torch.enable_grad():
            (found,) = torch.autograd.grad(self.loss(leaf, rows), leaf)
        return found

    def modified_gradient(self, theta: Tensor, strength: float, rows: Sequence[slice] = (slice(None),)) -> Tensor:
        """∇(L + strength · mean over parts of ‖∇L_j‖²); one part: all samples."""
        leaf = theta.detach().requires_grad_(True)
        with torch.enable_grad():
            losses = [self.loss(leaf, part) for part in rows]
            slopes = [torch.autograd.grad(one, leaf, create_graph=True)[0] for one in losses]
            penalty = torch.stack([g.square().sum() for g in slopes]).mean()
            (found,) = torch.autograd.grad(torch.stack(losses).mean() + strength * penalty, leaf)
        return found

    def complexity(self, theta: Tensor) -> float:
        """Geometric complexity over the samples: mean ‖V diag(1 − tanh²) W‖²."""
        W, b, V, _ = self.parts(theta)
        gate = 1 - torch.tanh(F.linear(self.X, W, b)).square()  # (samples, hidden)
        pairs = (V.T @ V) * (W @ W.T)
        return float(torch.einsum("ni,ij,nj->n", gate, pairs, gate).mean())


def runge_kutta(velocity: Field, theta: Tensor, time: float, steps: int) -> list[Tensor]:
    """The flow at steps + 1 equally spaced times, by the classical method of fourth order."""
    h, path = time / steps, [theta]
    for _ in range(steps):
        a = velocity(theta)
        b = velocity(theta + h / 2 * a)
        c = velocity(theta + h / 2 * b)
        d = velocity(theta + h * c)
        theta = theta + h / 6 * (a + 2 * b + 2 * c + d)
        path.append(theta)
    return path


def descent(gradient: Field, theta: Tensor, rate: float, steps: int) -> list[Tensor]:
    """Weights of gradient descent, the first ones included."""
    path = [theta]
    for _ in range(steps):
        theta = theta - rate * gradient(theta)
        path.append(theta)
    return path


def order(rates: Sequence[float], gaps: Sequence[float]) -> float:
    """The power of the rate with which a gap shrinks, by least squares in logarithms.

    >>> round(order([1.0, 0.5, 0.25], [3.0, 0.75, 0.1875]), 9)
    2.0
    """
    x, y = (torch.tensor(v, dtype=torch.float64).log() for v in (rates, gaps))
    x = x - x.mean()
    return float((x * y).sum() / x.square().sum())
