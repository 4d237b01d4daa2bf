"""Samples that are in memory, arrays and tensors, made a `Dataset` with every number checked."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from netgrain.data.choosing import chosen_indices
from netgrain.data.dataset import AS_GIVEN, Dataset
from netgrain.data.labels import labels_of
from netgrain.data.wanted import Wanted
from netgrain.runtime.errors import GrainWarning, NetgrainError
from netgrain.runtime.samples import check_finite_samples

WHITE = 255  # whole-number images run from 0 to here
MOVED = "channels moved from last to first"
GREY = ("1", "L", "LA", "La", "I", "I;16", "I;16B", "I;16L", "I;16N")  # modes of PIL

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, eq=False)
class Part:
    """Samples and perhaps labels as they came: of a whole data set, or of its training or test part."""

    X: Any
    y: Any = None


def dataset_of(
    X: Any,
    y: Any = None,
    *,
    classes: Sequence[str] | None = None,
    features: Sequence[str] | Array | None = None,
    name: str = "data",
    wanted: Wanted | None = None,
) -> Dataset:
    """Samples and perhaps labels that are in memory.

    X (samples, *shape) is floating, or whole-number images from 0 to 255; labels are of any kind.
    classes: names of the labels 0, 1, …, each with at least one sample.

    >>> dataset_of(torch.tensor([[0.0, 1.0], [2.0, 5.0], [1.0, 1.0]]), ["dog", "cat", "dog"])
    Dataset(data, 3 samples of shape (2,), cat 1, dog 2)
    """
    return datasets_of([Part(X, y)], name=name, classes=classes, features=features, wanted=wanted or Wanted())[0]


def datasets_of(
    parts: Sequence[Part],
    *,
    name: str,
    wanted: Wanted,
    classes: Sequence[str] | None = None,
    features: Sequence[str] | Array | None = None,
    notes: Sequence[str] = (),
) -> list[Dataset]:
    """One part, or the training and the test part, converted alike: the same classes, and pixels scaled alike.

    notes: what was done before.
    """
    read = [_checked_part(part) for part in parts]
    if len({y is None for _, y in read}) > 1:
        raise NetgrainError(f"one part of {name} has labels and the other has none; expected labels for both, or none.")
    given = [y for _, y in read if y is not None]
    whole = _joined(given, "the labels of the two parts") if given else None
    labels = labels_of(whole, target=wanted.target, names=classes)
    chosen = [
        torch.from_numpy(chosen_indices(len(X), limit, wanted.seed).numpy())
        for (X, _), limit in zip(read, wanted.limits, strict=False)
    ]
    kept = [X if len(rows) == len(X) else X[rows.numpy()] for (X, _), rows in zip(read, chosen, strict=True)]
    numbers, note = _numbers(_joined(kept, "the samples of the two parts"))
    listed = () if features is None else tuple(str(f) for f in np.atleast_1d(np.asarray(features)))
    noted = "; ".join([*notes, *([] if note == AS_GIVEN else [note]), *labels.notes]) or AS_GIVEN
    ys = [None] * len(read) if labels.y is None else labels.y.split([len(X) for X, _ in read])
    found = []
    for i, (X, y, rows) in enumerate(zip(numbers.split([len(X) for X in kept]), ys, chosen, strict=True)):
        called = name if len(read) == 1 else f"{name} {('train', 'test')[i]}"
        own = None if y is None else y[rows]
        found.append(checked(X, own, called, labels.classes, noted, listed, constant=i == 0))
    return found


def _checked_part(part: Part) -> tuple[Array, Array | None]:
    X = array_of(part.X, "X")
    if X.ndim < 2 or X.size == 0:
        raise NetgrainError(f"X has shape {X.shape}; expected (samples, …) with at least one sample and one entry.")
    if part.y is None:
        return X, None
    y = array_of(part.y, "y")
    if y.ndim not in (1, 2) or len(y) != len(X) or y.size == 0:
        raise NetgrainError(
            f"X has {len(X)} samples, y has shape {y.shape}; expected one label for each sample, ({len(X)},)."
        )
    return X, y


def _joined(arrays: list[Array], what: str) -> Array:
    if len(arrays) == 1:
        return arrays[0]
    kinds = {"number" if a.dtype.kind in "fiub" else a.dtype.kind for a in arrays}
    if len({a.shape[1:] for a in arrays}) > 1 or len(kinds) > 1:
        found = " and ".join(f"{a.dtype} of shape {a.shape[1:]}" for a in arrays)
        raise NetgrainError(f"{what} differ: {found}; expected the same kind and shape.")
    return np.concatenate(arrays)


def checked(
    X: Tensor,
    y: Tensor | None,
    name: str,
    classes: tuple[str, ...],
    note: str,
    features: tuple[str, ...],
    *,
    constant: bool = True,
) -> Dataset:
    """The data set of a user, or one sentence about what is wrong with its numbers; constant: warn of those."""
    check_finite_samples(X)
    still = (X.amax(0) == X.amin(0)).flatten()
    if constant and len(X) > 1 and bool(still.any()):
        first = int(still.nonzero()[0])
        where = f"'{features[first]}'" if len(features) == len(still) else f"number {first}"
        warnings.warn(
            f"{name}: {int(still.sum())} of {len(still)} features are constant over all samples (the first is "
            f"{where}); they tell nothing about the labels.",
            GrainWarning,
            stacklevel=4,
        )
    return Dataset(X, y, name, classes, note, features)


def pixels(image: Any) -> Tensor:
    """A PIL image as bytes, (1, H, W) for grey and (3, H, W) for colour; 16-bit grey is scaled to 8 bits."""
    if image.mode == "F":
        raise ValueError("floating-point pixels have no known range")
    if image.mode.startswith("I"):
        wide = np.asarray(image).astype(np.float64)
        if wide.min() < 0 or wide.max() > 65535:
            raise ValueError(f"pixels from {wide.min():g} to {wide.max():g}, expected 0 to 65535")
        return torch.from_numpy(np.round(wide / 257).astype(np.uint8))[None]
    plain = np.array(image.convert("L" if image.mode in GREY else "RGB"))
    found = torch.from_numpy(plain)
    return found[None] if found.dim() == 2 else found.permute(2, 0, 1).contiguous()


def array_of(values: Any, what: str) -> Array:
    """Plain numbers or words as an array."""
    try:
        found: Array = values.detach().cpu().numpy() if isinstance(values, Tensor) else np.asarray(values)
    except (TypeError, ValueError, RuntimeError) as e:
        raise NetgrainError(f"{what} was expected to be an array of numbers, found {kind_of(values)} ({e}).") from e
    if found.dtype.kind not in "fiubUS":
        raise NetgrainError(f"{what} was expected to hold plain numbers or words, found {found.dtype} values.")
    return found


def _numbers(X: Array) -> tuple[Tensor, str]:
    """X in floating point, and what was done to it: whole-number images are divided by 255."""
    if X.dtype.kind == "f":
        last = X.ndim == 4 and _channels_last(X)
        with np.errstate(over="ignore"):  # what is too large for single precision is found, and said, as Inf
            X = np.ascontiguousarray(X.transpose(0, 3, 1, 2) if last else X, dtype=np.float32)
        return torch.from_numpy(X), MOVED if last else AS_GIVEN
    if X.dtype.kind not in "iub":
        raise NetgrainError(f"X holds {X.dtype} values; expected numbers: encode words as numbers first.")
    numbers = torch.from_numpy(X.astype(np.float32))
    if X.ndim == 2:
        return numbers, "whole numbers as given"
    lowest, highest = int(X.min()), int(X.max())
    if lowest < 0 or highest > WHITE:
        raise NetgrainError(
            f"X holds whole numbers from {lowest} to {highest}, expected 0 to {WHITE} for images; "
            "scale other numbers yourself and pass them as floating point."
        )
    notes = ["0 and 1 as given" if highest <= 1 else f"pixels divided by {WHITE}"]
    if highest > 1:
        numbers /= WHITE
    if X.ndim == 3:
        numbers = numbers.unsqueeze(1)
    elif X.ndim == 4 and _channels_last(X):
        numbers = numbers.permute(0, 3, 1, 2).contiguous()
        notes.append(MOVED)
    return numbers, "; ".join(notes)


def _channels_last(X: Array) -> bool:
    return X.shape[3] in (1, 3) and X.shape[1] not in (1, 3)


def kind_of(value: object) -> str:
    """What a value is, in a few words."""
    return f"{type(value).__name__} of length {len(value)}" if isinstance(value, tuple | list) else type(value).__name__
