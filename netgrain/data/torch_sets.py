"""Torch data sets and loaders: every sample is asked for once, in this process, and its labels are found in it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

import numpy as np
from torch import Tensor
from torch.utils.data import DataLoader, IterableDataset

from netgrain.data.choosing import chosen_indices
from netgrain.data.dataset import Dataset
from netgrain.data.in_memory import Array, array_of, dataset_of, kind_of, pixels
from netgrain.data.labels import with_names
from netgrain.data.wanted import Wanted
from netgrain.runtime.errors import NetgrainError
from netgrain.runtime.randomness import seeded

SAMPLES = ("x", "image", "images", "img", "pixel_values", "input", "inputs", "data", "features", "sample")
LABELS = ("y", "label", "labels", "target", "targets", "class", "fine_label")  # of a dictionary, in any case


def dataset_from(ds: Any, *, name: str | None = None, wanted: Wanted | None = None) -> Dataset:
    """A torch data set or loader of pairs, of dictionaries with usual names, or of samples alone.

    Random transforms and samplers run under the seed; the caller's generators are left alone.
    """
    wanted = wanted or Wanted()
    with seeded(wanted.seed):
        items = _of_loader(ds, wanted) if isinstance(ds, DataLoader) else _of_set(ds, wanted)
        samples, labels = _read(items, wanted.label)
    source = ds.dataset if isinstance(ds, DataLoader) else ds
    y, classes = (None, None) if labels is None else _named(np.asarray(labels), source, wanted.label)
    everything = Wanted(target=wanted.target, seed=wanted.seed)  # `limit` is done
    return dataset_of(np.stack(samples), y, classes=classes, name=name or type(source).__name__, wanted=everything)


def _of_set(ds: Any, wanted: Wanted) -> Iterator[tuple[int, Any]]:
    """Samples of a data set, by their numbers."""
    limit = wanted.limits[0]
    if isinstance(ds, IterableDataset) and not hasattr(ds, "__len__"):
        return enumerate(islice(iter(ds), _length(limit)))
    if not (hasattr(ds, "__len__") and hasattr(ds, "__getitem__")):
        raise NetgrainError(
            f"expected samples, or a data set with len() and indexing, found {type(ds).__name__}; pass a tensor, an "
            "array, a torch Dataset or a DataLoader."
        )
    if len(ds) == 0:
        raise NetgrainError("expected a data set with samples, found one of length 0.")
    return ((i, ds[i]) for i in chosen_indices(len(ds), limit, wanted.seed).tolist())


def _of_loader(loader: DataLoader[Any], wanted: Wanted) -> Iterator[tuple[int, Any]]:
    """Samples of a loader, as its sampler and its `collate_fn` give them."""
    limit = wanted.limits[0]
    if isinstance(loader.dataset, IterableDataset):
        singles = (single for batch in loader for single in _unbatched(batch, loader.batch_size))
        return enumerate(islice(singles, None if hasattr(loader.dataset, "__len__") else _length(limit)))
    if loader.batch_sampler is None:  # without automatic batches
        rows = list(loader.sampler)
        return ((i, loader.collate_fn(loader.dataset[i])) for i in _some(rows, wanted))
    rows = [i for batch in loader.batch_sampler for i in batch]
    return ((i, _unbatched(loader.collate_fn([loader.dataset[i]]), 1)[0]) for i in _some(rows, wanted))


def _some(rows: list[Any], wanted: Wanted) -> list[Any]:
    return [rows[i] for i in chosen_indices(len(rows), wanted.limits[0], wanted.seed).tolist()]


def _length(limit: int | None) -> int:
    if limit is None:
        raise NetgrainError("the data set has no length, so it may never end; pass limit= to read the first samples.")
    return limit


def _unbatched(batch: Any, size: int | None) -> list[Any]:
    """The samples of a batch, in the same structure."""
    if size is None:
        return [batch]
    if isinstance(batch, Mapping):
        columns = [_unbatched(column, size) for column in batch.values()]
        return [dict(zip(batch, row, strict=True)) for row in zip(*columns, strict=True)]
    if isinstance(batch, tuple | list) and not all(isinstance(b, str | bytes | int | float) for b in batch):
        return list(zip(*(_unbatched(column, size) for column in batch), strict=True))
    if isinstance(batch, Tensor | np.ndarray | tuple | list):
        return list(batch)
    raise NetgrainError(f"a batch of the loader holds {kind_of(batch)}; expected tensors, pairs or dictionaries.")


def _read(items: Iterable[tuple[int, Any]], label: str | None) -> tuple[list[Array], list[Any] | None]:
    samples: list[Array] = []
    labels: list[Any] = []
    missing = []
    for i, item in items:
        image, own = _taken_apart(i, item, label)
        x = pixels(image).numpy() if hasattr(image, "getbands") else array_of(image, f"sample {i}")
        if samples and x.shape != samples[0].shape:
            raise NetgrainError(
                f"sample {i} has shape {x.shape}, the first one read {samples[0].shape}; expected equal shapes: "
                "resize in the data set's transform."
            )
        samples.append(x)
        labels.append(own.tolist() if isinstance(own, Tensor | np.ndarray) else own)
        missing += [i] if own is None else []
    if not samples:
        raise NetgrainError("expected a data set with samples, found one that gives none.")
    if 0 < len(missing) < len(samples):
        raise NetgrainError(f"sample {missing[0]} has no label, others have one; expected a label for each, or none.")
    return samples, None if missing else labels


def _taken_apart(i: int, item: Any, label: str | None) -> tuple[Any, Any]:
    """Sample and label (None: there is none)."""
    if isinstance(item, Mapping):
        return _of_names(item, label)
    if label is not None:
        raise NetgrainError(f"label '{label}' names an entry of a dictionary, but samples are {kind_of(item)}.")
    if isinstance(item, tuple | list):
        if len(item) == 2:
            return item[0], item[1]
        if len(item) == 1:
            return item[0], None
        raise NetgrainError(f"sample {i} was expected to be a pair (image, label), found {kind_of(item)}.")
    return item, None


def _of_names(item: Mapping[str, Any], label: str | None) -> tuple[Any, Any]:
    """Sample and label of a dictionary, under one of the usual names."""
    named = {str(key).casefold(): key for key in item}
    x = next((named[name] for name in SAMPLES if name in named), None)
    y = label if label is not None else next((named[name] for name in LABELS if name in named), None)
    if label is not None and label not in item:
        raise NetgrainError(f"there is no '{label}' in the samples; they have {', '.join(map(str, item))}.")
    if x is None:
        raise NetgrainError(
            f"samples are dictionaries with {', '.join(map(str, item)) or 'nothing in them'}; expected one of "
            f"{', '.join(SAMPLES)} for the samples and one of {', '.join(LABELS)} for the labels."
        )
    return item[x], None if y is None else item[y]


def _named(y: Array, ds: Any, label: str | None) -> tuple[Array, list[str] | None]:
    """Labels and the names of their classes, where the data set tells them."""
    names = getattr(ds, "classes", None)
    known = getattr(ds, "features", None)  # of a data set of Hugging Face
    for key in (label, *LABELS):
        if names is None and isinstance(known, Mapping) and key in known:
            names = getattr(known[key], "names", None)
    return with_names(y, names if isinstance(names, list | tuple) else None)
