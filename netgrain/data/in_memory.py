"""Samples that are in memory: arrays, tensors and torch data sets, made a `Dataset` with every number checked."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from netgrain.data.dataset import AS_GIVEN, Dataset, chosen_indices
from netgrain.runtime.errors import GrainWarning, NetgrainError
from netgrain.runtime.randomness import seeded
from netgrain.runtime.samples import check_finite_samples

WHITE = 255  # whole-number images run from 0 to here
LARGEST_LABEL = 2**53  # in floating point; above it whole numbers are no longer told apart
GREY = ("1", "L", "LA", "La", "I", "I;16", "I;16B", "I;16L", "I;16N")  # modes of PIL

Array = np.ndarray[Any, Any]


def dataset_of(
    X: Any,
    y: Any,
    *,
    classes: Sequence[str] | None = None,
    features: Sequence[str] | Array | None = None,
    name: str = "data",
    limit: int | None = None,
    seed: int = 0,
) -> Dataset:
    """Samples and labels that are in memory; labels of any kind become 0, 1, … in sorted order.

    X (samples, *shape) is floating, or whole-number images from 0 to 255; y (samples,) holds whole numbers or words.
    classes: names of the labels 0, 1, …, each with at least one sample.

    >>> dataset_of(torch.tensor([[0.0, 1.0], [2.0, 5.0], [1.0, 1.0]]), ["dog", "cat", "dog"])
    Dataset(data, 3 samples of shape (2,), cat 1, dog 2)
    """
    X, y = array_of(X, "X"), array_of(y, "y")
    if X.ndim < 2 or X.size == 0:
        raise NetgrainError(f"X has shape {X.shape}; expected (samples, …) with at least one sample and one entry.")
    if y.ndim == 2 and y.shape[1] == 1:
        y = y[:, 0]
    if y.ndim != 1 or len(y) != len(X):
        raise NetgrainError(
            f"X has {len(X)} samples, y has shape {y.shape}; expected one label for each sample, ({len(X)},)."
        )
    labels, found = _labels(y)
    if classes is not None:
        found = _named(y, tuple(str(c) for c in classes))
    chosen = chosen_indices(len(X), limit, seed).numpy()
    numbers, note = _numbers(X if limit is None else X[chosen])
    listed = () if features is None else tuple(str(f) for f in np.atleast_1d(np.asarray(features)))
    return checked(numbers, labels[torch.from_numpy(chosen)], name, found, note, listed)


def dataset_from(ds: Any, *, limit: int | None = None, seed: int = 0, name: str | None = None) -> Dataset:
    """A torchvision-style data set: len(ds), and ds[i] gives (tensor, array or PIL image, label).

    limit: that many random samples. Random transforms run under the seed; the caller's generators are left alone.
    """
    if not (hasattr(ds, "__len__") and hasattr(ds, "__getitem__")):
        raise NetgrainError(
            f"expected a data set with len() and indexing, found {type(ds).__name__}; for batches of a loader "
            "concatenate them and pass X and y."
        )
    if len(ds) == 0:
        raise NetgrainError("expected a data set with samples, found one of length 0.")
    samples: list[Array] = []
    labels: list[Any] = []
    with seeded(seed):
        for i in chosen_indices(len(ds), limit, seed).tolist():
            item = ds[i]
            if not isinstance(item, tuple | list) or len(item) != 2:
                raise NetgrainError(f"sample {i} was expected to be a pair (image, label), found {_kind(item)}.")
            x = pixels(item[0]).numpy() if hasattr(item[0], "getbands") else array_of(item[0], f"sample {i}")
            if samples and x.shape != samples[0].shape:
                raise NetgrainError(
                    f"sample {i} has shape {x.shape}, the first one read {samples[0].shape}; expected equal shapes: "
                    "resize in the data set's transform."
                )
            samples.append(x)
            labels.append(item[1].item() if isinstance(item[1], Tensor | np.ndarray) else item[1])
    found, classes = np.asarray(labels), None
    named = getattr(ds, "classes", None)
    if isinstance(named, list | tuple) and found.dtype.kind in "iu" and 0 <= found.min() <= found.max() < len(named):
        present = np.unique(found)
        classes = [str(named[v]) for v in present]
        found = np.searchsorted(present, found)
    return dataset_of(np.stack(samples), found, classes=classes, name=name or type(ds).__name__, seed=seed)


def checked(X: Tensor, y: Tensor, name: str, classes: tuple[str, ...], note: str, features: tuple[str, ...]) -> Dataset:
    """The data set of a user, or one sentence about what is wrong with its numbers."""
    check_finite_samples(X)
    still = (X.amax(0) == X.amin(0)).flatten()
    if len(X) > 1 and bool(still.any()):
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
        raise NetgrainError(f"{what} was expected to be an array of numbers, found {_kind(values)} ({e}).") from e
    if found.dtype.kind not in "fiubUS":
        raise NetgrainError(f"{what} was expected to hold plain numbers or words, found {found.dtype} values.")
    return found


def _labels(y: Array) -> tuple[Tensor, tuple[str, ...]]:
    """Labels 0, 1, … and the names of the classes, in sorted order of what was written."""
    if y.dtype.kind == "f":
        y = y.astype(np.float64)
        wrong = ~(np.abs(y) < LARGEST_LABEL) | (y != np.round(y))  # NaN is below nothing
        if bool(wrong.any()):
            where = int(np.flatnonzero(wrong)[0])
            raise NetgrainError(f"label {where} is {y[where]}; expected classes: whole numbers or words.")
        y = y.astype(np.int64)
    values, labels = np.unique(y, return_inverse=True)
    names = [v.decode("utf-8", "replace") if isinstance(v, bytes) else str(v) for v in values.tolist()]
    return torch.from_numpy(labels.astype(np.int64)), tuple(names)


def _named(y: Array, names: tuple[str, ...]) -> tuple[str, ...]:
    """The names of the classes, if each of them is a label."""
    if y.dtype.kind not in "iub" or int(y.min()) < 0 or int(y.max()) >= len(names):
        span = f"{y.min()} to {y.max()}" if y.dtype.kind != "f" else f"{y.dtype} numbers"
        raise NetgrainError(f"labels are {span}; expected 0 to {len(names) - 1} for the {len(names)} classes.")
    if empty := sorted(set(range(len(names))) - set(y.astype(int).tolist())):
        raise NetgrainError(f"class '{names[empty[0]]}' has no samples; leave it out of classes, or add samples.")
    return names


def _numbers(X: Array) -> tuple[Tensor, str]:
    """X in floating point, and what was done to it: whole-number images are divided by 255."""
    if X.dtype.kind == "f":
        with np.errstate(over="ignore"):  # what is too large for single precision is found, and said, as Inf
            return torch.from_numpy(np.ascontiguousarray(X, dtype=np.float32)), AS_GIVEN
    if X.dtype.kind not in "iub":
        raise NetgrainError(f"X holds {X.dtype} values; expected numbers: encode words as numbers first.")
    numbers = torch.from_numpy(X.astype(np.float32))
    if X.ndim == 2:
        return numbers, "whole numbers as given"
    lowest, highest = int(X.min()), int(X.max())
    if lowest < 0 or highest > WHITE:
        raise NetgrainError(
            f"X holds whole numbers from {lowest} to {highest}, expected 0 to {WHITE} for images; "
            "scale other numbers yourself and pass them as floats."
        )
    notes = ["0 and 1 as given" if highest <= 1 else f"pixels divided by {WHITE}"]
    if highest > 1:
        numbers /= WHITE
    if X.ndim == 3:
        numbers = numbers.unsqueeze(1)
    elif X.ndim == 4 and X.shape[3] in (1, 3) and X.shape[1] not in (1, 3):
        numbers = numbers.permute(0, 3, 1, 2).contiguous()
        notes.append("channels moved from last to first")
    return numbers, "; ".join(notes)


def _kind(value: object) -> str:
    return f"{type(value).__name__} of length {len(value)}" if isinstance(value, tuple | list) else type(value).__name__
