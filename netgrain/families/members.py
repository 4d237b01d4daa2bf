"""Members of a family: member i is a function of (seed, i) alone; input gradients without parameter gradients."""

from __future__ import annotations

import copy
import inspect
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from netgrain.families.failures import (
    ADVICE,
    check_has_numbers,
    check_not_lazy,
    unwrapped_model,
    why_it_failed,
)
from netgrain.families.logits import logits_of
from netgrain.families.wrapped import name_of
from netgrain.runtime.arguments import found
from netgrain.runtime.errors import GrainWarning, NetgrainError
from netgrain.runtime.memory import shortage
from netgrain.runtime.randomness import derived_seed, seeded

Family = Callable[[], nn.Module]


def member(make: Family, seed: int, i: int, device: torch.device | str = "cpu") -> nn.Module:
    """Network number i of a family: fresh, in eval mode, its parameters frozen.

    Parameters
    ----------
    make : callable
        Returns a fresh ``torch.nn.Module`` on every call.
    seed : int
        Seed of the family.
    i : int
        Number of the network; it depends on ``(seed, i)`` alone.
    device : torch.device or str, default "cpu"
        Where its weights end up. They are drawn on the CPU.

    Returns
    -------
    torch.nn.Module
        The network.

    Raises
    ------
    NetgrainError
        If `make` fails, or returns something else or a network without finite weights.

    Examples
    --------
    >>> first, again, other = (member(lambda: nn.Linear(2, 1), 0, i).weight for i in (0, 0, 1))
    >>> torch.equal(first, again), torch.equal(first, other)
    (True, False)
    """
    with seeded(derived_seed(seed, "member", i)):
        model = built(make)
    check_weights(model, f"member {i}")
    return without_gradients(model).eval().to(device)


def without_gradients(model: nn.Module) -> nn.Module:
    """The model, its parameters frozen one by one, which scripted modules allow too."""
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    return model


WRAPPERS = ("module.", "model.")  # what DataParallel, Lightning and the like put before the names of weights


def trained_model(make: Family, weights: Mapping[str, Tensor]) -> nn.Module:
    """A member with these weights, frozen and in eval mode; the first name that does not fit is reported."""
    model = member(make, 0, 0)
    own, owner = model.state_dict(), type(model).__name__
    weights = _without_wrappers(weights, own)
    missing, unknown = [n for n in own if n not in weights], [n for n in weights if n not in own]
    if missing or unknown:
        parts = [f"lack '{missing[0]}'" if missing else "", f"have '{unknown[0]}' too many" if unknown else ""]
        raise NetgrainError(
            f"the weights do not fit {owner}: they {' and '.join(filter(None, parts))} ({len(missing)} names missing, "
            f"{len(unknown)} not known); give the model and options they were saved from."
        )
    for name, tensor in weights.items():
        if tensor.is_complex() and not own[name].is_complex():
            raise NetgrainError(f"the weights do not fit {owner}: '{name}' has complex numbers; expected real ones.")
        if tensor.shape != own[name].shape:
            raise NetgrainError(
                f"the weights do not fit {owner}: '{name}' has shape {tuple(tensor.shape)}, expected "
                f"{tuple(own[name].shape)}; give the options they were saved with, as in mlp:width=0.5."
            )
    try:
        model.load_state_dict(dict(weights))
    except RuntimeError as e:  # of another layout: sparse, quantised
        raise NetgrainError(
            f"the weights cannot be copied into {owner} ({' '.join(str(e).split())}); give dense ones."
        ) from e
    return model.eval()


