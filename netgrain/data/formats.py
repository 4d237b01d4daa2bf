"""Kinds of files and folders that hold samples. A new one is a module with `read_parts`, and one row of FORMATS.

torch is loaded when something is read, so a wrong name is answered at once.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from netgrain.data.names import WRITTEN, set_named
from netgrain.runtime.errors import NetgrainError
from netgrain.runtime.files import is_file

if TYPE_CHECKING:
    from netgrain.data.dataset import Dataset
    from netgrain.data.wanted import Wanted


@dataclass(frozen=True)
class Format:
    """A kind of file or folder: how people write it, how it is told apart, and the module that reads it.

    The module has read_parts(path, wanted) → the training part, and the test part if there is one and it is wanted.
    """

    written: str
    module: str
    suffixes: tuple[str, ...] = ()  # none: a folder …
    marks: tuple[str, ...] = ()  # … with one of these files (none: any other folder)
    content: str = ""


FORMATS = (
    Format("FILE.npz", "netgrain.data.arrays", (".npz",), content="X and y"),
    Format("FILE.csv", "netgrain.data.csv_files", (".csv", ".tsv"), content="a table"),
    Format("FILE.parquet", "netgrain.data.arrow_files", (".parquet",), content="a table or images"),
    Format(
        "FOLDER/",
        "netgrain.data.arrow_folders",
        marks=("dataset_info.json", "dataset_dict.json", "*.parquet", "*/*.parquet"),
        content="saved by Hugging Face datasets, or parquet files",
    ),
    Format("FOLDER/", "netgrain.data.folders", content="images, by class or alone"),
)
HOW_TO_SAVE = "save your data with np.savez('my.npz', X=X, y=y) and pass my.npz"


def kinds() -> str:
    """What a source may be, for help texts and errors.

    >>> kinds()
    'digits, mnist, fashion-mnist, cifar10, cifar2, FILE.npz (X and y), FILE.csv (a table), ...'
    """
    *first, last = [*WRITTEN, *(f"{f.written} ({f.content})" for f in FORMATS)]
    return f"{', '.join(first)} or {last}"


def format_of(source: str | Path) -> Format | None:
    """The format of a file or folder, or None for the name of a set; anything else is refused in one sentence."""
    path, expected = path_of(source), f"expected {kinds()}"
    if _is_folder(path):
        folders = [f for f in FORMATS if not f.suffixes]
        return next(f for f in folders if not f.marks or any(next(path.glob(mark), None) for mark in f.marks))
    if str(source).endswith("/"):
        raise NetgrainError(f"there is no folder {path}; {expected}.")
    for known in FORMATS:
        if path.suffix.casefold() in known.suffixes:
            if not is_file(path):
                raise NetgrainError(f"{path} is not a file; {HOW_TO_SAVE}.")
            return known
    if is_file(path) or path.suffix:
        found = f"{path.suffix or 'this kind of'} files are not read" if is_file(path) else f"{path} is not a file"
        raise NetgrainError(f"{found}: {HOW_TO_SAVE} ({expected}).")
    set_named(str(source))
    return None


def read_parts(format_: Format, source: str | Path, wanted: Wanted) -> list[Dataset]:
    """The training part of a file or folder, and its test part if there is one and it is wanted."""
    found: list[Dataset] = importlib.import_module(format_.module).read_parts(path_of(source), wanted)
    return found


def path_of(source: str | Path) -> Path:
    """A path with ~ replaced."""
    try:
        return Path(source).expanduser()
    except RuntimeError:  # nobody's home
        return Path(source)


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except (OSError, ValueError):  # a name too long for one, or with a zero byte
        return False
