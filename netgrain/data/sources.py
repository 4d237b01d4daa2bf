"""What a user brings: FILE.npz, a folder of images by class, a torchvision-style data set, tensors.

Every way in ends in the same checks and in a `Dataset` whose note says what was done to the numbers. Nothing is
unpickled. Images by class are read in `netgrain.data.folders`.
"""

from __future__ import annotations

import math
import warnings
import zipfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from netgrain.data.arrays import check_sizes
from netgrain.data.dataset import AT_ONCE, Dataset, channel_moments, generator_for
from netgrain.data.folders import area_resized, pixels, read_folder
from netgrain.runtime.errors import GrainWarning, NetgrainError
from netgrain.runtime.files import is_file
from netgrain.runtime.samples import check_finite_samples, check_two_classes

WHITE = 255  # whole-number images run from 0 to here
AS_GIVEN = "as given"
LARGEST_LABEL = 2**53  # in floating point; above it whole numbers are no longer told apart


@dataclass(frozen=True, eq=False, repr=False)
class OwnDataset(Dataset):
    """A data set that may know the names of its features, one for each entry of a sample (none: empty)."""

    features: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        entries = math.prod(self.shape)
        if self.features and len(self.features) != entries:
            raise NetgrainError(
                f"{len(self.features)} feature names came with samples of {entries} entries; "
                "expected one name for each entry."
            )


def read(
    source: str | Path, *, strict: bool = False, size: int | None = None, limit: int | None = None, seed: int = 0
) -> OwnDataset:
    """The samples of FILE.npz (arrays X and y, perhaps `features`) or of FOLDER/class/image.

    strict: an unreadable image is an error rather than skipped and counted. size: images are averaged over equal areas
    to size × size. limit: that many random samples, chosen by seed before anything is decoded.
    """
    path = Path(source)
    with suppress(RuntimeError):  # nobody's home: said below
        path = path.expanduser()
    _check_count("limit", limit)
    _check_count("size", size)
    if _is_folder(path):
        X, y, classes, note = read_folder(path, strict=strict, size=size, limit=limit, seed=seed)
        return _checked(X, y, classes, path.resolve().name, note, ())
    if path.suffix.casefold() != ".npz" or not is_file(path):
        found = "is neither" if is_file(path) else "is not there"
        raise NetgrainError(f"expected FILE.npz with X and y or a FOLDER/ of images by class; {path} {found}.")
    arrays = _read_npz(path)
    data = _of(arrays["X"], arrays["y"], None, arrays.get("features"), path.name, limit, seed)
    return data if size is None else _resized(data, size)


def from_tensors(
    X: Tensor | np.ndarray[Any, Any],  # (samples, *shape), floating; or whole-number images from 0 to 255
    y: Tensor | np.ndarray[Any, Any] | Sequence[Any],  # (samples,), whole numbers or words
    classes: Sequence[str] | None = None,
    features: Sequence[str] | None = None,
    *,
    name: str = "data",
) -> OwnDataset:
    """Samples and labels that are in memory; labels of any kind become 0, 1, … in sorted order.

    classes: names of the labels 0, 1, …, each with at least one sample; features: names of the entries of a sample.

    >>> from_tensors(torch.tensor([[0.0, 1.0], [2.0, 5.0], [1.0, 1.0]]), ["dog", "cat", "dog"])
    Dataset(data, 3 samples of shape (2,), cat 1, dog 2)
    """
    return _of(_array(X, "X"), _array(y, "y"), classes, features, name, None, 0)


