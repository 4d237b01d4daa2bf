"""A family as a front door uses it: called as the user says, from embeddings where asked for, lazy modules made whole.

Everything below a door sees an ordinary family of modules that map one batch of inputs to outputs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from torch import nn
from torch.nn.parameter import is_lazy

from netgrain.families.batch_statistics import DataStatistics
from netgrain.families.failures import SHAPE_ADVICE, why_it_failed
from netgrain.families.members import Family, built, model_dtype
from netgrain.families.wrapped import Call, Called, FromEmbeddings, from_embeddings
from netgrain.runtime.arguments import checked_shape, found
from netgrain.runtime.errors import NetgrainError
from netgrain.runtime.randomness import derived_seed, seeded

At = Literal["embeddings"]


@dataclass(frozen=True, eq=False)
class Prepared:
    """A family of the modules that `make` returns, each called in the user's way and made whole.

    >>> family = Prepared(lambda: nn.LazyLinear(2), (3,), call=lambda model, x: model(input=x))
    >>> tuple(family().model.weight.shape), family.name
    ((2, 3), None)
    """

    make: Family
    input_shape: tuple[int, ...]
    call: Call | None = None
    from_tokens: bool = False
    table: str | None = None  # of the embedding, see FromEmbeddings

    def __call__(self) -> nn.Module:
        model: nn.Module = built(self.make)
        if self.call is not None:
            model = Called(model, self.call)
        if self.from_tokens:
            model = FromEmbeddings(model, self.table)
        return materialised(model, self.input_shape)

    @property
    def name(self) -> Any:
        """What the user's family calls itself, if anything."""
        return getattr(self.make, "name", None)

    @property
    def keywords(self) -> Any:
        """The options of a partial."""
        return getattr(self.make, "keywords", None)


def prepared(
    make: Any, input_shape: Sequence[int], *, call: Call | None = None, at: At | None = None, seed: int = 0
) -> Family:
    """The family that a front door works with; one module is looked at if its embeddings are asked for."""
    check_ways(call, at)
    if isinstance(make, DataStatistics):  # it stays one, so that closed forms know where its statistics come from
        return replace(make, make=prepared(make.make, input_shape, call=call, at=at, seed=seed))
    family = Prepared(make, checked_shape(input_shape), call)
    if at is None:
        return family
    with seeded(derived_seed(seed, "member", 0)):
        wrapped = prepared_model(built(make), family.input_shape, call=call, at=at)
    assert isinstance(wrapped, FromEmbeddings)
    return replace(family, from_tokens=True, table=wrapped.table)


def prepared_model(
    model: nn.Module, input_shape: tuple[int, ...], *, call: Call | None = None, at: At | None = None
) -> nn.Module:
    """The same for one given model, which is left as it is."""
    check_ways(call, at)
    wrapped: nn.Module = model if call is None else Called(model, call)
    return wrapped if at is None else from_embeddings(wrapped, input_shape)


def check_ways(call: Any, at: Any) -> None:
    """Refuse what is no way to call a model."""
    if call is not None and not callable(call):
        raise NetgrainError(
            f"call expects a function of the model and a batch, as in lambda model, x: model(pixel_values=x), found "
            f"{found(call)}."
        )
    if at not in (None, "embeddings"):
        raise NetgrainError(f"at expects 'embeddings', or nothing for the inputs themselves, found {found(at)}.")


def materialised(model: nn.Module, input_shape: tuple[int, ...]) -> nn.Module:
    """The model; lazy modules get the weights that their first pass gives them, over a batch of zeros."""
    tensors = (*model.parameters(), *model.buffers())
    if not any(is_lazy(t) for t in tensors):
        return model
    known = [t for t in tensors if not is_lazy(t)]
    training = {module: module.training for module in model.modules()}
    model.eval()
    x = torch.zeros(2, *input_shape, dtype=model_dtype(model), device=known[0].device if known else None)
    try:
        with torch.no_grad():
            model(x)
    except NetgrainError:
        raise
    except Exception as e:  # the user's forward may raise anything
        raise NetgrainError(why_it_failed(e, input_shape, "the model", SHAPE_ADVICE)) from e
    finally:
        for module in model.modules():
            module.training = training.get(module, module.training)
    return model
