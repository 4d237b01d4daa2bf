"""--out: a folder or a file, checked before anything is computed and written whole."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from netgrain.cli.output import as_text
from netgrain.runtime.errors import NetgrainError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# endings that nobody gives a folder; a dot alone does not make a file of it: out/run-0.5
FILES = (".csv", ".html", ".json", ".md", ".npy", ".npz", ".pdf", ".png", ".safetensors", ".svg", ".txt", ".yaml")


def is_one_file(out: Path) -> bool:
    """Whether --out names a single file rather than a folder."""
    return out.suffix.casefold() in FILES and not out.is_dir()


# --- checks -----------------------------------------------------------------------------------------------------------


def folder_or_file(*suffixes: str) -> Callable[[Path], None]:
    """The check of an --out that names a folder for everything, or one file with one of these endings."""
    return partial(_check_place, suffixes)


def file_ending_in(*suffixes: str) -> Callable[[Path], None]:
    """The check of an --out that names one file."""
    return partial(_check_file, suffixes)


def _check_place(suffixes: tuple[str, ...], out: Path) -> None:
    if not is_one_file(out):
        check_folder(out)
    elif not suffixes:
        raise NetgrainError(f"--out expects a folder, found '{out.name}'; leave {out.suffix} out.")
    elif out.suffix.casefold() not in suffixes:
        raise NetgrainError(f"--out expects a folder or a name that ends in {_either(suffixes)}, found '{out.name}'.")
    else:
        _check_file(suffixes, out)


def _check_file(suffixes: tuple[str, ...], out: Path) -> None:
    """Refuse a file that cannot be written, or is of no kind that is written here; its folder is made when it is."""
    if out.is_dir():
        raise NetgrainError(f"--out expects a file, {out} is a folder; add a name such as report{suffixes[0]}.")
    if out.suffix.casefold() not in suffixes:
        raise NetgrainError(f"--out expects a name that ends in {_either(suffixes)}, found '{out.name}'.")
    check_folder(out.absolute().parent)
    if out.exists() and not os.access(out, os.W_OK):
        raise NetgrainError(f"--out: {out} cannot be written; choose another place.")


def check_folder(out: Path) -> None:
    """Refuse a folder that cannot be written to before anything is computed."""
    if out.exists() and not out.is_dir():
        raise NetgrainError(f"--out expects a folder, {out} is a file; choose another name.")
    there = next((p for p in (out.absolute(), *out.absolute().parents) if p.exists()), Path("/"))
    if not there.is_dir():
        raise NetgrainError(f"--out expects a folder, but {there} is a file; choose another name.")
    if not os.access(there, os.W_OK | os.X_OK):
        raise NetgrainError(f"--out: {there} cannot be written to; choose another folder.")


def _either(suffixes: tuple[str, ...]) -> str:
    *others, last = suffixes
    return f"{', '.join(others)} or {last}" if others else last


# --- writing ----------------------------------------------------------------------------------------------------------


def write_all(out: Path | None, contents: Callable[[], dict[str, bytes]]) -> list[Path]:
    """Files written whole into a folder, all of them made first; of one file, the content with its ending."""
    if out is None:
        return []
    from netgrain.runtime.files import write_whole
    from netgrain.runtime.threads import one_thread

    with one_thread():  # several threads on a busy machine can be ten times slower
        made = contents()
    if is_one_file(out):
        (content,) = [made[name] for name in made if name.endswith(out.suffix.casefold())]
        return [write_whole(out, content)]
    return [write_whole(out / name, content) for name, content in made.items()]


def write_numbers(out: Path | None, document: Any) -> list[Path]:
    """The document of --json, written to a file if one was named."""
    return write_all(out, lambda: {"numbers.json": json_file(document)})


def write_figure_or_numbers(out: Path | None, figure: Callable[[], Figure], document: Any) -> list[Path]:
    """A picture or the document of --json, by the ending of the file, if one was named."""
    if out is None or out.suffix.casefold() == ".json":
        return write_numbers(out, document)
    from netgrain.geometry.plots import png

    return write_all(out, lambda: {"picture.png": png(figure())})


def json_file(document: Any) -> bytes:
    """A JSON document as a file."""
    return (as_text(document) + "\n").encode()