def from_dataset(ds: Any, *, limit: int | None = None, seed: int = 0, name: str | None = None) -> OwnDataset:
    """A torchvision-style data set: len(ds), and ds[i] gives (tensor, array or PIL image, label).

    limit: that many random samples. Random transforms run under the seed; the caller's generators are left alone.
    """
    from netgrain.runtime.randomness import seeded

    _check_count("limit", limit)
    if not (hasattr(ds, "__len__") and hasattr(ds, "__getitem__")):
        raise NetgrainError(
            f"expected a data set with len() and indexing, found {type(ds).__name__}; for batches of a loader "
            "concatenate them and use from_tensors(X, y)."
        )
    if len(ds) == 0:
        raise NetgrainError("expected a data set with samples, found one of length 0.")
    samples: list[np.ndarray[Any, Any]] = []
    labels: list[Any] = []
    with seeded(seed):
        for i in _chosen(len(ds), limit, seed).tolist():
            item = ds[i]
            if not isinstance(item, tuple | list) or len(item) != 2:
                raise NetgrainError(f"sample {i} was expected to be a pair (image, label), found {_kind(item)}.")
            x = pixels(item[0]).numpy() if hasattr(item[0], "getbands") else _array(item[0], f"sample {i}")
            if samples and x.shape != samples[0].shape:
                raise NetgrainError(
                    f"sample {i} has shape {x.shape}, the first one read {samples[0].shape}; expected equal shapes: "
                    "resize in the data set's transform."
                )
            samples.append(x)
            labels.append(item[1].item() if isinstance(item[1], Tensor | np.ndarray) else item[1])
    found = np.asarray(labels)
    named = getattr(ds, "classes", None)
    if isinstance(named, list | tuple) and found.dtype.kind in "iu" and 0 <= found.min() <= found.max() < len(named):
        present = np.unique(found)
        classes: list[str] | None = [str(named[v]) for v in present]
        found = np.searchsorted(present, found)
    else:
        classes = None
    return _of(np.stack(samples), found, classes, None, name or type(ds).__name__, None, seed)


def normalised(dataset: Dataset) -> Dataset:
    """Mean 0 and standard deviation 1: of each channel for images (C, H, W), of each feature for tables.

    Statistics are those of this data set (population standard deviation); what is constant becomes 0. Samples of any
    other shape count as one channel.

    >>> data = Dataset(torch.tensor([[1.0, 5.0], [3.0, 5.0]]), torch.tensor([0, 1]))
    >>> normalised(data).X.tolist(), normalised(data).note
    ([[-1.0, 0.0], [1.0, 0.0]], 'standardised per feature, 1 constant one set to 0')
    """
    table = len(dataset.shape) == 1
    view = dataset.X[:, :, None] if table else dataset.X.flatten(2) if dataset.X.dim() == 4 else None
    view = dataset.X.flatten(1).unsqueeze(1) if view is None else view  # (samples, channels, entries)
    # channels of a 4-dimensional view are what channel_moments goes by
    mean, std = channel_moments(view.unsqueeze(3))
    scale = torch.where(std == 0, torch.inf, std)[:, None]
    parts = [((part.double() - mean[:, None]) / scale).float() for part in view.split(AT_ONCE)]
    constant = int((std == 0).sum())
    done = "standardised per feature" if table else "standardised per channel"
    if not table:
        listed = [", ".join(f"{v:.4g}" for v in values.tolist()) for values in (mean, std)]
        done += f": mean {listed[0]}, std {listed[1]}"
    if constant:
        done += f", {constant} constant {'one' if constant == 1 else 'ones'} set to 0"
    before = "" if dataset.note == AS_GIVEN else f"{dataset.note}; "
    return replace(dataset, X=torch.cat(parts).reshape(dataset.X.shape) + 0.0, note=before + done)


# --- from arrays to a data set ----------------------------------------------------------------------------------


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except (OSError, ValueError):  # a name too long for one, or with a zero byte
        return False


def _read_npz(path: Path) -> dict[str, np.ndarray[Any, Any]]:
    found: dict[str, np.ndarray[Any, Any]] = {}
    try:
        # opened here: numpy leaves a file open that turns out to be no archive
        with path.open("rb") as file, np.load(file, allow_pickle=False) as content:
            if missing := [name for name in ("X", "y") if name not in content.files]:
                listed = ", ".join(content.files) or "none"
                raise NetgrainError(
                    f"{path} has no array {' and no array '.join(missing)} (arrays found: {listed}); "
                    "save it with np.savez(file, X=X, y=y)."
                )
            check_sizes(content, path)
            for name in ("X", "y", "features"):
                if name in content.files:
                    found[name] = _read_array(content, name, path)
    except NetgrainError:
        raise
    except Exception as e:  # of NumPy's header, the archive and its four compressions: many kinds
        known = isinstance(e, OSError | MemoryError | zipfile.BadZipFile)
        why = str(e) if known else "it is no archive of arrays"
        raise NetgrainError(f"{path} cannot be read ({why}); expected a file of np.savez(file, X=X, y=y).") from e
    return found