def _without_wrappers(weights: Mapping[str, Tensor], own: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
    """The weights without a prefix that all of them have and the model's own names do not."""
    for _ in WRAPPERS:  # one inside the other
        for prefix in WRAPPERS:
            if weights and all(n.startswith(prefix) for n in weights) and not any(n.startswith(prefix) for n in own):
                weights = {name.removeprefix(prefix): tensor for name, tensor in weights.items()}
    return weights


def built(make: Any) -> nn.Module:
    """A fresh module of the family, without the wrapping of torch.compile or DataParallel; else a sentence."""
    refuse_inference_mode()  # weights that are made in it have no gradients for good
    wanted = "make expects a class or function that returns a fresh torch.nn.Module"
    if isinstance(make, str):
        raise NetgrainError(f"{wanted}, found the text {make!r}; netgrain.models.load_model(text) makes one of a name.")
    if isinstance(make, nn.Module):
        kind = type(unwrapped_model(make)).__name__
        raise NetgrainError(
            f"{wanted}, found one finished module ({kind}); pass a function that builds it anew, as in "
            f"lambda: {kind}(...), or ng.fresh(model), which draws the weights of a copy anew; for the geometry of "
            "this one model use geometry_of(model, probe)."
        )
    if not callable(make):
        raise NetgrainError(f"{wanted}, found {found(make)}; pass it, as in partial(ResNet18, channels=1).")
    name = getattr(make, "__name__", type(make).__name__)
    try:
        model = make()
    except NetgrainError:
        raise
    except Exception as e:  # the user's own code may raise anything
        if short := shortage(e):
            raise NetgrainError(short) from e
        if isinstance(e, TypeError) and (missing := _required(make)):
            raise NetgrainError(
                f"{name} needs a value for '{missing}'; pass functools.partial({name}, {missing}=…) or a function "
                "without arguments."
            ) from e
        reason = " ".join(f"{type(e).__name__}: {e}".split())
        raise NetgrainError(f"{name} could not be built ({reason}); call it by itself to see where it fails.") from e
    if not isinstance(model, nn.Module):
        # a value would say little here: its type is what is wrong
        kind = found(model) if model is None or isinstance(model, type) else type(model).__name__
        raise NetgrainError(
            f"expected a callable that returns a torch.nn.Module, found one that returns {kind}; "
            "pass the class or a function, as in partial(ResNet18, channels=1)."
        )
    return unwrapped_model(model)


def refuse_inference_mode() -> None:
    if torch.is_inference_mode_enabled():
        raise NetgrainError("gradients cannot be taken in torch.inference_mode(); call netgrain outside of it.")


def _required(make: Callable[..., Any]) -> str | None:
    """The first argument that a callable cannot do without."""
    try:
        parameters = inspect.signature(make).parameters.values()
    except (TypeError, ValueError):
        return None
    optional = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return next((p.name for p in parameters if p.default is p.empty and p.kind not in optional), None)


def check_weights(model: nn.Module, who: str = "the model") -> None:
    """Refuse a model without parameters or with parameters that are not finite."""
    check_not_lazy(model, who)
    check_has_numbers(model, who)
    empty = True
    for name, parameter in model.named_parameters():
        empty = False
        # a sum is finite iff all entries are (up to overflow, looked at again), at a tenth of the cost of isfinite
        if not bool(torch.isfinite(parameter.detach().sum())) and not bool(torch.isfinite(parameter.detach()).all()):
            raise NetgrainError(f"{who} has NaN or Inf in parameter '{name}'; expected finite weights.")
    if empty:
        raise NetgrainError(f"{who} ({type(model).__name__}) has no parameters, so there is no family to average over.")


def tensors_of(model: nn.Module) -> dict[str, Tensor]:
    """Parameters and buffers by name, each tensor once."""
    return {**dict(model.named_parameters()), **dict(model.named_buffers())}


def model_dtype(model: nn.Module) -> torch.dtype:
    return next((p.dtype for p in model.parameters() if p.is_floating_point()), torch.float32)


def double_copy(model: nn.Module, input_shape: Sequence[int]) -> nn.Module:
    """A float64 copy on the CPU where the model allows it, else the model itself."""
    try:
        double = copy.deepcopy(model).cpu().double()
        with torch.no_grad():
            double(torch.zeros(1, *input_shape, dtype=torch.float64))
    except Exception:  # a module may refuse to be copied or converted, or keep a constant in float32
        return model
    return double


@dataclass(frozen=True, eq=False)
class Frozen:
    """A model as a function of x alone: it runs with these tensors in place of its own."""

    model: nn.Module
    tensors: dict[str, Tensor]

    def __call__(self, x: Tensor) -> Any:
        return functional_call(self.model, self.tensors, (x,))


def frozen(model: nn.Module) -> Callable[[Tensor], Any]:
    """The model as a function of x only: no gradient reaches its parameters, and the model is left as it is."""
    model = unwrapped_model(model)
    tensors = tensors_of(model)
    if not any(t.requires_grad for t in tensors.values()):
        return model
    if isinstance(model, torch.jit.ScriptModule):  # cannot be called with other tensors; it keeps a larger graph
        return model
    return Frozen(model, {name: t.detach() for name, t in tensors.items()})


def forward(call: Callable[[Tensor], Any], x: Tensor, *, advice: str = ADVICE, who: str = "the model") -> Tensor:
    """Outputs as (points, outputs); every failure of the model is told with the shape that caused it.

    advice: the way out if the model cannot take x; it depends on where the caller got x from.
    """
    try:
        y = logits_of(call(x), x, who)
    except NetgrainError:
        raise
    except (RuntimeError, ValueError, TypeError, IndexError, AssertionError, MemoryError) as e:
        raise NetgrainError(why_it_failed(e, tuple(x.shape[1:]), who, advice)) from e
    if not isinstance(y, Tensor):
        kind = "None" if y is None else type(y).__name__
        raise NetgrainError(f"{who} returned {kind}, expected a tensor (batch, outputs); let it return its logits.")
    if y.dim() == 0 or len(y) != len(x):
        way = "" if y.dim() else ": return the logits, not a loss over the batch"
        raise NetgrainError(
            f"{who} turned a batch of {len(x)} into shape {tuple(y.shape)}; expected one row of outputs per input{way}."
        )
    if not y.is_floating_point():
        way = "take their real part, size or both parts (torch.view_as_real)" if y.is_complex() else "return the logits"
        raise NetgrainError(
            f"{who} returned {y.dtype}; expected floating-point outputs that can be differentiated: {way}."
        )
    if y.numel() == 0:
        raise NetgrainError(f"{who} returned shape {tuple(y.shape)}, which has no outputs; expected at least one.")
    return y.reshape(len(y), -1)


def check_family(make: Family, first: nn.Module, seed: int, other: nn.Module | None = None) -> None:
    """Members must be a function of the seed, and differ from each other.

    other: a module of the family that may differ from the first one, which saves making one.
    """

    def same(a: nn.Module, b: nn.Module) -> bool:
        pairs = zip(a.parameters(), b.parameters(), strict=False)
        return all(p.shape == q.shape and torch.equal(p, q) for p, q in pairs)

    again = member(make, seed, 0)
    if other is None or any(p.is_meta for p in other.parameters()) or same(first, other):
        other = member(make, seed, 1)
    if other is first or again is first:
        raise NetgrainError(
            "the family returned the same module twice; expected a fresh one on every call. "
            "For one given model use geometry_of(model, probe)."
        )
    if same(first, other):
        raise NetgrainError(
            "two members have equal weights; average_geometry averages over random initialisation. "
            "For one given model use geometry_of(model, probe)."
        )
    if not same(first, again):
        warnings.warn(
            "the family's weights do not follow torch's global seed, so this result cannot be repeated exactly.",
            GrainWarning,
            stacklevel=4,
        )


def family_name(make: Family, model: nn.Module) -> str:
    """How the family is called in tables: the class, and the options of a partial."""
    spec = getattr(make, "name", None)
    if isinstance(spec, str):
        return spec
    options = getattr(make, "keywords", None) or {}
    inside = ", ".join(f"{k}={getattr(v, '__name__', v)}" for k, v in options.items())
    return f"{name_of(model)}({inside})" if inside else name_of(model)
