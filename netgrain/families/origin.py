"""What "the origin" means for a network: the point itself where it is differentiable there, else the limit σ → 0.

At x = 0 a bias-free ReLU or any max-pooling network sits on a kink, and autograd's choice of a slope is not the average
over directions. There the origin means the limit of Gaussian(σ) for σ → 0; for positively homogeneous networks this
equals Gaussian(1). A normalisation layer that sees a constant at the origin has no limit at all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from netgrain.families.activations import activation_of, recorded_activation
from netgrain.families.calls import watching
from netgrain.families.ends import LINEAR, SUMS
from netgrain.families.gradients import gradients
from netgrain.families.members import double_copy, forward, tensors_of
from netgrain.families.outputs import Output, select
from netgrain.families.probes import Gaussian, Origin, Probe
from netgrain.families.reasons import Reason
from netgrain.families.trace import WEIGHTED, Ref, Step, Trace, Unsupported, Weight, record, refs_in
from netgrain.runtime.errors import NetgrainError

SMALL = 1e-3  # σ that stands for σ → 0 where the network is not homogeneous: small, yet well inside float32
# normalisations of one sample, and their arguments after the tensor
NORMS = {
    "layer_norm": ("normalized_shape", "weight", "bias", "eps"),
    "group_norm": ("num_groups", "weight", "bias", "eps"),
    "rms_norm": ("normalized_shape", "weight", "eps"),
    "instance_norm": ("running_mean", "running_var", "weight", "bias", "use_input_stats", "momentum", "eps"),
}
# steps that are linear in one tensor, up to a shift
ONE_BY_ONE = WEIGHTED | LINEAR | {"batch_norm", "pad", "interpolate", "upsample", "flip", "roll", "narrow", "detach"}
ONE_BY_ONE |= {"chunk", "split", "unbind", "tensor_split", "expand", "expand_as", "repeat", "view_as", "reshape_as"}
ONE_BY_ONE |= {"swapaxes", "moveaxis", "t", "imul", "itruediv", "true_divide", "identity", "positive", "type_as"}
# steps that are differentiable everywhere
SMOOTH = {"softmax", "log_softmax", "scaled_dot_product_attention", "multi_head_attention_forward"}
# products: linear in x where one factor depends on it, smooth where several do
PRODUCTS = {"matmul", "rmatmul", "mm", "bmm", "einsum", "mul", "rmul", "imul", "multiply"}


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
    return resolved(probe, lambda: at_origin(model, input_shape, output))


def resolved(probe: Probe | None, at_origin: Callable[[], AtOrigin]) -> Resolved:
    """The probe itself, or what stands for the origin that was asked for (Origin) or taken by default (None)."""
    if probe is not None and not isinstance(probe, Origin):
        return Resolved(probe, probe)
    found = at_origin()
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


# --- by reading the steps -------------------------------------------------------------------------------------------


def at_origin(model: nn.Module, input_shape: tuple[int, ...], output: Output = "all") -> AtOrigin:
    """What one network does at the origin: its steps tell, or differences in double precision where they cannot.

    Steps are read in the model's own precision: kinks are met exactly in any, and depthwise convolutions in double
    precision take a hundred times as long.
    """
    found = None if callable(output) else origin_from_steps(model, input_shape)
    return origin_by_trying(double_copy(model, input_shape), input_shape, output) if found is None else found


def is_smooth(trace: Trace) -> bool:
    """Whether every step is differentiable wherever it is taken."""
    return all(_kind(step) in ("linear", "smooth") for step in trace.steps)


def _kind(step: Step) -> str:
    """What is known of a step: "linear" (with a shift, perhaps), "smooth", "activation", "max", "norm", or ""."""
    refs = list(refs_in((step.args, step.kwargs)))
    if (activation := recorded_activation(step)) is not None and len(refs) == 1:
        return "activation" if activation.kinks or activation.homogeneous else "smooth"
    if "max_pool" in step.name or step.name in NORMS:
        return "max" if "max_pool" in step.name else "norm"
    alone = len(refs) == 1 and bool(step.args) and isinstance(step.args[0], Ref)
    if step.name in SUMS or (alone and step.name in ONE_BY_ONE) or (len(refs) == 1 and step.name in PRODUCTS):
        return "linear"
    return "smooth" if step.name in SMOOTH | PRODUCTS else ""


def origin_from_steps(model: nn.Module, input_shape: tuple[int, ...]) -> AtOrigin | None:
    """From the steps of a pass over 0, εv and −εv; None where a step is not known, or the model cannot be traced."""
    direction, step = _short_step(model, input_shape)
    look = _AtOrigin()
    try:
        trace = record(model, torch.cat([0 * direction, step * direction, -step * direction]), look=look)
    except Unsupported:
        return None
    tensors = tensors_of(model)
    needed = trace.needed(passes=lambda s: _passes(s, tensors))
    live = [s for s in trace.steps if s.index in needed]
    if any(not _kind(s) or s.index in look.unclear for s in live):
        return None
    if (constant := next((s for s in live if s.index in look.constants), None)) is not None:
        return AtOrigin("constant norm", where=constant.module or constant.name)
    if not any(s.index in look.kinks for s in live):
        return AtOrigin("smooth")
    return AtOrigin("kink", _is_homogeneous(live, tensors))


@dataclass(eq=False)
class _AtOrigin:
    """Looks at what enters the steps of a pass over 0, εv and −εv."""

    kinks: set[int] = field(default_factory=set)  # steps with entries on a kink, or ties of a maximum, that v moves
    constants: set[int] = field(default_factory=set)  # norms that see a constant
    unclear: set[int] = field(default_factory=set)  # the three inputs are not one after the other

    def __call__(self, index: int, name: str, function: Callable[..., Any], args: Any, kwargs: Any) -> None:
        x = args[0] if args and isinstance(args[0], Tensor) else None
        activation = activation_of(function, args, kwargs)
        if x is None or not (name in NORMS or "max_pool" in name or (activation is not None and activation.kinks)):
            return
        if len(x) != 3:
            self.unclear.add(index)
        elif name in NORMS:
            if _sees_constant(name, x[:1], args, kwargs):
                self.constants.add(index)
        elif activation is None:
            if _ties(x, function(x, *args[1:], **{**kwargs, "return_indices": True})[1]):
                self.kinks.add(index)
        elif any(bool(((x[0] == kink) & (x[1:] != kink).any(0)).any()) for kink in activation.kinks):
            self.kinks.add(index)


def _ties(x: Tensor, winners: Tensor) -> bool:
    """Whether different entries of a window win at εv and at −εv that are equal at 0."""
    here, ahead, behind = x[0].flatten(1), winners[1].flatten(1), winners[2].flatten(1)
    apart = (here.gather(1, ahead) - here.gather(1, behind)).abs()
    rounding = 1e3 * torch.finfo(x.dtype).eps * float(here.abs().max())
    return bool(((ahead != behind) & (apart <= rounding)).any())


def _sees_constant(name: str, x: Tensor, args: Any, kwargs: Any) -> bool:
    """Whether some of what a normalisation divides by is no larger than its ε."""
    given = dict(zip(NORMS[name], args[1:], strict=False)) | kwargs
    if not given.get("use_input_stats", True):
        return False
    if name == "group_norm":
        groups = x.reshape(len(x), given["num_groups"], -1)
    else:
        groups = x.flatten(-len(given["normalized_shape"])) if "normalized_shape" in given else x.flatten(2)
    spread = groups.square().mean(-1) if name == "rms_norm" else groups.var(-1, unbiased=False)
    eps = given.get("eps", 1e-5)
    return bool((spread <= (torch.finfo(torch.float32).eps if eps is None else eps)).any())


def _passes(step: Step, tensors: Mapping[str, Tensor]) -> bool:
    """Whether gradients pass a step: not through weights that are all zero."""
    if step.name not in WEIGHTED or len(step.args) < 2 or not isinstance(step.args[1], Weight):
        return True
    return _has_entries(tensors[step.args[1].name])


def _has_entries(weights: Tensor) -> bool:
    """Whether some are not zero; random ones show it at their beginning, and millions are not looked at."""
    return bool(weights.flatten()[:64].any()) or bool(weights.any())


def _is_homogeneous(steps: Sequence[Step], tensors: Mapping[str, Tensor]) -> bool:
    """f(cx) − f(0) = c·(f(x) − f(0)) for c ≥ 0: no shift below an activation, none that curves.

    A maximum over positions allows the bias of a convolution, which is the same for all of them.
    """
    scales, shifted = {Ref(-1)}, set[Ref]()
    for step in steps:
        refs, kind = set(refs_in((step.args, step.kwargs))), _kind(step)
        own = refs <= scales
        made = {Ref(step.index, i) for i in range(len(step.shapes))}
        activation = recorded_activation(step)
        if kind in ("smooth", "norm") or (activation is not None and not (own and activation.homogeneous)):
            return False
        if kind == "max" and not refs <= scales | shifted:
            return False
        if own and not _adds(step, tensors):
            scales |= made
        elif (own and step.name.startswith("conv")) or (kind == "max" and not own):
            shifted |= made
    return True


def _adds(step: Step, tensors: Mapping[str, Tensor]) -> bool:
    """Whether a step adds something that does not depend on x."""
    if step.name in WEIGHTED:
        added = step.args[2:3] or (step.kwargs.get("bias"),)
    elif step.name == "batch_norm":
        names = ("running_mean", "running_var", "weight", "bias")
        given = dict(zip(names, step.args[1:], strict=False)) | step.kwargs
        added = (given["running_mean"], given.get("bias"))
    elif step.name in SUMS:
        added = step.args[0] if isinstance(step.args[0], tuple) else step.args
    else:
        added = (step.kwargs.get("value"),) if step.name == "pad" else ()
    return any(
        _has_entries(tensors[a.name]) if isinstance(a, Weight) else bool(a) and not isinstance(a, Ref) for a in added
    )


# --- by trying ------------------------------------------------------------------------------------------------------


def _short_step(model: nn.Module, input_shape: tuple[int, ...]) -> tuple[Tensor, float]:
    """A direction v, and an ε that the precision of the model allows."""
    weight = next(model.parameters())
    direction = torch.randn(1, *input_shape, generator=torch.Generator().manual_seed(0)).to(weight)
    return direction, 1e-6 if weight.dtype == torch.float64 else 1e-3


def origin_by_trying(model: nn.Module, input_shape: tuple[int, ...], output: Output) -> AtOrigin:
    """From differences of gradients, in double precision where the model allows that."""
    if (name := _normalises_nothing(model, input_shape)) is not None:
        return AtOrigin("constant norm", where=name)
    direction, step = _short_step(model, input_shape)

    def slope(x: Tensor) -> Tensor:
        return gradients(model, x, _one_mixture(output)).flatten()

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


class _Norms(TorchFunctionMode):
    """Notices normalisations that see a constant, in a module that cannot be traced."""

    found = False

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = getattr(function, "__name__", "")
        if name in NORMS and args:
            self.found = self.found or _sees_constant(name, args[0], args, kwargs or {})
        return function(*args, **(kwargs or {}))


def _normalises_nothing(model: nn.Module, input_shape: tuple[int, ...]) -> str | None:
    """The first module that normalises a constant at the origin."""
    first: list[str] = []

    def leave(name: str, _module: nn.Module, _output: Any) -> None:
        if norms.found and not first:
            first.append(name)

    with torch.no_grad(), watching(model, leaving=leave), _Norms() as norms:
        forward(model, torch.zeros(1, *input_shape).to(next(model.parameters())))
    return first[0] if first else None