def _read_array(content: Any, name: str, path: Path) -> np.ndarray[Any, Any]:
    try:
        array: np.ndarray[Any, Any] = content[name]
    except ValueError as e:
        if "pickle" not in str(e):
            raise
        raise NetgrainError(
            f"{path}: the array {name} holds Python objects, and nothing is unpickled here; expected numbers "
            "(or words, for y): save it with a plain dtype, as in X.astype(np.float32) or y.astype(str)."
        ) from e
    if not isinstance(array, np.ndarray):  # NumPy hands out an entry that is no array as its bytes
        raise ValueError(f"{name} is no array")
    return array


def _array(values: Any, what: str) -> np.ndarray[Any, Any]:
    try:
        found = values.detach().cpu().numpy() if isinstance(values, Tensor) else np.asarray(values)
    except (TypeError, ValueError, RuntimeError) as e:
        raise NetgrainError(f"{what} was expected to be an array of numbers, found {_kind(values)} ({e}).") from e
    if found.dtype.kind not in "fiubUS":
        raise NetgrainError(f"{what} was expected to hold plain numbers or words, found {found.dtype} values.")
    return found


def _of(
    X: np.ndarray[Any, Any],
    y: np.ndarray[Any, Any],
    classes: Sequence[str] | None,
    features: Sequence[str] | np.ndarray[Any, Any] | None,
    name: str,
    limit: int | None,
    seed: int,
) -> OwnDataset:
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
        names = tuple(str(c) for c in classes)
        if y.dtype.kind not in "iub" or int(y.min()) < 0 or int(y.max()) >= len(names):
            span = f"{y.min()} to {y.max()}" if y.dtype.kind != "f" else f"{y.dtype} numbers"
            raise NetgrainError(f"labels are {span}; expected 0 to {len(names) - 1} for the {len(names)} classes.")
        empty = sorted(set(range(len(names))) - set(y.astype(int).tolist()))
        if empty:
            raise NetgrainError(f"class '{names[empty[0]]}' has no samples; leave it out of classes, or add samples.")
        found = names
    chosen = _chosen(len(X), limit, seed).numpy()
    numbers, note = _numbers(X if limit is None else X[chosen])
    listed = () if features is None else tuple(str(f) for f in np.atleast_1d(np.asarray(features)))
    return _checked(numbers, labels[torch.from_numpy(chosen)], found, name, note, listed)


def _labels(y: np.ndarray[Any, Any]) -> tuple[Tensor, tuple[str, ...]]:
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


def _numbers(X: np.ndarray[Any, Any]) -> tuple[Tensor, str]:
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


def _checked(
    X: Tensor, y: Tensor, classes: tuple[str, ...], name: str, note: str, features: tuple[str, ...]
) -> OwnDataset:
    """The data set, or one sentence about what is wrong with its numbers."""
    check_finite_samples(X)
    check_two_classes(y, classes)
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
    return OwnDataset(X, y, name, classes, note, features)


def _resized(data: OwnDataset, size: int) -> OwnDataset:
    if len(data.shape) != 3:
        raise NetgrainError(f"size= expects images of shape (channels, height, width), found {data.shape}.")
    if data.shape[1:] == (size, size):
        return data
    before = "" if data.note == AS_GIVEN else f"{data.note}; "
    note = f"{before}area-averaged from {data.shape[1]} × {data.shape[2]} to {size} × {size}"
    return replace(data, X=area_resized(data.X, size), note=note, features=())


def _chosen(n: int, limit: int | None, seed: int) -> Tensor:
    """Indices, ascending, of at most `limit` random samples of n."""
    if limit is None or limit >= n:
        return torch.arange(n)
    return torch.randperm(n, generator=generator_for(seed, "limit"))[:limit].sort().values


def _check_count(name: str, value: int | None) -> None:
    if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
        raise NetgrainError(f"expected {name} as a positive whole number, found {value!r}.")


def _kind(value: object) -> str:
    return f"{type(value).__name__} of length {len(value)}" if isinstance(value, tuple | list) else type(value).__name__
