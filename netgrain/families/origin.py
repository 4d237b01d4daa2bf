"""What "the origin" means for a network: the point itself where it is differentiable there, else the limit σ → 0.

At x = 0 a bias-free ReLU or any max-pooling network sits on a kink, and autograd's choice of a slope is not the average
over directions. There the origin means the limit of Gaussian(σ) for σ → 0; for positively homogeneous networks this
equals Gaussian(1). A normalisation layer that sees a constant at the origin has no limit at all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from netgrain.families.activations import recorded_activation
from netgrain.families.calls import watching
from netgrain.families.gradients import gradients
from netgrain.families.initialisation import Initialisation
from netgrain.families.members import double_copy, forward
from netgrain.families.outputs import Output, select
from netgrain.families.probes import Gaussian, Origin, Probe
from netgrain.families.reasons import Reason
from netgrain.families.trace import Ref, Trace, refs_in, weights_in
from netgrain.runtime.errors import NetgrainError

SMALL = 1e-3  # σ that stands for σ → 0 where the network is not homogeneous: small, yet well inside float32
NORMS = tuple(
    getattr(nn, name)
    for name in ("LayerNorm", "GroupNorm", "RMSNorm", "InstanceNorm1d", "InstanceNorm2d", "InstanceNorm3d")
    if hasattr(nn, name)
)


@dataclass(frozen=True)
class AtOrigin:
    """What a network does at x = 0.

    Parameters
    ----------
    kind : {"smooth", "kink", "constant norm"}
        It is differentiable there, has a kink, or normalises a constant.
    homogeneous : bool, default False
        Of a kink: whether f(cx) − f(0) = c (f(x) − f(0)) for c ≥ 0.
    where : str, default ""
        Of a constant norm: the dotted name of the layer.

    Examples
    --------
    >>> AtOrigin("kink", homogeneous=True).sigma, AtOrigin("kink").sigma
    (1.0, 0.001)
    """

    kind: Literal["smooth", "kink", "constant norm"]
    homogeneous: bool = False
    where: str = ""

    @property
    def sigma(self) -> float:
        """The σ whose Gaussian probe stands for the origin; 0 for the origin itself."""
        if self.kind == "smooth":
            return 0.0
        return SMALL if self.kind == "kink" and not self.homogeneous else 1.0


@dataclass(frozen=True)
class Resolved:
    """The probe that is really used, the one that was asked for (None: the default), and why they differ."""

    probe: Probe
    asked: Probe | None = None
    why: Reason | None = None

    @property
    def at_origin(self) -> bool:
        """Whether gradients are taken at x = 0 itself."""
        return isinstance(self.probe, Origin)

    @property
    def is_limit(self) -> bool:
        """Whether a Gaussian stands for the origin, where the network has a kink."""
        return self.why is not None and self.why.kind == "kink"

    @property
    def text(self) -> str:
        """Where gradients are taken, in words."""
        used = self.probe.describe()
        return f"origin limit ({used})" if self.is_limit else used


def probe_used(probe: Probe | None, model: nn.Module, input_shape: tuple[int, ...], output: Output) -> Resolved:
    """Turn None and Origin() into something well defined for this model."""
    if probe is not None and not isinstance(probe, Origin):
        return Resolved(probe, probe)
    return resolved(probe, at_origin(model, input_shape, output))


def resolved(probe: Probe | None, found: AtOrigin) -> Resolved:
    """What stands for the origin, which was asked for (Origin) or taken by default (None)."""
    if found.kind == "smooth":
        return Resolved(Origin(), probe)
    sigma = found.sigma
    if found.kind == "kink":
        taken = "the network is positively homogeneous, so the limit is taken at" if found.homogeneous else "taken at"
        text = f"the network has a kink at the origin; its limit σ → 0 is used ({taken} σ = {sigma:g})"
        return Resolved(Gaussian(sigma), probe, Reason("kink", "", text))
    if probe is None:
        text = f"the origin is not defined here ('{found.where}' normalises a constant), so the probe is Gaussian(1)"
        return Resolved(Gaussian(sigma), probe, Reason("constant norm", found.where, text))
    raise NetgrainError(
        f"the origin has no limit for this model: '{found.where}' normalises a constant there; "
        "use the probe Gaussian(1)."
    )


# --- by trying ------------------------------------------------------------------------------------------------------


def at_origin(model: nn.Module, input_shape: tuple[int, ...], output: Output = "all") -> AtOrigin:
    """What one network does at the origin, found by differences in double precision where it allows that."""
    if (name := _normalises_nothing(model, input_shape)) is not None:
        return AtOrigin("constant norm", where=name)
    double = double_copy(model, input_shape)
    weight = next(double.parameters())
    step = 1e-6 if weight.dtype == torch.float64 else 1e-3
    direction = torch.randn(1, *input_shape, generator=torch.Generator().manual_seed(0)).to(weight)

    def slope(x: Tensor) -> Tensor:
        return gradients(double, x, _one_mixture(output)).flatten()

    here, ahead, behind = slope(0 * direction), slope(step * direction), slope(-step * direction)
    scale = max(float(v.norm()) for v in (here, ahead, behind))
    jump = max(float((ahead - here).norm()), float((behind - here).norm()))
    if jump <= 1e-2 * scale:
        return AtOrigin("smooth")
    return AtOrigin("kink", float((slope(direction) - ahead).norm()) <= 1e-4 * float(ahead.norm()))


def _one_mixture(output: Output) -> Output:
    def mixed(y: Tensor) -> Tensor:
        chosen = select(y, output)
        weights = torch.randn(chosen.shape[1], generator=torch.Generator().manual_seed(1)).to(chosen)
        return (chosen * weights).sum(1, keepdim=True)

    return mixed


def _normalises_nothing(model: nn.Module, input_shape: tuple[int, ...]) -> str | None:
    """The first normalisation layer whose input at the origin is constant over what it normalises."""
    if not any(isinstance(m, NORMS) for m in model.modules()):
        return None
    found: list[str] = []

    def look(name: str, module: nn.Module, inputs: tuple[Any, ...]) -> None:
        if found or not isinstance(module, NORMS) or not inputs or not isinstance(inputs[0], Tensor):
            return
        if _is_constant(module, inputs[0]):
            found.append(name)

    with torch.no_grad(), watching(model, entering=look):
        forward(model, torch.zeros(1, *input_shape).to(next(model.parameters())))
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


# --- by reading -----------------------------------------------------------------------------------------------------


def is_homogeneous(trace: Trace, initialisation: Initialisation) -> bool:
    """f(cx) − f(0) = c·(f(x) − f(0)) for c ≥ 0, read off the steps: no bias below an activation, none that curves.

    Steps that are neither activations nor normalisations nor maxima are taken to be linear, as those with a closed
    form are.
    """
    scales = {Ref(-1)}
    for step in trace.steps:
        refs = list(refs_in((step.args, step.kwargs)))
        own = all(r in scales for r in refs)
        weights = list(weights_in((step.args, step.kwargs)))
        activation = recorded_activation(step)
        if activation is not None or "norm" in step.name or "max_pool" in step.name:
            if not own or (activation is not None and not activation.homogeneous):
                return False
            if "norm" in step.name and step.name != "batch_norm":
                return False
        laws = [initialisation.of(w.name) for w in weights if w.name.endswith("bias")]
        if any(law.variance or law.mean for law in laws):
            own = False
        if own:
            scales |= {Ref(step.index, i) for i in range(len(step.shapes))}
    return True
