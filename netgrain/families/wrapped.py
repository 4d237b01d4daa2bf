"""Modules around a user's model, through which it is called in another way: by keywords, or from its embeddings."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from netgrain.families.calls import watching, with_output
from netgrain.families.failures import why_it_failed
from netgrain.runtime.errors import NetgrainError

Call = Callable[[Any, Tensor], Any]
WAY_OUT = "as in call=lambda model, x: model(inputs_embeds=x, ...)"


class Wrapped(nn.Module):
    """A module around a model; the names of its weights get the prefix "model."."""

    suffix = ""  # what its name in tables ends with

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model
        self.training = model.training


class Called(Wrapped):
    """x ↦ call(model, x).

    >>> Called(nn.Identity(), lambda model, x: 2 * model(x))(torch.ones(1)).item()
    2.0
    """

    def __init__(self, model: nn.Module, call: Call) -> None:
        super().__init__(model)
        self.call = call

    def forward(self, x: Tensor) -> Any:
        return self.call(self.model, x)


class FromEmbeddings(Wrapped):
    """A model of tokens as a function of their embeddings, (batch, tokens, width) → outputs.

    table: the dotted name of its embedding, whose output is replaced, or None for a model that takes `inputs_embeds=`.
    The token numbers that such a model gets are all the same, and not those of the padding.
    """

    suffix = " at its embeddings"

    def __init__(self, model: nn.Module, table: str | None) -> None:
        super().__init__(model)
        self.table = table

    def forward(self, x: Tensor) -> Any:
        if self.table is None:
            return self.model(inputs_embeds=x)
        layer = self.model.get_submodule(self.table)
        tokens = torch.full(x.shape[:2], _ordinary_token(layer), device=x.device)
        return with_output(layer, lambda: self.model(tokens), lambda _: x)


def inside(model: nn.Module) -> nn.Module:
    """The user's own model, and what is around it taken off."""
    while isinstance(model, Wrapped):
        model = model.model
    return model


def name_of(model: nn.Module) -> str:
    """What tables call a model: its class, and where its inputs are not those of its forward."""
    suffixes = []
    while isinstance(model, Wrapped):
        suffixes.append(model.suffix)
        model = model.model
    return type(model).__name__ + "".join(suffixes)


# --- which embedding ------------------------------------------------------------------------------------------------


def from_embeddings(model: nn.Module, input_shape: tuple[int, ...]) -> FromEmbeddings:
    """The model as a function of the embeddings of its tokens, if it is clear what those are; else a sentence."""
    takes_them = _takes_embeddings(model)
    if len(input_shape) != 2:
        raise NetgrainError(
            f"at='embeddings' expects an input_shape of (tokens, width), found {input_shape}; pass the number of "
            f"tokens and the width of the embedding{_width(model) if takes_them else ''}."
        )
    table = None if takes_them else _looked_up(model, input_shape[0])
    layer = model.get_input_embeddings() if table is None else model.get_submodule(table)  # type: ignore[operator]
    width = getattr(layer, "embedding_dim", None)
    if width is not None and width != input_shape[1]:
        raise NetgrainError(
            f"at='embeddings' expects an input_shape of (tokens, width), and the embedding of {name_of(model)} has "
            f"width {width}, found {input_shape}; pass ({input_shape[0]}, {width})."
        )
    return FromEmbeddings(model, table)


def _takes_embeddings(model: nn.Module) -> bool:
    """Whether it is called as models of Hugging Face are."""
    try:
        named = inspect.signature(model.forward).parameters
    except (TypeError, ValueError):  # a forward without one
        return False
    return "inputs_embeds" in named and isinstance(_input_embeddings(model), nn.Module)


def _input_embeddings(model: nn.Module) -> Any:
    get = getattr(model, "get_input_embeddings", None)
    try:
        return get() if callable(get) else None
    except NotImplementedError:  # Hugging Face's base class
        return None


def _width(model: nn.Module) -> str:
    width = getattr(_input_embeddings(model), "embedding_dim", None)
    return "" if width is None else f", as in (16, {width})"


def _looked_up(model: nn.Module, tokens: int) -> str:
    """Dotted name of the one embedding that is given the tokens."""
    tables = [(name, m) for name, m in model.named_modules() if isinstance(m, nn.Embedding)]
    if not tables:
        raise NetgrainError(
            f"at='embeddings' expects a model that looks up its tokens in an nn.Embedding, and {name_of(model)} has "
            f"none; leave at= out, or call the model by its embeddings, {WAY_OUT}."
        )
    # ones and zeros, which every table has, and no run of positions looks like
    numbers = torch.arange(tokens) % 3 == 0
    given = numbers.long()[None] if min(m.num_embeddings for _, m in tables) > 1 else torch.zeros(1, tokens).long()
    seen: list[str] = []

    def enter(name: str, module: nn.Module, inputs: tuple[Any, ...]) -> None:
        asked = inputs[0] if inputs and isinstance(inputs[0], Tensor) else None
        same = (
            asked is not None and asked.numel() == math.prod(given.shape) and torch.equal(asked.reshape(1, -1), given)
        )
        if isinstance(module, nn.Embedding) and same:
            seen.append(name)

    training = {module: module.training for module in model.modules()}
    try:
        with torch.no_grad(), watching(model.eval(), entering=enter):
            model(given)
    except NetgrainError:
        raise
    except Exception as e:  # the user's forward may raise anything
        if len(set(seen)) != 1:
            advice = f"call it by its embeddings, {WAY_OUT}"
            raise NetgrainError(why_it_failed(e, (tokens,), "the model", advice)) from e
    finally:
        for module, mode in training.items():
            module.training = mode
    if len(seen) != 1:
        found = "none of them is" if not seen else f"they are {len(seen)} times ({', '.join(map(repr, seen))})"
        raise NetgrainError(
            f"at='embeddings' expects one nn.Embedding that is given the tokens, once, and in {name_of(model)} "
            f"{found}; call the model by its embeddings, {WAY_OUT}."
        )
    return seen[0]


def _ordinary_token(layer: nn.Module) -> int:
    """1, as padding is often 0, or the next number that the table has and that is not its padding."""
    size, padding = getattr(layer, "num_embeddings", 2), getattr(layer, "padding_idx", None)
    return next((i for i in (1, 2, 0) if i < size and i != padding), 0)
