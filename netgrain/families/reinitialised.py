"""A family from one finished model: copies whose weights are drawn anew by the model's own methods."""

from __future__ import annotations

import copy
import inspect
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from netgrain.families.failures import unwrapped_model
from netgrain.runtime.arguments import found
from netgrain.runtime.errors import GrainWarning, NetgrainError
from netgrain.runtime.randomness import seeded

OF_LAYERS = ("reset_parameters", "_reset_parameters")  # of torch's own layers; the second of its attention
OF_MODELS = ("init_weights", "_init_weights", "initialize_weights", "_initialize_weights")
MARK = "_is_hf_initialized"  # Hugging Face leaves alone what carries it
FAR = 1.25  # ratio of standard deviations that chance does not reach: the methods are not what the constructor used
MANY = 1024  # entries from which a standard deviation is known to a few percent
WAY_OUT = "pass a function that builds the model anew, as in lambda: {kind}(...)"


@dataclass(frozen=True, eq=False)
class Fresh:
    """The family that `fresh` returns: every call gives a copy of the model with new random weights.

    Parameters
    ----------
    model : torch.nn.Module
        The model to copy; it is never changed.
    constants : dict of str to float
        Parameters that no method sets, and the one value that all of their entries have.

    Examples
    --------
    >>> family = fresh(nn.Linear(2, 1))
    >>> bool((family().weight == family().weight).all())
    False
    """

    model: nn.Module
    constants: dict[str, float]

    def __call__(self) -> nn.Module:
        made: dict[int, Any] = {}
        for name, p in self.model.named_parameters():
            blank = torch.empty_strided(p.shape, p.stride(), dtype=p.dtype)
            if name in self.constants:
                blank = torch.full_like(blank, self.constants[name])
            made[id(p)] = nn.Parameter(blank, requires_grad=p.requires_grad)
        return _reinitialised(_copied(self.model, made))


def fresh(model: nn.Module) -> Fresh:
    """A family of networks from one model: copies with fresh random weights.

    Every module is initialised by its own ``reset_parameters``; then the model's ``init_weights`` or
    ``_init_weights`` runs, as in the constructors of timm and Hugging Face. Parameters that none of
    them sets keep their value if all of its entries are equal (zeros, ones, a layer scale). Buffers
    are copied.

    Parameters
    ----------
    model : torch.nn.Module
        The model, trained or not. It is not changed.

    Returns
    -------
    Fresh
        A family: every call makes a copy with new random weights, which follow torch's global seed.

    Raises
    ------
    NetgrainError
        If a parameter is not set by any of these methods and is not constant; the message names it.

    Warns
    -----
    GrainWarning
        If the new weights have a very different scale from the model's own: either the model was trained, or its
        constructor draws weights differently. In that case pass a function that builds the model.

    See Also
    --------
    average_geometry : The geometry of a family.
    geometry_of : The geometry of the model as it is.

    Examples
    --------
    >>> net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
    >>> family = fresh(net)
    >>> torch.equal(family()[0].weight, net[0].weight), family()[0].weight.abs().max() <= 0.5
    (False, tensor(True))
    """
    if not isinstance(model, nn.Module):
        raise NetgrainError(
            f"fresh expects one finished torch.nn.Module, found {found(model)}; a class or a function that builds a "
            "model is a family already."
        )
    model = unwrapped_model(model)
    kind = type(model).__name__
    for name, p in model.named_parameters():
        if is_lazy(p):
            raise NetgrainError(
                f"fresh expects a model with weights, and '{name}' of {kind} has no shape before the first pass; "
                f"{WAY_OUT.format(kind=kind)}."
            )
    constants, tried = _tried(model)
    for name, p in model.named_parameters():
        if name in constants:
            continue
        if p.is_floating_point() and bool(tried[name].isnan().any()):
            raise NetgrainError(
                f"fresh cannot draw '{name}' of {kind} anew: no reset_parameters or init_weights sets it and its "
                f"entries differ; {WAY_OUT.format(kind=kind)}."
            )
    _warn_if_far(model, tried)
    return Fresh(model, constants)


