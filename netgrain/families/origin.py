"""What "the origin" means for a network: the point itself where it is differentiable there, else the limit σ → 0.

At x = 0 a bias-free ReLU or any max-pooling network sits on a kink, and autograd's choice of a slope is not the average
over directions. There the origin means the limit of Gaussian(σ) for σ → 0; for positively homogeneous networks this
equals Gaussian(1). A normalisation layer that sees a constant at the origin has no limit at all.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from netgrain.families.gradients import gradients
from netgrain.families.members import forward
from netgrain.families.outputs import Output, select
from netgrain.families.probes import Gaussian, Origin, Probe
from netgrain.runtime.errors import NetgrainError

SMALL = 1e-3  # σ that stands for σ → 0 where the network is not homogeneous: small, yet well inside float32
NORMS = tuple(
    getattr(nn, name)
    for name in ("LayerNorm", "GroupNorm", "RMSNorm", "InstanceNorm1d", "InstanceNorm2d", "InstanceNorm3d")
    if hasattr(nn, name)
)


@dataclass(frozen=True)
class Resolved:
    """The probe that is really used, and how to say so."""

    probe: Probe
    text: str
    note: str = ""

    @property
    def at_origin(self) -> bool:
        return isinstance(self.probe, Origin)


def probe_used(probe: Probe | None, model: nn.Module, input_shape: tuple[int, ...], output: Output) -> Resolved:
    """Turn None and Origin() into something well defined for this model."""
    if probe is not None and not isinstance(probe, Origin):
        return Resolved(probe, probe.describe())
    if (name := _normalises_nothing(model, input_shape)) is not None:
        if probe is None:
            note = f"the origin is not defined here ('{name}' normalises a constant), so the probe is Gaussian(1)"
            return Resolved(Gaussian(1.0), "gaussian:1", note)
        raise NetgrainError(
            f"the origin has no limit for this model: '{name}' normalises a constant there; use the probe Gaussian(1)."
        )
    double = _in_double(model, input_shape)
    weight = next(double.parameters())
    step = 1e-6 if weight.dtype == torch.float64 else 1e-3
    direction = torch.randn(1, *input_shape, generator=torch.Generator().manual_seed(0)).to(weight)

    def slope(x: Tensor) -> Tensor:
        return gradients(double, x, _one_mixture(output)).flatten()

    here, ahead, behind = slope(0 * direction), slope(step * direction), slope(-step * direction)
    scale = max(float(v.norm()) for v in (here, ahead, behind))
    jump = max(float((ahead - here).norm()), float((behind - here).norm()))
    if jump <= 1e-2 * scale:
        return Resolved(Origin(), "origin")
    homogeneous = float((slope(direction) - ahead).norm()) <= 1e-4 * float(ahead.norm())
    sigma = 1.0 if homogeneous else SMALL
    why = "the network is positively homogeneous, so the limit is taken at" if homogeneous else "taken at"
    return Resolved(
        Gaussian(sigma),
        f"origin limit (gaussian:{sigma:g})",
        f"the network has a kink at the origin; its limit σ → 0 is used ({why} σ = {sigma:g})",
    )


def _one_mixture(output: Output) -> Output:
    def mixed(y: Tensor) -> Tensor:
        chosen = select(y, output)
        weights = torch.randn(chosen.shape[1], generator=torch.Generator().manual_seed(1)).to(chosen)
        return (chosen * weights).sum(1, keepdim=True)

    return mixed


def _in_double(model: nn.Module, input_shape: tuple[int, ...]) -> nn.Module:
    """A float64 copy (on the CPU: MPS has none) where the model allows it, to tell a kink and curvature apart."""
    try:
        double = copy.deepcopy(model).cpu().double()
        with torch.no_grad():
            double(torch.zeros(1, *input_shape, dtype=torch.float64))
        return double
    except Exception:  # a module may refuse to be copied or converted, or keep a constant in float32
        return model


def _normalises_nothing(model: nn.Module, input_shape: tuple[int, ...]) -> str | None:
    """The first normalisation layer whose input at the origin is constant over what it normalises."""
    found: list[str] = []

    def hook(name: str) -> Any:
        def look(module: nn.Module, inputs: tuple[Any, ...]) -> None:
            if isinstance(inputs[0], Tensor) and not found and _is_constant(module, inputs[0]):
                found.append(name)

        return look

    handles = [m.register_forward_pre_hook(hook(n)) for n, m in model.named_modules() if isinstance(m, NORMS)]
    if not handles:
        return None
    try:
        with torch.no_grad():
            forward(model, torch.zeros(1, *input_shape).to(next(model.parameters())))
    finally:
        for handle in handles:
            handle.remove()
    return found[0] if found else None


def _is_constant(module: nn.Module, x: Tensor) -> bool:
    if isinstance(module, nn.GroupNorm):
        groups = x.reshape(len(x), module.num_groups, -1)
    elif isinstance(shape := getattr(module, "normalized_shape", None), tuple):
        groups = x.flatten(-len(shape))
    else:
        groups = x.flatten(2)
    spread = groups.square().mean(-1) if type(module).__name__ == "RMSNorm" else groups.var(-1, unbiased=False)
    eps = getattr(module, "eps", None)
    return bool((spread <= (eps if isinstance(eps, float) else 1e-5)).any())
