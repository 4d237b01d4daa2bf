"""One hidden layer under SSE: the contribution of a member to Δ, averaged exactly over its output weights.

Let f = ω σ(Wx + β) + c, σ the identity or ReLU, k outputs, ω independent with a symmetric law, v = E ω², m₄ = E ω⁴.
Labels and c drop out (training.last_layer). With h_μ = σ(Wx_μ + β), φ_i the rows of W, i over units that are on at x,

    ω̇ = −Σ_μ ω h_μ h_μᵀ,    φ̇_i = −Σ_μ σ'_iμ (ωᵀω h_μ)_i x_μ,    a = Σ_i ω_i φ_i,    b = Σ_i ω̇_i φ_i + ω_i φ̇_i

and the mean over ω of b aᵀ, for one output, is, with E[ω_i²ω_j²] = v² for i ≠ j,

    M(x) = −Σ_μ [v g_μ + (v² c_μ + m₄ + (k−2) v²) x_μ] g_μᵀ,    g_μ = Σ_i h_μi φ_i,    c_μ = Σ_i σ'_iμ.

A single ω gives a matrix of rank one with a norm √d times that of its mean; this one has the rank of the hidden layer.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from netgrain.families.members import forward, model_dtype
from netgrain.families.outputs import Output
from netgrain.runtime.devices import in_double
from netgrain.training.last_layer import Head

SAMPLES_AT_ONCE = 256


@dataclass(frozen=True)
class Shallow:
    """Names of the two layers, and whether a ReLU stands between them."""

    first: str
    head: str
    relu: bool

    def _layers(self, model: nn.Module) -> tuple[nn.Linear, nn.Linear]:
        first, last = model.get_submodule(self.first), model.get_submodule(self.head)
        assert isinstance(first, nn.Linear)
        assert isinstance(last, nn.Linear)
        return first, last

    def outputs(self, model: nn.Module, X: Tensor) -> Tensor:
        """What the formula takes the model to be."""
        first, last = self._layers(model)
        hidden = first(X.flatten(1))
        found: Tensor = last(hidden.relu() if self.relu else hidden)
        return found

    def rows(
        self, model: nn.Module, X: Tensor, points: Tensor, output: Output, moving: list[str]
    ) -> tuple[Tensor, Tensor]:
        """Rows a_i, b_i of the units that are on at each point: Σ a aᵀ gives G and Σ b aᵀ gives M, averaged over ω.

        The moments of ω are unbiased estimates from the member's own entries, which are independent of all else.
        """
        first, last = self._layers(model)
        W, omega = first.weight.detach(), in_double(last.weight.detach())
        v, v2, fourth = _moments(omega)
        outputs = len(omega)
        # outputs are exchangeable and cross terms vanish, so a choice of outputs only multiplies
        times = {"all": outputs, "mean": 1 / outputs}.get(output, 1) if isinstance(output, str) else 1
        times = 2 if isinstance(output, tuple) else times
        with torch.no_grad():
            before = torch.cat([first(x.to(W).flatten(1)) for x in X.split(SAMPLES_AT_ONCE)])
            H = before.relu() if self.relu else before  # (samples, units)
            slope = (before > 0).to(W) if self.relu else torch.ones_like(before)
            flat = X.to(W).flatten(1)
            a, b = [], []
            for at in first(points.flatten(1)):
                on = at > 0 if self.relu else torch.ones_like(at, dtype=torch.bool)
                weight = v2 * slope[:, on].sum(1) + fourth + (outputs - 2) * v2
                kept = torch.zeros_like(W[on])
                if f"{self.head}.weight" in moving:
                    kept += v * (H[:, on].T @ H[:, on]) @ W[on]
                if f"{self.first}.weight" in moving:
                    kept += H[:, on].T @ (weight[:, None] * flat)
                a.append(math.sqrt(times * v) * W[on])
                b.append(-math.sqrt(times / v) * kept)
        return torch.cat(a), torch.cat(b)


def _moments(omega: Tensor) -> tuple[float, float, float]:
    """Unbiased E ω², (E ω²)² and E ω⁴ from independent entries."""
    n = omega.numel()
    squares, fourth = float(omega.square().sum()), float(omega.pow(4).sum())
    pairs = (squares**2 - fourth) / (n * (n - 1)) if n > 1 else squares**2
    return squares / n, pairs, fourth / n


def find_shallow(model: nn.Module, head: Head, input_shape: tuple[int, ...], output: Output) -> Shallow | None:
    """The structure, if the model has it: two linear layers, x into the first, nothing else but a ReLU."""
    layers = [name for name, module in model.named_modules() if type(module) is nn.Linear]
    if callable(output) or len(layers) != 2 or head.name not in layers:
        return None
    first = next(name for name in layers if name != head.name)
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(16, *input_shape, generator=generator).to(model_dtype(model))
    if model.get_submodule(first).in_features != x[0].numel():
        return None
    with torch.no_grad():
        truth = forward(model, x)
        for relu in (True, False):
            found = Shallow(first, head.name, relu)
            if model.get_submodule(first).out_features != model.get_submodule(head.name).in_features:
                return None
            guess = found.outputs(model, x)
            if guess.shape == truth.shape and torch.allclose(guess, truth, rtol=1e-4, atol=1e-5 * float(truth.std())):
                return found
    return None
