"""A last linear layer with a symmetric law: members with ω and with −ω count together, at the price of one.

Let f = ω h_φ(x) + c with weights ω whose law does not change under ω → −ω, whatever the other weights φ. The member
with −ω has outputs 2c − f and input gradient −∇ₓf. In θ̇ = −Σ_μ ∇_θ f(x_μ) · e_μ, e = ∂L/∂f, the mean of the two
contributions to Δ is that of the one member with e replaced by its odd part,

    ½ [e(f) − e(2c − f)],        under SSE  ½ [(f − y) − (2c − f − y)] = f − c :

the labels drop out (Proposition A.1 of the paper, on every single pair). It costs no further pass over the data.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from netgrain.families.members import Family, forward, member, model_dtype
from netgrain.families.outputs import Output
from netgrain.families.weight_law import read_law
from netgrain.runtime.errors import NetgrainError
from netgrain.runtime.randomness import derived_seed

DRAWS, DRAWS_LARGE = 64, 24  # fresh draws that the law is read from; the second for models over a million parameters
OTHERS = 256  # entries of other parameters that independence is tested against
SKEWED = 5.0  # standard errors


class NoHead(Exception):
    """Why members with ω and −ω do not count together."""


@dataclass(frozen=True)
class Head:
    """The last layer, by name; `law` says what is known of its weights."""

    name: str
    law: str

    def offset(self, model: nn.Module, x: Tensor) -> Tensor:
        """Outputs without the layer's weights (its bias), (1, k); x: any one point."""
        with torch.no_grad():
            return _outputs(model, self.name, x[:1], 0.0)


def find_head(
    make: Family, model: nn.Module, input_shape: tuple[int, ...], *, seed: int, output: Output, trust: bool = False
) -> Head:
    """Check the structure on `model` (member 0) and the law on fresh members; raises NoHead with the reason.

    trust: the caller vouches for the law, only the structure is checked.
    """
    if callable(output):
        raise NoHead("a custom output may not be linear in the last layer")
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(3, *input_shape, generator=generator).to(model_dtype(model))
    name = _last_linear(model, x)
    _check_odd(model, name, x)
    _check_offset_is_bias(model, name, x)
    law = "assumed symmetric" if trust else _law(make, model, name, seed)
    return Head(name, law)


def _last_linear(model: nn.Module, x: Tensor) -> str:
    """The linear layer that ran last, if its weight is its own."""
    seen: list[tuple[str, nn.Module]] = []

    def hook(name: str) -> Any:
        return lambda module, inputs: seen.append((name, module))

    handles = [m.register_forward_pre_hook(hook(n)) for n, m in model.named_modules() if isinstance(m, nn.Linear)]
    try:
        with torch.no_grad():
            forward(model, x)
    finally:
        for handle in handles:
            handle.remove()
    if not seen:
        raise NoHead("the model does not end in a Linear layer")
    name, layer = seen[-1]
    if sum(module is layer for _, module in seen) > 1:
        raise NoHead(f"'{name}' is used more than once")
    weight = layer._parameters.get("weight")
    if not isinstance(weight, nn.Parameter):
        raise NoHead(f"the weight of '{name}' is computed from other parameters")
    owners = [n for n, p in model.named_parameters(remove_duplicate=False) if p.data_ptr() == weight.data_ptr()]
    if len(owners) > 1:
        raise NoHead(f"the weight of '{name}' is shared ({', '.join(owners)})")
    return name


def _outputs(model: nn.Module, name: str, x: Tensor, factor: float) -> Tensor:
    """Outputs with the layer's weight multiplied by a factor."""
    key = f"{name}.weight" if name else "weight"
    weight = dict(model.named_parameters())[key].detach() * factor
    return forward(lambda points: functional_call(model, {key: weight}, (points,)), x)


