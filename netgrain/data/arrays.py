"""Arrays from a user's .npy or .npz file, without unpickling anything, and FILE.npz as a data set."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from netgrain.data.dataset import Dataset, resized
from netgrain.data.in_memory import dataset_of
from netgrain.runtime.errors import NetgrainError
from netgrain.runtime.files import is_file

MOST_BYTES = 2**33  # of one array in an archive, and of all images of a folder

Array = np.ndarray[Any, Any]


def read_samples(path: Path, *, strict: bool, size: int | None, limit: int | None, seed: int) -> Dataset:
    """The samples X and labels y of an .npz file, perhaps with the names of `features`."""
    arrays = read_arrays(path, "X", "y", optional=("features",))
    data = dataset_of(arrays["X"], arrays["y"], features=arrays.get("features"), name=path.name, limit=limit, seed=seed)
    return data if size is None else resized(data, size)


def read_tensors(path: Path, *names: str) -> list[Tensor]:
    """The named arrays of an .npz file as tensors; a single one may also come alone, as .npy."""
    found = read_arrays(path, *names)
    for name, array in found.items():
        if array.dtype.kind not in "fiubc":
            raise NetgrainError(f"{path} cannot be read as numbers: the array {name} holds {array.dtype} values.")
    try:
        return [torch.from_numpy(np.ascontiguousarray(found[name])) for name in names]
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
                if len(names) > 1:
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
