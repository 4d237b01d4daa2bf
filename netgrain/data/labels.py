"""Labels as people have them, told apart and made classes 0, 1, … or numbers, with a note about what was done.

Whole numbers from anywhere, words, truths and one-hot rows are classes; other floating-point numbers are numbers to
predict. What may be meant in two ways is asked for, never guessed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, get_args

import numpy as np
import torch
from torch import Tensor

from netgrain.data.dataset import Target
from netgrain.runtime.errors import NetgrainError, known_name
from netgrain.runtime.samples import FEW_VALUES, may_be_classes

FEW_OF_EACH = 5  # whole numbers with fewer samples of each, on average, may be numbers to predict

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, eq=False)
class Labels:
    """Labels 0, 1, … with the names of their classes, or numbers, or none; and what was done to get them."""

    y: Tensor | None
    classes: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def checked_target(target: str | None) -> None:
    """Refuse a word that is no kind of labels."""
    if target is not None:
        known_name("target", target, get_args(Target))


def labels_of(y: Array | None, *, target: Target | None = None, names: Sequence[str] | None = None) -> Labels:
    """Labels of any kind, one for each sample; names: of the classes 0, 1, …, each of which has a sample.

    >>> labels_of(np.array(["dog", "cat", "dog"])).y.tolist(), labels_of(np.array([[0, 1], [1, 0]])).y.tolist()
    ([1, 0, 1], [1, 0])
    >>> labels_of(np.array([1, 2, 2])).notes
    ('labels 1 to 2 renumbered from 0',)
    """
    if y is None:
        return Labels(None)
    if target == "none":
        return Labels(None, (), ("labels left out",))
    if y.ndim == 2 and y.shape[1] == 1:
        y = y[:, 0]
    _check_finite(y)
    if names is not None:
        return Labels(torch.from_numpy(y.astype(np.int64)), _named(y, tuple(str(n) for n in names)))
    if y.ndim == 2:
        return _rows(y, target)
    kind = target or _kind(y)
    return _numbers(y) if kind == "numbers" else _classes(y)


def with_names(y: Array, names: Sequence[str] | None) -> tuple[Array, list[str] | None]:
    """Whole numbers that are positions among names: those that occur, numbered from 0, and their names.

    >>> with_names(np.array([2, 0, 2]), ["cat", "dog", "owl"])
    (array([1, 0, 1]), ['cat', 'owl'])
    """
    if names is None or y.dtype.kind not in "iu" or y.ndim != 1 or not 0 <= y.min() <= y.max() < len(names):
        return y, None
    present = np.unique(y)
    return np.searchsorted(present, y), [str(names[v]) for v in present]


def _kind(y: Array) -> Target:
    """Whether labels are classes or numbers, where that can be told."""
    if y.dtype.kind == "f":
        if values := may_be_classes(torch.from_numpy(y.astype(np.float64))):
            raise NetgrainError(
                f"the labels are floating-point numbers with only {values} different values, which may be classes or "
                "numbers to predict; pass target='classes' or target='numbers' (--target)."
            )
        return "numbers"
    if y.dtype.kind in "iu":
        values = len(np.unique(y))
        if values > FEW_VALUES and len(y) < FEW_OF_EACH * values:
            raise NetgrainError(
                f"the labels of {len(y)} samples are {values} different whole numbers, which may be classes or numbers "
                "to predict; pass target='numbers' or target='classes' (--target)."
            )
    return "classes"


def _classes(y: Array) -> Labels:
    """Labels 0, 1, … and the names of the classes, in sorted order of what was written."""
    values, labels = np.unique(y, return_inverse=True)
    if y.dtype.kind == "f":
        names = [f"{v:g}" for v in values.tolist()]
    else:
        names = [v.decode("utf-8", "replace") if isinstance(v, bytes) else str(v) for v in values.tolist()]
    notes: tuple[str, ...] = ()
    if y.dtype.kind in "iuf" and not np.array_equal(values, np.arange(len(values))):
        notes = (f"labels {names[0]} to {names[-1]} renumbered from 0",)
    return Labels(torch.from_numpy(labels.astype(np.int64)), tuple(names), notes)


def _numbers(y: Array) -> Labels:
    if y.dtype.kind not in "fiub":
        raise NetgrainError(f"the labels hold words ('{y.flat[0]}' is the first), which cannot be numbers to predict.")
    with np.errstate(over="ignore"):  # what is too large for single precision is found, and said, as Inf
        return Labels(torch.from_numpy(y.astype(np.float32)), (), ("labels are numbers",))


def _rows(y: Array, target: Target | None) -> Labels:
    """Labels in rows: one-hot, or several numbers for each sample."""
    one_hot = y.dtype.kind in "fiub" and bool(np.isin(y, (0, 1)).all() and (y.sum(1) == 1).all())
    if one_hot and target != "numbers":
        found = _classes(y.argmax(1))
        return Labels(found.y, found.classes, ("one-hot labels", *found.notes))
    if target == "classes" or (target is None and y.dtype.kind != "f"):
        raise NetgrainError(
            f"the labels have shape {y.shape} and rows that are not one-hot; expected one class for each sample, "
            f"({len(y)},), or target='numbers' (--target) to predict {y.shape[1]} numbers."
        )
    return _numbers(y)


def _named(y: Array, names: tuple[str, ...]) -> tuple[str, ...]:
    """The names of the classes, if each of them is a label."""
    if y.dtype.kind not in "iub" or y.ndim != 1 or int(y.min()) < 0 or int(y.max()) >= len(names):
        span = f"{y.min()} to {y.max()}" if y.dtype.kind in "iub" else f"{y.dtype} numbers"
        raise NetgrainError(f"labels are {span}; expected 0 to {len(names) - 1} for the {len(names)} classes.")
    if empty := sorted(set(range(len(names))) - set(y.astype(int).tolist())):
        raise NetgrainError(f"class '{names[empty[0]]}' has no samples; leave it out of classes, or add samples.")
    return names


def _check_finite(y: Array) -> None:
    if y.dtype.kind != "f" or bool(np.isfinite(y).all()):
        return
    bad = ~np.isfinite(y.reshape(len(y), -1)).all(1)
    raise NetgrainError(
        f"{int(bad.sum())} labels are missing, NaN or Inf, the first of sample {int(np.flatnonzero(bad)[0])}; drop "
        "those samples, or leave the labels out (target='none', --no-label)."
    )