def _check_odd(model: nn.Module, name: str, x: Tensor) -> None:
    with torch.no_grad():
        plain, flipped, without = (_outputs(model, name, x, factor) for factor in (1.0, -1.0, 0.0))
    scale = float(plain.abs().max()) + float(without.abs().max())
    tolerance = 1e-4 * scale
    if float((without - without[:1]).abs().max()) > tolerance:
        raise NoHead(f"x also reaches the output around '{name}'")
    if float((plain + flipped - 2 * without).abs().max()) > tolerance:
        raise NoHead(f"the output is not linear in the weight of '{name}'")


def _check_offset_is_bias(model: nn.Module, name: str, x: Tensor) -> None:
    """What remains without the weight must come from the layer's own bias: it moves nothing that ∇ₓf depends on."""
    prefix = f"{name}." if name else ""
    leaves = {n: p.detach().requires_grad_(True) for n, p in model.named_parameters()}
    leaves[f"{prefix}weight"] = torch.zeros_like(leaves[f"{prefix}weight"])
    with torch.enable_grad():
        y = forward(lambda points: functional_call(model, leaves, (points,)), x[:1]).sum()
    others = [n for n in leaves if n not in (f"{prefix}weight", f"{prefix}bias")]
    if not y.requires_grad or not others:
        return
    found = torch.autograd.grad(y, [leaves[n] for n in others], allow_unused=True)
    if any(g is not None and bool(g.any()) for g in found):
        raise NoHead(f"other parameters reach the output around '{name}'")


def _law(make: Family, model: nn.Module, name: str, seed: int) -> str:
    """Centred, uncorrelated, independent of a sample of all other parameters, and without skewness."""
    count = DRAWS if sum(p.numel() for p in model.parameters()) < 1_000_000 else DRAWS_LARGE
    key = f"{name}.weight" if name else "weight"
    picks = _other_entries(model, key, seed)
    draws, others = [], []
    for i in range(count):
        parameters = dict((model if i == 0 else member(make, seed, i)).named_parameters())
        draws.append(parameters[key].detach().flatten().clone())
        others.append(torch.cat([parameters[n].flatten()[where].double() for n, where in picks] or [torch.zeros(0)]))
    drawn = torch.stack(draws).double()
    weight = dict(model.named_parameters())[key]
    law = read_law(drawn, torch.stack(others), weight[0].numel(), seed=derived_seed(seed, "law"))
    if isinstance(law, str):
        raise NoHead(f"'{name}': {law}")
    cubes = drawn.pow(3)
    skewness = float(cubes.mean()) / (float(cubes.std()) / math.sqrt(cubes.numel()))
    if abs(skewness) > SKEWED:
        raise NoHead(f"'{name}': its weights have a skewed law ({abs(skewness):.1f} standard errors)")
    return law.name


def _other_entries(model: nn.Module, key: str, seed: int) -> list[tuple[str, Tensor]]:
    """A few random entries of every other parameter, at most OTHERS in all."""
    generator = torch.Generator().manual_seed(derived_seed(seed, "others"))
    parameters = [(n, p) for n, p in model.named_parameters() if n != key]
    each = max(1, OTHERS // max(len(parameters), 1))
    return [(n, torch.randint(p.numel(), (min(each, p.numel()),), generator=generator)) for n, p in parameters][:OTHERS]


def head_or_reason(
    make: Family,
    model: nn.Module,
    input_shape: tuple[int, ...],
    *,
    seed: int,
    output: Output,
    antithetic: bool | None,
) -> tuple[Head | None, str]:
    """The head, or None with the reason; antithetic=True insists on it."""
    if antithetic is False:
        return None, "switched off"
    try:
        head = find_head(make, model, input_shape, seed=seed, output=output, trust=antithetic is True)
    except NoHead as e:
        if antithetic:
            raise NetgrainError(f"antithetic heads are not possible: {e}; leave antithetic=None.") from e
        return None, str(e)
    return head, f"'{head.name}', {head.law}"
