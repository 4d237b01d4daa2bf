"""Tables of Apache Arrow: FILE.parquet, and the .arrow files that Hugging Face's `datasets` writes.

pyarrow reads them, an optional part. Columns of numbers, words, lists of one length and images are understood; an image
is a picture's bytes, as `datasets` stores it, and nothing outside of the file is opened.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from netgrain.data.choosing import chosen_indices
from netgrain.data.dataset import Dataset
from netgrain.data.in_memory import Array, Part, datasets_of
from netgrain.data.labels import with_names
from netgrain.data.pictures import MOST_BYTES, alike, check_memory, opened, sized
from netgrain.data.tables import datasets_of_tables, label_among
from netgrain.data.wanted import Wanted
from netgrain.runtime.errors import NetgrainError, install


def read_parts(path: Path, wanted: Wanted) -> list[Dataset]:
    """The table of one file."""
    return datasets_of_files([[path]], name=path.name, wanted=wanted)


def datasets_of_files(
    parts: Sequence[Sequence[Path]], *, name: str, wanted: Wanted, notes: Sequence[str] = ()
) -> list[Dataset]:
    """The training and perhaps the test part, each from its files."""
    tables = [_table(files) for files in parts]
    for files, table in zip(parts, tables, strict=True):
        if table.num_rows == 0:
            raise NetgrainError(f"{files[0]} is empty; expected a row for each sample.")
    names = _class_names(tables[0])
    image = next((f.name for f in tables[0].schema if _holds_images(f.type)), None)
    if image is not None:
        return _pictures(tables, image, names, name=name, wanted=wanted, notes=notes)
    read = [{c: _column(table.column(c), c, name) for c in table.column_names} for table in tables]
    return wanted.sized(datasets_of_tables(read, name=name, wanted=wanted, notes=notes, classes=names))


def _table(files: Sequence[Path]) -> Any:
    """The rows of all files, one after the other."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as e:
        raise NetgrainError(
            f"reading {files[0].name} needs pyarrow, which is not installed: {install('tables')}."
        ) from e
    if (size := sum(file.stat().st_size for file in files)) > MOST_BYTES:
        raise NetgrainError(
            f"{files[0].parent} holds {size / 2**30:.0f} GiB, expected at most {MOST_BYTES / 2**30:.0f}: pass fewer "
            "files."
        )
    tables = []
    for file in files:
        try:
            if file.suffix.casefold() == ".parquet":
                tables.append(pyarrow.parquet.ParquetFile(file).read())
            else:
                tables.append(pyarrow.ipc.open_stream(pyarrow.memory_map(str(file))).read_all())
        except Exception as e:  # of the format and its compressions: many kinds
            raise NetgrainError(
                f"{file} cannot be read as {'parquet' if file.suffix == '.parquet' else 'an Arrow stream'} "
                f"({(str(e).strip() or type(e).__name__).splitlines()[0].rstrip('.')}); write it again."
            ) from e
    if any(table.schema.names != tables[0].schema.names for table in tables):
        raise NetgrainError(f"the files next to {files[0]} have different columns; expected the same in all of them.")
    try:
        return pyarrow.concat_tables(tables, promote_options="permissive")
    except Exception as e:
        raise NetgrainError(f"the files next to {files[0]} have columns of different kinds; expected the same.") from e


def _class_names(table: Any) -> dict[str, list[str]]:
    """The names behind whole-number labels by column, as `datasets` writes them into the schema."""
    try:
        info = json.loads((table.schema.metadata or {})[b"huggingface"])
        features = info["info"]["features"].items()
        return {c: list(map(str, f["names"])) for c, f in features if isinstance(f, Mapping) and "names" in f}
    except (KeyError, ValueError, TypeError, AttributeError):
        return {}


def _holds_images(kind: Any) -> bool:
    """Whether a type is that of pictures: bytes, and perhaps a path."""
    import pyarrow.types as types

    if types.is_struct(kind):
        kind = next((kind.field(i).type for i in range(kind.num_fields) if kind.field(i).name == "bytes"), None)
    return kind is not None and bool(types.is_binary(kind) or types.is_large_binary(kind))


def _column(column: Any, called: str, name: str) -> Array:
    """A column as numbers (NaN where missing), words (empty where missing), or numbers of more dimensions."""
    import pyarrow
    import pyarrow.compute as compute
    import pyarrow.types as types

    if isinstance(column.type, pyarrow.BaseExtensionType):
        column = pyarrow.chunked_array([chunk.storage for chunk in column.chunks], column.type.storage_type)
    if types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    kind = column.type
    if types.is_string(kind) or types.is_large_string(kind):
        return np.array(compute.fill_null(column, "").to_pylist(), str)
    if types.is_null(kind):
        return np.full(len(column), np.nan)
    if types.is_boolean(kind):
        column = column.cast(pyarrow.uint8())
    elif types.is_decimal(kind):
        column = column.cast(pyarrow.float64())
    if types.is_boolean(kind) or types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
        found: Array = column.to_numpy()  # NaN where missing
        return found
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        lengths = set(compute.list_value_length(column).to_pylist())
        if len(lengths) == 1 and None not in lengths and min(lengths) > 0:
            inner = _column(compute.list_flatten(column), called, name)
            return inner.reshape(len(column), min(lengths), *inner.shape[1:])
        raise NetgrainError(
            f"column '{called}' of {name} holds lists of different lengths; expected one length: pad or cut the lists, "
            "or leave the column out."
        )
    raise NetgrainError(
        f"column '{called}' of {name} holds values of the type {kind}; expected numbers, words, lists of one length or "
        "images: convert the column, or leave it out."
    )


def _pictures(
    tables: Sequence[Any],
    image: str,
    names: Mapping[str, Sequence[str]],
    *,
    name: str,
    wanted: Wanted,
    notes: Sequence[str],
) -> list[Dataset]:
    """Pictures of one column with the labels of another; other columns are left out."""
    others = [c for c in tables[0].column_names if c != image]
    label, said = label_among(others, wanted, name)
    images, labels, counts, clear = [], [], [], 0
    for table, limit in zip(tables, wanted.limits, strict=False):
        rows = chosen_indices(table.num_rows, limit, wanted.seed).tolist()
        chosen = table.take(rows)
        for row, cell in zip(rows, chosen.column(image).to_pylist(), strict=True):
            content = cell.get("bytes") if isinstance(cell, Mapping) else cell
            found = "it has no bytes" if content is None else opened(BytesIO(content))
            if isinstance(found, str):
                raise NetgrainError(f"row {row + 1} of {name} holds no image in '{image}' ({found}); drop that row.")
            images.append(sized(found[0], wanted.size))
            clear += found[1]
            check_memory(len(rows), sum(im.numel() for im in images[-1:]))
        counts.append(len(rows))
        if label is not None and wanted.target != "none":
            labels.append(_column(chosen.column(label), label, name))
    X, done = alike(images, wanted.size, deciding=counts[0])
    if clear:
        done.append(f"transparency of {clear} image{'s' * (clear > 1)} ignored")
    if left := [c for c in others if c != label]:
        done.append(f"left out: {', '.join(repr(c) for c in left[:5])}{' and others' * (len(left) > 5)}")
    classes = None
    if labels:
        y, classes = with_names(np.concatenate(labels), None if label is None else names.get(label))
        labels = np.split(y, np.cumsum(counts)[:-1])
    parts = [Part(x, labels[i] if labels else None) for i, x in enumerate(X.split(counts))]
    everything = replace(wanted, limits=(None, None))  # rows are chosen above
    return datasets_of(parts, name=name, wanted=everything, classes=classes, notes=[*notes, *done, *said])