# --- inside -------------------------------------------------------------------------------------------------------


def _tried(model: nn.Module) -> tuple[dict[str, float], dict[str, Tensor]]:
    """Parameters that no method sets and that are constant, and all parameters of a trial: NaN where nothing is set."""
    blank: dict[int, Any] = {}
    for p in model.parameters():
        start = torch.full(p.shape, float("nan"), dtype=p.dtype) if p.is_floating_point() else p.detach().cpu().clone()
        blank[id(p)] = nn.Parameter(start, requires_grad=False)
    with seeded(0), torch.device("cpu"):
        trial = dict(_reinitialised(_copied(model, blank)).named_parameters())
    tried: dict[str, Tensor] = {name: trial[name] for name, _ in model.named_parameters() if name in trial}
    constants = {}
    for name, p in model.named_parameters():
        if name not in tried:  # a method has put another tensor in its place
            raise NetgrainError(
                f"fresh cannot copy {type(model).__name__}: its own initialisation removes '{name}'; "
                f"{WAY_OUT.format(kind=type(model).__name__)}."
            )
        if p.is_meta or not p.numel() or not bool(tried[name].isnan().all()) or not p.is_floating_point():
            continue
        first = float(p.detach().flatten()[0])
        if bool((p.detach() == first).all()):
            constants[name] = first
    return constants, tried


def _copied(model: nn.Module, parameters: dict[int, Any]) -> nn.Module:
    """A copy with these in the place of its parameters, by their id; what they share stays shared."""
    try:
        made: nn.Module = copy.deepcopy(model, dict(parameters))
    except Exception as e:  # whatever an attribute of the user's dislikes about being copied
        kind = type(model).__name__
        reason = " ".join(str(e).split()) or type(e).__name__
        raise NetgrainError(f"fresh cannot copy {kind} ({reason}); {WAY_OUT.format(kind=kind)}.") from e
    return made


def _reinitialised(model: nn.Module) -> nn.Module:
    """The model, its weights drawn anew: layers first, then what the models around them do to theirs."""
    for tensor in (*model.modules(), *model.buffers()):
        tensor.__dict__.pop(MARK, None)
    with torch.no_grad():
        for module in _inside_out(model):
            for act in _initialisers(module):
                act()
    return model


def _inside_out(module: nn.Module, seen: set[int] | None = None) -> Iterator[nn.Module]:
    seen = set() if seen is None else seen
    if id(module) in seen:
        return
    seen.add(id(module))
    for child in module.children():
        yield from _inside_out(child, seen)
    yield module


def _initialisers(module: nn.Module) -> Iterator[Callable[[], object]]:
    """The methods of one module that set its weights, in the order of a constructor."""
    for names in (OF_LAYERS, OF_MODELS):
        for name in names:
            method: Any = getattr(module, name, None)
            needed = _required(method) if callable(method) else None
            if needed == 0:
                yield method
                break
            if needed == 1 and name in OF_MODELS:  # of one module, for apply
                yield partial(module.apply, method)
                break


def _required(method: Callable[..., Any]) -> int | None:
    """The number of arguments that a method cannot do without."""
    try:
        given = inspect.signature(method).parameters.values()
    except (TypeError, ValueError):
        return None
    several = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return sum(p.default is p.empty and p.kind not in several for p in given)


def _warn_if_far(model: nn.Module, tried: dict[str, Tensor]) -> None:
    """Warn where the model's own weights are on another scale than what its methods draw."""
    for name, p in model.named_parameters():
        if p.is_meta or not p.is_floating_point() or p.numel() < MANY:
            continue
        own, drawn = float(p.detach().float().std()), float(tried[name].float().std())
        if own > 0 and drawn > 0 and not 1 / FAR < own / drawn < FAR:
            kind = type(model).__name__
            warnings.warn(
                f"fresh({kind}): the weights of '{name}' have standard deviation {own:.2g}, and {drawn:.2g} when drawn "
                f"anew by its own methods. If the model is not trained, {WAY_OUT.format(kind=kind)}.",
                GrainWarning,
                stacklevel=3,
            )
            return
