"""Tables: which column holds the labels, columns of words as one-hot columns, missing values named.

A column is an array of one row for each sample: numbers (missing: NaN) or words (missing: an empty word).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from netgrain.data.dataset import Dataset
from netgrain.data.in_memory import Array, Part, datasets_of
from netgrain.data.labels import with_names
from netgrain.data.wanted import Wanted
from netgrain.runtime.errors import NetgrainError, did_you_mean

LABELS = ("label", "labels", "target", "y", "class")  # what label columns are called, in any case
COUNTERS = ("", "unnamed: 0", "index", "id")  # columns that may count the rows
MOST_WORDS = 50  # different words of a column that becomes one-hot columns

Columns = Mapping[str, Array]


def datasets_of_tables(
    tables: Sequence[Columns],
    *,
    name: str,
    wanted: Wanted,
    notes: Sequence[str] = (),
    classes: Mapping[str, Sequence[str]] | None = None,
) -> list[Dataset]:
    """The training and perhaps the test part, from their tables with the same columns.

    classes: the names behind the whole numbers of a column.
    """
    known = classes or {}
    first = list(tables[0])
    for other in tables[1:]:
        if sorted(other) != sorted(first):
            raise NetgrainError(
                f"{name}: the training part has the columns {_listed(first)}, the test part {_listed(list(other))}; "
                "expected the same."
            )
    rows = [len(next(iter(table.values()))) for table in tables]
    joined = {column: _joined([table[column] for table in tables], column, name) for column in first}
    label, said = label_among(first, wanted, name, last=True)
    counting = [c for c in first if c.casefold() in COUNTERS and c != label and _counts_rows(tables[0][c])]
    features = {c: _words(values, known.get(c)) for c, values in joined.items() if c != label and c not in counting}
    if not features:
        raise NetgrainError(f"{name} has no columns but {_listed(first)}; expected features besides the labels.")
    y = None if label is None or wanted.target == "none" else joined[label]
    _check_missing(features | ({} if y is None or label is None else {label: y}), name, tables[0])
    X, names, encoded = _numbers(features, name)
    done = [*notes, *said, *(f"column '{c}', which counts the rows, left out" for c in counting), *encoded]
    at = np.cumsum(rows)[:-1]
    y, named = (None, None) if y is None or label is None else with_names(y, known.get(label))
    labels = [None] * len(rows) if y is None else np.split(y, at)
    parts = [Part(x, own) for x, own in zip(np.split(X, at), labels, strict=True)]
    return datasets_of(parts, name=name, wanted=wanted, classes=named, features=names, notes=done)


def _words(values: Array, names: Sequence[str] | None) -> Array:
    """A column with the names behind its numbers, where they are known."""
    found, present = with_names(values, names)
    return values if present is None else np.array(present)[found]


def label_among(
    columns: Sequence[str], wanted: Wanted, name: str, *, last: bool = False
) -> tuple[str | None, list[str]]:
    """The column of the labels, and how it was found; with target "none" it is found to be left out.

    last: without a usual name it is the last column; otherwise there are no labels.
    """
    if wanted.label is not None:
        if wanted.label not in columns:
            raise NetgrainError(
                f"{name} has no column '{wanted.label}'.{did_you_mean(wanted.label, columns)} Its columns are "
                f"{_listed(columns)}."
            )
        found, how = wanted.label, f"label: column '{wanted.label}'"
    else:
        named = {c.casefold(): c for c in reversed(columns)}
        usual = next((named[word] for word in LABELS if word in named), None)
        if usual is None and (wanted.target == "none" or not last):
            return None, ["no labels: every column is a feature"] if last else []
        found = usual or columns[-1]
        how = f"label: {'' if usual else 'the last '}column '{found}'{'' if usual else ' (--label names another)'}"
    return found, [f"column '{found}' left out, no labels" if wanted.target == "none" else how]


def _counts_rows(values: Array) -> bool:
    if values.ndim != 1 or values.dtype.kind not in "iu" or len(values) < 2:
        return False
    return bool(np.array_equal(values, np.arange(len(values)) + values[0])) and values[0] in (0, 1)


def _check_missing(table: Columns, name: str, first: Columns) -> None:
    """Refuse missing values, by column, with the place of the first."""
    gaps = {column: found for column, values in table.items() if (found := _missing(values)).any()}
    if not gaps:
        return
    total = sum(int(found.sum()) for found in gaps.values())
    where = min(int(np.flatnonzero(found)[0]) for found in gaps.values())
    counted = [f"'{column}' ({int(found.sum())})" for column, found in gaps.items()]
    more = [f"{len(counted) - 5} more columns"] if len(counted) > 5 else []
    row = f"row {where + 1}" if where < len(next(iter(first.values()))) else "the test part"
    raise NetgrainError(
        f"{name} has {total} missing value{'s' * (total > 1)}, in {_and([*counted[:5], *more])}, the first in {row}; "
        "expected a complete table: fill the gaps, or drop those rows (pandas: df.dropna()) or columns."
    )


def _missing(values: Array) -> Array:
    """Which samples lack a value."""
    if values.dtype.kind == "f":
        return np.asarray(np.isnan(values.reshape(len(values), -1)).any(1))
    return np.asarray(values == "") if values.dtype.kind == "U" and values.ndim == 1 else np.zeros(len(values), bool)


def _numbers(table: Columns, name: str) -> tuple[Array, list[str] | None, list[str]]:
    """Features as an array, their names, and a note about columns of words."""
    if len(table) == 1 and next(iter(table.values())).ndim > 1:
        return next(iter(table.values())), None, []
    blocks: list[Array] = []
    names: list[str] = []
    encoded: list[str] = []
    for column, values in table.items():
        if values.dtype.kind == "U":
            words = np.unique(values)
            if len(words) > MOST_WORDS:
                raise NetgrainError(
                    f"column '{column}' of {name} holds {len(words)} different words ('{words[0]}' is one); expected "
                    f"numbers, or at most {MOST_WORDS} words: leave the column out, or replace it by numbers."
                )
            blocks.append((values[:, None] == words).astype(np.float64))
            names += [f"{column}={word}" for word in words.tolist()]
            encoded.append(f"'{column}' ({len(words)})")
        else:
            flat = values.reshape(len(values), -1).astype(np.float64)
            blocks.append(flat)
            names += [column] if values.ndim == 1 else [f"{column}[{i}]" for i in range(flat.shape[1])]
    note = [f"words one-hot encoded: {', '.join(encoded[:5])}{' and others' * (len(encoded) > 5)}"] if encoded else []
    return np.concatenate(blocks, 1), names, note


def _joined(arrays: list[Array], column: str, name: str) -> Array:
    """A column of both parts; numbers become words where the other part has words."""
    if len(arrays) == 1:
        return arrays[0]
    if len({a.shape[1:] for a in arrays}) > 1 or len({a.dtype.kind == "U" for a in arrays}) > 1:
        raise NetgrainError(
            f"column '{column}' of {name} has another kind of values in the test part than in the training part; "
            "expected the same kind."
        )
    return np.concatenate(arrays)


def _listed(columns: Sequence[Any]) -> str:
    shown = [f"'{column}'" for column in columns[:12]]
    return ", ".join(shown) + (f" and {len(columns) - 12} more" if len(columns) > 12 else "")


def _and(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
