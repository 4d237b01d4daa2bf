"""Arrays from a user's .npy or .npz file, without unpickling anything, and FILE.npz as a data set."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from netgrain.data.dataset import Dataset
from netgrain.data.in_memory import Part, datasets_of
from netgrain.data.wanted import Wanted
from netgrain.runtime.errors import NetgrainError
from netgrain.runtime.files import is_file

MOST_BYTES = 2**33  # of one array in an archive, and of all images of a folder

LABELS = ("y", "label", "labels", "target", "targets")  # what arrays of labels are called, in any case

Array = np.ndarray[Any, Any]


def read_parts(path: Path, wanted: Wanted) -> list[Dataset]:
    """The samples X and labels y of an .npz file, of both parts or alone, perhaps with the names of `features`."""
    names = _names(path, wanted.label)
    used = [name for pair in names for name in pair if name is not None]
    arrays = read_arrays(path, *used, optional=("features",))
    parts = [Part(arrays[X], None if y is None else arrays[y]) for X, y in names]
    notes = [] if len(parts) == 1 else [f"training part, {names[1][0]} is left for testing"]
    found = datasets_of(
        parts if wanted.test else parts[:1],
        name=path.name,
        wanted=wanted,
        features=arrays.get("features"),
        notes=[] if wanted.test else notes,
    )
    return wanted.sized(found)


def _names(path: Path, label: str | None) -> list[tuple[str, str | None]]:
    """The arrays of samples and labels: of the training part, and of the test part if there is one."""
    there = {name.casefold(): name for name in array_names(path)}
    if "x_train" not in there or "x" in there:
        y = label if label is not None else next((there[name] for name in LABELS if name in there), None)
        return [(there.get("x", "X"), y)]
    if label is not None:
        raise NetgrainError(f"{path} has y_train and y_test, so label '{label}' does not apply; leave it out.")
    train = there["x_train"], there.get("y_train")
    return [train, (there["x_test"], there.get("y_test"))] if "x_test" in there else [train]


def array_names(path: Path) -> list[str]:
    """The names of the arrays of an .npz file; none where it is no archive (`read_arrays` says why)."""
    try:
        with path.open("rb") as file:
            content = np.load(file, allow_pickle=False)
            return [] if isinstance(content, np.ndarray) else list(content.files)
    except Exception:
        return []


def read_tensors(path: Path, *names: str) -> list[Tensor]:
    """The named arrays of an .npz file as tensors; a single one may also come alone, as .npy."""
    found = read_arrays(path, *names)
    for name, array in found.items():
        if array.dtype.kind not in "fiubc":
            raise NetgrainError(f"{path} cannot be read as numbers: the array {name} holds {array.dtype} values.")
    try:
        native = (np.ascontiguousarray(array, array.dtype.newbyteorder("=")) for array in found.values())
        return [torch.from_numpy(array) for array in native]
    except TypeError as e:  # a width that torch does not have
        raise NetgrainError(f"{path} cannot be read as numbers ({e}); save them as float32.") from e


def read_arrays(path: Path, *names: str, optional: tuple[str, ...] = ()) -> dict[str, Array]:
    """The named arrays of an .npz file and those optional ones that are there; a single one may also be an .npy."""
    saved = f"np.savez(file, {', '.join(f'{name}={name}' for name in names)})"
    expected = f"a file of {saved}" + (", or .npy" if len(names) == 1 else "")
    if not is_file(path):
        raise NetgrainError(f"{path} is not a file; expected {expected}.")
    try:
        # opened here: numpy leaves a file open that turns out to be no archive
        with path.open("rb") as file:
            content = np.load(file, allow_pickle=False)
            if isinstance(content, np.ndarray):
                if len(names) > 1 or path.suffix.casefold() == ".npz":
                    raise NetgrainError(f"{path} has one array, not {' and '.join(names)}; save it with {saved}.")
                return {names[0]: content}
            if missing := [name for name in names if name not in content.files]:
                raise NetgrainError(
                    f"{path} has no array {' and no array '.join(missing)} (arrays found: "
                    f"{', '.join(content.files) or 'none'}); save it with {saved}."
                )
            check_sizes(content, path)
            return {name: _read(content, name, path) for name in (*names, *optional) if name in content.files}
    except NetgrainError:
        raise
    except Exception as e:  # of NumPy's header, the archive and its four compressions: many kinds
        raise NetgrainError(f"{path} cannot be read as arrays ({_reason(e)}); expected {expected}.") from e


def check_sizes(archive: Any, path: Path) -> None:
    """Refuse an .npz file whose arrays unpack to more than MOST_BYTES, before anything is unpacked."""
    for member in archive.zip.infolist():
        if member.file_size > MOST_BYTES:
            raise NetgrainError(
                f"{path} has an array '{member.filename.removesuffix('.npy')}' of {member.file_size / 2**30:.3g} GiB; "
                f"expected at most {MOST_BYTES / 2**30:.0f} GiB: save fewer samples, or with fewer digits."
            )


def _read(content: Any, name: str, path: Path) -> Array:
    try:
        array: Array = content[name]
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


def _reason(e: Exception) -> str:
    return (
        "it is damaged or holds Python objects, which are not unpickled"
        if "pickle" in str(e)
        else str(e).strip() or type(e).__name__
    )
