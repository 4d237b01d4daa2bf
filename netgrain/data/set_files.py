"""Where the files of the named image sets lie.

They are looked for in `data_dir`, then in $NETGRAIN_DATA, then in the cache folder; each may be the folder of the set
itself or hold it (`cifar-10-batches-bin`, `cifar-10-batches-py`, `mnist`, `fashion-mnist`).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from netgrain.data.download import fetch
from netgrain.data.names import SETS
from netgrain.runtime.environment import environment
from netgrain.runtime.errors import NetgrainError

DEBIAN = Path("/usr/share/datasets")  # where the package dataset-fashion-mnist puts its files

FileNames = Sequence[tuple[str, ...]]  # for each file the names it may have

_IDX: FileNames = [
    (f"{stem}-{kind}", f"{stem}-{kind}.gz", f"{stem}.{kind}", f"{stem}.{kind}.gz")
    for stem, kind in (
        ("train-images", "idx3-ubyte"),
        ("train-labels", "idx1-ubyte"),
        ("t10k-images", "idx3-ubyte"),
        ("t10k-labels", "idx1-ubyte"),
    )
]


_BATCHES = ("data_batch_1", "data_batch_2", "data_batch_3", "data_batch_4", "data_batch_5", "test_batch")


@dataclass(frozen=True)
class _Place:
    """Where the files of a set may lie."""

    folders: dict[str, FileNames]  # folder name → its files; the first is the one that is downloaded
    packaged: bool = False  # DEBIAN is looked at, too
    avoid: str | None = None  # a word in the name of a folder that holds another set


_PLACES = {
    "mnist": _Place({"mnist": _IDX, "MNIST/raw": _IDX}, avoid="fashion"),
    "fashionmnist": _Place({"fashion-mnist": _IDX, "FashionMNIST/raw": _IDX}, packaged=True),
    "cifar10": _Place(
        {
            "cifar-10-batches-bin": [(f"{name}.bin",) for name in _BATCHES],
            "cifar-10-batches-py": [(name,) for name in _BATCHES],
        }
    ),
}


def cache_folder() -> Path:
    """Where downloads go when no other folder is named: $XDG_CACHE_HOME/netgrain or ~/.cache/netgrain."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "netgrain"


@contextmanager
def looking_in(data_dir: str | Path | None) -> Iterator[None]:
    """Look for named sets in this folder first, inside a with block.

    Parameters
    ----------
    data_dir : str, Path or None
        The folder; None changes nothing.

    Yields
    ------
    None
        Nothing; the folder is used until the block ends.

    Raises
    ------
    NetgrainError
        If `data_dir` is not a folder.
    """
    if data_dir is None:
        yield
        return
    if not Path(data_dir).is_dir():
        raise NetgrainError(f"data_dir '{data_dir}' is not a folder; expected one that holds data sets.")
    with environment({"NETGRAIN_DATA": str(Path(data_dir).absolute())}):
        yield


def set_files(key: str, data_dir: str | Path | None, *, download: bool) -> list[Path]:
    """The files of a set in the first folder that has them all."""
    title, place = SETS[key], _PLACES[key]
    if data_dir is not None and not download and not Path(data_dir).is_dir():
        raise NetgrainError(f"data_dir '{data_dir}' is not a folder; expected one that holds {title}.")
    given = os.environ.get("NETGRAIN_DATA")
    roots = [Path(data_dir)] if data_dir is not None else []
    roots += [Path(given)] if given else []
    roots.append(cache_folder())
    lacking = ""
    for root in (*roots, *([DEBIAN] if place.packaged else [])):
        for name, wanted in place.folders.items():
            for folder in (root / name, root):
                if place.avoid is not None and place.avoid in folder.resolve().name.lower():
                    continue
                files = [next((folder / n for n in names if (folder / n).is_file()), None) for names in wanted]
                there = [file for file in files if file is not None]
                if len(there) == len(wanted):
                    return there
                if there and not lacking:
                    lost = next(names for file, names in zip(files, wanted, strict=True) if file is None)
                    lacking = f"; {folder} has a part of it but not {lost[0]}"
    if download:
        return set_files(key, fetch(next(iter(place.folders)), roots[0]), download=False)
    raise NetgrainError(
        f"{title} was not found (looked in {', '.join(map(str, roots))}{lacking}); pass data_dir= (--data-dir) a "
        f"folder that holds {' or '.join(n for n in place.folders if '/' not in n)}, set NETGRAIN_DATA to it, or fetch "
        f"it with {bringing(key)}."
    )


def bringing(key: str) -> str:
    """The command that downloads a set."""
    return f"python -c \"from netgrain.data import load; load('{key}', download=True)\""
