"""Outputs as models return them: a tensor, or the logits inside a dataclass, dict, named tuple or tuple."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from torch import Tensor

from netgrain.runtime.errors import NetgrainError

LOGITS = ("logits", "out", "output", "outputs", "prediction", "predictions", "preds", "pred")
FEATURES = ("last_hidden_state", "pooler_output")  # of models without a head; where both are there, the user chooses


class NotFound(NetgrainError):
    """A model returns several tensors, or none, and nothing tells which of them are its outputs."""


def logits_of(returned: Any, x: Tensor, who: str = "the model") -> Any:
    """The outputs among what a model returned for a batch x; what holds no other values is given back as it is.

    A field called `logits` (or `out`, `output`, `prediction`, ...) comes first, then the only tensor with a row for
    each input, then the first entry of a tuple: what follows it are auxiliary outputs.

    >>> import torch
    >>> x = torch.zeros(2, 3)
    >>> logits_of({"logits": x[:, :1], "hidden": x}, x).shape, logits_of((x + 1, x), x).shape
    (torch.Size([2, 1]), torch.Size([2, 3]))
    """
    if isinstance(returned, Tensor):
        return returned
    named = _fields(returned)
    if named is not None:
        return _named(named, returned, x, who)
    if isinstance(returned, tuple | list):
        return _listed(returned, x, who)
    return returned


def remark_on(returned: Any, x: Tensor) -> str:
    """What is to be said where other choices were possible: the first of several entries was taken.

    >>> import torch
    >>> x = torch.zeros(2, 3)
    >>> remark_on((x + 1, x + 2), x), remark_on({"logits": x, "hidden": x}, x)
    ('the outputs are the first of 2 tensors that the model returns', '')
    """
    named = _fields(returned) or {}
    if not isinstance(returned, tuple) or any(isinstance(named.get(name), Tensor) for name in (*LOGITS, *FEATURES)):
        return ""
    several = sum(_is_output(value, x) for value in returned)
    return f"the outputs are the first of {several} tensors that the model returns" if several > 1 else ""


def answering(call: Callable[[Tensor], Any]) -> Callable[[Tensor], Any]:
    """A model as a function that returns its outputs alone."""
    return lambda x: logits_of(call(x), x)


def _fields(returned: Any) -> dict[str, Any] | None:
    """Values by name; None if they have no names."""
    if isinstance(returned, Mapping):
        return {str(name): value for name, value in returned.items()}
    if is_dataclass(returned) and not isinstance(returned, type):
        return {f.name: getattr(returned, f.name, None) for f in fields(returned)}
    names = getattr(returned, "_fields", None)
    if isinstance(returned, tuple) and isinstance(names, tuple):
        return dict(zip(names, returned, strict=True))
    logits = getattr(returned, "logits", None)
    return {"logits": logits} if isinstance(logits, Tensor) else None


def _named(named: dict[str, Any], returned: Any, x: Tensor, who: str) -> Tensor:
    for name in LOGITS:
        if isinstance(value := named.get(name), Tensor):
            return value
    features = [name for name in FEATURES if isinstance(named.get(name), Tensor)]
    candidates = features or [name for name, value in named.items() if _is_output(value, x)]
    if len(candidates) == 1:
        return named[candidates[0]]  # type: ignore[no-any-return]
    if isinstance(returned, tuple) and _is_output(returned[0], x):
        return returned[0]  # type: ignore[no-any-return]
    by_key = isinstance(returned, Mapping) and not is_dataclass(returned)
    chosen = (candidates or list(named) or ["logits"])[-1]
    raise _not_found(returned, named, f"[{chosen!r}]" if by_key else f".{chosen}", who)


def _listed(returned: tuple[Any, ...] | list[Any], x: Tensor, who: str) -> Tensor:
    candidates = [value for value in returned if _is_output(value, x)]
    if len(candidates) == 1:
        return candidates[0]  # type: ignore[no-any-return]
    # the entries of a list are equals, as the feature maps of a backbone are; those of a tuple come in order of weight
    if isinstance(returned, tuple) and returned and _is_output(returned[0], x):
        return returned[0]  # type: ignore[no-any-return]
    last = max((i for i, value in enumerate(returned) if _is_output(value, x)), default=0)
    raise _not_found(returned, {str(i): value for i, value in enumerate(returned)}, f"[{last}]", who)


def _is_output(value: Any, x: Tensor) -> bool:
    """Whether it may be the model's answer: numbers, a row for each input, and not the input handed back."""
    return isinstance(value, Tensor) and value is not x and value.dim() > 0 and len(value) == len(x)


def _not_found(returned: Any, values: dict[str, Any], way: str, who: str) -> NotFound:
    inside = ", ".join(f"{name}: {_described(value)}" for name, value in list(values.items())[:6])
    more = f" and {len(values) - 6} more" if len(values) > 6 else ""
    return NotFound(
        f"{who} returned {type(returned).__name__} ({inside or 'empty'}{more}), and which of these are its outputs is "
        f"not clear; choose them, as in call=lambda model, x: model(x){way}."
    )


def _described(value: Any) -> str:
    return f"tensor {tuple(value.shape)}" if isinstance(value, Tensor) else type(value).__name__
