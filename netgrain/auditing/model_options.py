"""Options of a family: what it was made with, and the same family with others."""

from __future__ import annotations

import inspect
from dataclasses import replace
from functools import partial
from typing import Any

from netgrain.families.members import Family
from netgrain.families.prepared import Prepared
from netgrain.models.lenet import LeNet
from netgrain.models.mlp import MLP
from netgrain.models.resnet import ResNet18
from netgrain.models.specs import ModelSpec
from netgrain.models.vgg import VGG11
from netgrain.models.vit import ViT
from netgrain.runtime.errors import NetgrainError

BUILTIN = (MLP, LeNet, VGG11, ResNet18, ViT)


def options_of(make: Any) -> dict[str, Any]:
    """The options that a family was given: those of a text, or of partials."""
    if isinstance(make, Prepared):
        return options_of(make.make)
    if isinstance(make, ModelSpec):
        return dict(make.options)
    if isinstance(make, partial):
        return {**options_of(make.func), **make.keywords}
    return {}


def with_options(make: Any, **values: Any) -> Family:
    """The same family with other options.

    Parameters
    ----------
    make : ModelSpec, class, function or partial
        What takes them.
    **values : object
        Options by name.

    Returns
    -------
    callable
        A family of the same kind.

    Raises
    ------
    NetgrainError
        If the family takes no such option.

    Examples
    --------
    >>> with_options(partial(MLP, channels=1), width=0.5)().layers[1].out_features
    50
    """
    if isinstance(make, Prepared):
        return replace(make, make=with_options(make.make, **values))
    if isinstance(make, ModelSpec):
        return make.with_options(**values)
    try:
        known = list(inspect.signature(make).parameters.values())
    except (TypeError, ValueError):
        known = []
    names = [p.name for p in known if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    if wrong := [name for name in values if name not in names and not any(p.kind is p.VAR_KEYWORD for p in known)]:
        raise NetgrainError(
            f"{getattr(make, '__name__', type(make).__name__)} takes no option '{wrong[0]}'; expected one of "
            f"{', '.join(names) or 'none'}."
        )
    return partial(make, **values)
