"""Files that are either whole or not there."""

from __future__ import annotations

import errno
import os
import tempfile
from pathlib import Path

from netgrain.runtime.errors import NetgrainError


def write_whole(path: str | Path, content: bytes) -> Path:
    """Write to a temporary name beside the target, flush to disk, rename; on any failure nothing is left behind."""
    path = Path(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
    except OSError as e:
        raise NetgrainError(f"cannot write {path}: {e.strerror}; choose another folder.") from e
    try:
        with os.fdopen(handle, "wb") as f:
            f.write(content)
            f.flush()
            os.fsync(f.fileno())
        Path(temporary).chmod(usual_mode())
        Path(temporary).replace(path)
    except BaseException as e:
        Path(temporary).unlink(missing_ok=True)
        if isinstance(e, OSError):
            full = e.errno in (errno.ENOSPC, errno.EDQUOT)
            what, remedy = ("the disk is full", "free some space or ") if full else (e.strerror, "")
            raise NetgrainError(
                f"cannot write {path} ({len(content) / 2**20:.1f} MiB): {what}; "
                f"{remedy}choose another folder. Nothing was left half-written."
            ) from e
        raise
    return path


def is_file(path: str | Path) -> bool:
    """Is there a file of this name? No, too, where there cannot be one: a name too long, or with a zero byte."""
    try:
        return Path(path).is_file()
    except (OSError, ValueError):
        return False


def append_line(path: Path, line: str) -> None:
    """Add a line to a small log that a reader forgives to be cut short."""
    try:
        with path.open("a") as file:
            file.write(line + "\n")
    except OSError as e:
        raise NetgrainError(f"cannot write {path}: {e.strerror}; free some space or choose another folder.") from e


def usual_mode() -> int:
    """The mode of a new file; temporary ones are for their owner alone until they are whole."""
    current = os.umask(0)
    os.umask(current)
    return 0o666 & ~current


def csv_cell(value: object) -> str:
    """A value as one cell of a CSV file: numbers as they are, text so that no spreadsheet takes it for a formula.

    >>> [csv_cell(v) for v in (-1.5, "cat", "=1+1", 'a "b", c')]
    ['-1.5', 'cat', "'=1+1", '"a ""b"", c"']
    """
    text = str(value)
    if not isinstance(value, int | float) and text.startswith(("=", "+", "-", "@", "\t", "\r")):
        text = "'" + text
    return '"' + text.replace('"', '""') + '"' if set(text) & set('",\r\n') else text
