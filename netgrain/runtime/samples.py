"""The one place that looks at samples X and labels y: what every door that takes them accepts, and what it refuses.

Samples are (samples, …) in floating point and finite; labels are whole numbers (samples,), one class each, from 0.
What is refused is refused with one sentence that says how to convert it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from netgrain.runtime.errors import NetgrainError

FEW_VALUES = 20  # floating-point labels with at most so many values may be classes
RENUMBER = "np.unique(y, return_inverse=True)[1] numbers them from 0"


def tensor_of(values: Any, what: str = "X") -> Tensor:
    """A tensor, detached and where it lies, of anything that holds plain numbers; what does not is named."""
    if isinstance(values, Tensor):
        return _dense(values.detach(), what)
    if values is None:
        expected = "one whole-number label for each sample" if what == "y" else "samples of shape (samples, …)"
        raise NetgrainError(f"{what} is missing (None was given); expected {expected}.")
    if isinstance(values, str | bytes | Path):
        raise NetgrainError(
            f"{what} is {_short(values)}, a name; expected numbers: read files and folders with "
            "netgrain.data.load(path), which has X and y."
        )
    if isinstance(values, DataLoader):
        raise NetgrainError(
            f"{what} is a DataLoader, expected a tensor; pass X = torch.cat([x for x, _ in loader]) and "
            "y = torch.cat([y for _, y in loader])."
        )
    for parts, way in ((("X", "y"), "its X and its y"), (("train", "test"), "its train.X and its train.y")):
        if all(hasattr(values, part) for part in parts):
            raise NetgrainError(f"{what} is a {type(values).__name__}, expected a tensor; pass {way}.")
    if isinstance(values, Dataset) or _like_a_dataset(values):
        raise NetgrainError(
            f"{what} is a data set ({type(values).__name__}), expected a tensor; pass the X and y of "
            "netgrain.data.load(dataset)."
        )
    if _holds_words(values):
        first = _first(values)
        way = f"; {RENUMBER}" if what == "y" else ": encode words as numbers first"
        raise NetgrainError(f"{what} holds words ('{first}' is the first), expected numbers{way}.")
    try:
        if isinstance(values, list | tuple) and values and all(isinstance(v, Tensor) for v in values):
            return _dense(torch.stack([v.detach() for v in values]), what)
        return torch.as_tensor(values if isinstance(values, list | tuple) else np.asarray(values))
    except (TypeError, ValueError, RuntimeError, OverflowError) as e:
        reason = (str(e).strip() or type(e).__name__).splitlines()[0].partition(". ")[0]
        raise NetgrainError(
            f"{what} is {_kind(values)}, which is no array of numbers ({reason.rstrip('.')}); expected a tensor, or "
            "samples of one shape in an array or a list."
        ) from e


def checked_samples(values: Any, what: str = "X", *, whole_too: bool = False) -> Tensor:
    """Samples (samples, …): floating-point, finite, at least one; whole_too: whole numbers become floating-point.

    >>> checked_samples([[1.0, 2.0]]).shape
    torch.Size([1, 2])
    """
    X = tensor_of(values, what)
    shape = tuple(X.shape)
    if X.dim() < 2:
        way = f"one sample alone is {what}[None]" if X.dim() else "pass an array"
        raise NetgrainError(f"{what} has shape {shape}, expected (samples, …); {way}.")
    if X.numel() == 0:
        raise NetgrainError(f"{what} has shape {shape}, expected at least one sample with at least one entry.")
    if X.is_complex():
        raise NetgrainError(
            f"{what} holds complex numbers ({X.dtype}), expected real ones: pass torch.view_as_real({what})."
        )
    if not X.is_floating_point():
        if not whole_too:
            raise NetgrainError(
                f"{what} holds whole numbers ({X.dtype}), expected floating-point samples; convert images, as in "
                f"{what}.float() / 255, and pass embeddings instead of token numbers."
            )
        X = X.float()
    # a sum is finite iff all entries are (up to overflow, looked at again), at a tenth of the cost of isfinite
    if not bool(torch.isfinite(X.sum())):
        check_finite_samples(X, what)
    return X


def check_finite_samples(X: Tensor, what: str = "X") -> None:
    """Refuse NaN and Inf, with their number and the place of the first."""
    bad = ~torch.isfinite(X)
    if not bool(bad.any()):
        return
    sample, *entry = (int(i) for i in bad.nonzero()[0])
    nan, count = int(X.isnan().sum()), int(bad.sum())
    raise NetgrainError(
        f"{what} holds {count} number{'s' * (count > 1)} that {'are' if count > 1 else 'is'} not finite ({nan} NaN, "
        f"{count - nan} Inf), the first in sample {sample} at entry {entry[0] if len(entry) == 1 else tuple(entry)}; "
        "expected finite numbers: repair or drop those samples."
    )


def checked_labels(values: Any, samples: int, outputs: int | None = None, *, logit: bool = False) -> Tensor:
    """Labels (samples,) as int64: whole numbers, and where `outputs` are given from 0 to outputs − 1.

    logit: one output alone tells two classes apart, 0 and 1.

    >>> checked_labels([0, 2, 1], 3, outputs=3)
    tensor([0, 2, 1])
    """
    y = tensor_of(values, "y")
    shape = tuple(y.shape)
    if shape != (samples,):
        raise NetgrainError(f"y has shape {shape}, expected ({samples},), one label for each sample of X; {_way(y)}.")
    if y.is_complex():
        raise NetgrainError(f"y holds complex numbers ({y.dtype}); expected whole-number labels.")
    if y.is_floating_point():
        _refuse_fractions(y)
    y = y.long()
    if outputs is not None:
        _check_range(int(y.min()), int(y.max()), outputs, max(outputs, 2) if logit else outputs)
    return y


def checked_numbers(values: Any, samples: int) -> Tensor:
    """Numbers to predict (samples,) or (samples, outputs): floating-point and finite.

    >>> checked_numbers([[0.5], [2.0]], 2)
    tensor([0.5000, 2.0000])
    """
    y = tensor_of(values, "y")
    if y.dim() not in (1, 2) or len(y) != samples or y.numel() == 0:
        raise NetgrainError(
            f"y has shape {tuple(y.shape)}, expected ({samples},) or ({samples}, outputs): one label for each sample "
            "of X."
        )
    if not y.is_floating_point():
        raise NetgrainError(f"y holds {y.dtype} values; expected floating-point numbers: pass y.float().")
    bad = ~torch.isfinite(y.float().reshape(len(y), -1)).all(1)
    if bool(bad.any()):
        raise NetgrainError(
            f"y holds {int(bad.sum())} labels that are NaN or Inf, the first at index {int(bad.nonzero()[0])}; "
            "drop those samples."
        )
    return y[:, 0] if y.dim() == 2 and y.shape[1] == 1 else y


def may_be_classes(y: Tensor) -> int:
    """How many different values floating-point labels have, if so few that they may be classes; else 0.

    >>> may_be_classes(torch.tensor([0.0, 1.0, 0.0, 1.0])), may_be_classes(torch.tensor([0.1, 0.7, 0.2, 0.3]))
    (2, 0)
    """
    values = len(torch.unique(y))
    return values if values <= FEW_VALUES and values <= len(y) / 2 else 0


def check_two_classes(y: Tensor, classes: Sequence[str] = ()) -> None:
    """Refuse labels that are all the same: there is nothing to tell apart."""
    if bool((y == y[0]).all()):
        name = f"class '{classes[int(y[0])]}'" if classes else f"label {int(y[0])}"
        raise NetgrainError(
            f"all {len(y)} samples have the {name}; expected at least two classes: add samples of another one."
        )


def scoring(call: Callable[[Tensor], Any]) -> Callable[[Tensor], Any]:
    """The model as a classifier: an output that is not (batch, classes) is refused, not read as many classes."""

    def scored(x: Tensor) -> Any:
        y = call(x)
        if isinstance(y, Tensor) and y.dim() > 2 and math.prod(y.shape[2:]) > 1:
            raise NetgrainError(
                f"the model turns one sample into an output of shape {tuple(y.shape[1:])}, expected (batch, classes); "
                "wrap it in a module that gives one number for each class, as in "
                "nn.Sequential(model, nn.AdaptiveAvgPool2d(1), nn.Flatten())."
            )
        return y

    return scored


# --- inside -------------------------------------------------------------------------------------------------------


def _dense(t: Tensor, what: str) -> Tensor:
    if t.is_meta:
        raise NetgrainError(f"{what} has no numbers (it is on the device 'meta'); expected a tensor with values.")
    if t.layout != torch.strided:
        raise NetgrainError(f"{what} is sparse ({t.layout}), expected a dense tensor; pass {what}.to_dense().")
    return t


def _way(y: Tensor) -> str:
    if y.dim() == 2 and y.shape[1] == 1:
        return "pass y[:, 0]"
    if y.dim() == 2 and y.numel() and bool(((y != 0).sum(1) == 1).all()):
        return "these labels look one-hot: pass y.argmax(1)"
    return "pass the labels of X" if y.dim() == 1 else "pass one whole number for each sample"


def _refuse_fractions(y: Tensor) -> None:
    bad = ~torch.isfinite(y)
    if bool(bad.any()):
        raise NetgrainError(
            f"y holds {int(bad.sum())} labels that are NaN or Inf, the first at index {int(bad.nonzero()[0])}; "
            "expected whole-number labels: drop those samples."
        )
    parts = y != y.round()
    if bool(parts.any()):
        where = int(parts.nonzero()[0])
        raise NetgrainError(
            f"y holds fractions (label {where} is {float(y[where]):.4g}), expected whole-number labels, one class for "
            "each sample; regression targets are not supported: pass classes, as in (y > y.median()).long()."
        )
    raise NetgrainError(f"expected whole-number labels, found {y.dtype} in y; convert with y.long().")


def _check_range(low: int, high: int, outputs: int, classes: int) -> None:
    if low >= 0 and high < classes:
        return
    if low == 1 and high == classes:
        way = "pass y - 1, as they seem to count from 1"
    elif low < 0:
        way = RENUMBER
    else:
        way = f"make the model with {high + 1} outputs, or renumber the labels"
    several = f"{outputs} output{'s' * (outputs != 1)}"
    raise NetgrainError(
        f"labels run from {low} to {high}, but the model has {several}; expected labels 0 to {classes - 1}: {way}."
    )


def _like_a_dataset(values: Any) -> bool:
    plain = isinstance(values, list | tuple | dict | set | range) or hasattr(values, "__array__")
    return not plain and hasattr(values, "__getitem__") and hasattr(values, "__len__")


def _holds_words(values: Any) -> bool:
    if isinstance(values, np.ndarray):
        return values.dtype.kind in "US" or (values.dtype.kind == "O" and isinstance(_first(values), str | bytes))
    return isinstance(values, list | tuple) and isinstance(_first(values), str | bytes)


def _first(values: Any) -> Any:
    while isinstance(values, list | tuple | np.ndarray) and len(values):
        values = values[0]
    return values


def _short(value: object) -> str:
    text = str(value)
    return f"'{text if len(text) <= 60 else text[:57] + '…'}'"


def _kind(value: object) -> str:
    return f"a {type(value).__name__}" + (f" of {len(value)}" if isinstance(value, tuple | list | dict) else "")
