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

from netgrain.families.activations import recorded_activation
from netgrain.families.ends import SAME_ORDER
from netgrain.families.outputs import Output
from netgrain.families.reading import Reading
from netgrain.families.reasons import Reason
from netgrain.families.trace import Step
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


def find_shallow(reading: Reading, head: Head, output: Output) -> Shallow | None:
    """The structure, if the family has it: two linear layers, x into the first, nothing else but a ReLU."""
    trace = reading.trace
    if callable(output) or isinstance(trace, Reason):
        return None
    needed = trace.needed()
    steps = [s for s in trace.steps if s.index in needed and s.name not in SAME_ORDER]
    if len(steps) not in (2, 3) or steps[0].name != "linear" or steps[-1].name != "linear":
        return None
    if len(steps) == 3 and not _is_relu(steps[1]):
        return None
    first, last = steps[0].module, steps[-1].module
    layers = [reading.model.get_submodule(name) for name in (first, last)]
    flat = steps[0].shapes[0][:-1] == steps[-1].shapes[0][:-1] == (2,)  # the two samples of the trace
    if last != head.name or first == last or not flat or not all(type(layer) is nn.Linear for layer in layers):
        return None
    return Shallow(first, last, len(steps) == 3)


def _is_relu(step: Step) -> bool:
    activation = recorded_activation(step)
    return activation is not None and activation.kinks == (0.0,) and activation.slopes == (0.0, 1.0)
