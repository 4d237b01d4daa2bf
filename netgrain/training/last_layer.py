"""A last linear layer with a symmetric law: members with ω and with −ω count together, at the price of one.

Let f = ω h_φ(x) + c with weights ω whose law does not change under ω → −ω, whatever the other weights φ. The member
with −ω has outputs 2c − f and input gradient −∇ₓf. In θ̇ = −Σ_μ ∇_θ f(x_μ) · e_μ, e = ∂L/∂f, the mean of the two
contributions to Δ is that of the one member with e replaced by its odd part,

    ½ [e(f) − e(2c − f)],        under SSE  ½ [(f − y) − (2c − f − y)] = f − c :

the labels drop out (Proposition A.1 of the paper, on every single pair). It costs no further pass over the data.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.func import functional_call

from netgrain.families.ends import weight_name
from netgrain.families.members import forward
from netgrain.families.outputs import Output
from netgrain.families.reading import Reading
from netgrain.families.reasons import Reason
from netgrain.runtime.errors import NetgrainError


@dataclass(frozen=True)
class Head:
    """The last layer, by name; `law` says what is known of its weights."""

    name: str
    law: str

    def __str__(self) -> str:
        return f"'{self.name}', {self.law}"

    def offset(self, model: nn.Module, x: Tensor) -> Tensor:
        """Outputs without the layer's weights (its bias), (1, k); x: any one point."""
        key = weight_name(self.name)
        nothing = {key: torch.zeros_like(dict(model.named_parameters())[key])}
        with torch.no_grad():
            return forward(lambda points: functional_call(model, nothing, (points,)), x[:1])


def symmetric_head(reading: Reading, output: Output, *, trust: bool = False) -> Head | Reason:
    """The last layer, if its members with ω and −ω are equally likely; trust: the caller vouches for that."""
    if callable(output):
        return Reason("asked for", "", "a custom output may not be linear in the last layer")
    last = reading.last_layer()
    if isinstance(last, Reason):
        return last
    if trust:
        return Head(last.name, "assumed symmetric")
    if isinstance(last.law, Reason):
        return last.law
    if not last.symmetric:
        text = f"'{last.name}': its weights have a skewed law ({abs(last.law.skewness):.1f} standard errors)"
        return Reason("law", last.name, text)
    return Head(last.name, last.law.text)


def head_or_reason(reading: Reading, output: Output, antithetic: bool | None) -> Head | Reason:
    """The head, or why there is none; antithetic=True insists on it, False does not look."""
    if antithetic is False:
        return Reason("asked for", "", "switched off")
    head = symmetric_head(reading, output, trust=antithetic is True)
    if antithetic and isinstance(head, Reason):
        raise NetgrainError(f"antithetic heads are not possible: {head}; leave antithetic=None.")
    return head
