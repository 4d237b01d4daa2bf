"""How a model is written as text, known without torch: a wrong name is answered at once."""

from __future__ import annotations

import re
from pathlib import Path

from netgrain.runtime.errors import NetgrainError, did_you_mean
from netgrain.runtime.files import is_file

BUILTIN_NAMES = ("mlp", "lenet", "smalllenet", "vgg11", "resnet18", "vit")
TIMM = "timm"  # the prefix of timm's own names
FILE = re.compile(r"(?P<file>.+?\.py)(:(?P<name>[^:=,]*))?(:(?P<options>.*))?")
MODULE = re.compile(r"(?P<module>[A-Za-z_]\w*(\.[A-Za-z_]\w*)*):(?P<name>[^:=,]*)(:(?P<options>.*))?")


def check_name(spec: str, base: Path) -> None:
    """Refuse a text that can be no model: no built-in name, no file that is there, no name in it, no module.

    >>> check_name("resnet18:width=0.5", Path())
    """
    head = spec.partition(":")[0].strip()
    if head.casefold() in (*BUILTIN_NAMES, TIMM):
        return
    if match := FILE.fullmatch(spec):
        file = path_of(match["file"], base)
        _check_named(spec, match["file"], match["name"])
        if not is_file(file):
            raise NetgrainError(no_file(match["file"], file))
        return
    if match := MODULE.fullmatch(spec):
        _check_named(spec, match["module"], match["name"])
        return
    raise NetgrainError(
        f"There is no built-in model called {head!r}.{did_you_mean(head, BUILTIN_NAMES)} Known models: "
        f"{', '.join(BUILTIN_NAMES)}; your own is written path/file.py:name or package.module:name."
    )


def path_of(text: str, base: Path) -> Path:
    """The file that a text names, seen from a folder."""
    try:
        return (base / Path(text).expanduser()).resolve()
    except (ValueError, RuntimeError, OSError) as e:  # a zero byte, nobody's home, links in a circle
        raise NetgrainError(f"{text!r} cannot be the path of a file ({e}): check how it is written.") from e


def _check_named(spec: str, source: str, name: str | None) -> None:
    if not name:
        raise NetgrainError(
            f"{spec!r} names {source!r} but no model in it: write {source}:NAME with the class or function "
            "that returns the model."
        )


def no_file(written: str, file: Path) -> str:
    """What to say of a file that is not there."""
    try:
        beside = [other.name for other in file.parent.glob("*.py")]
    except OSError:  # a name too long for a folder
        beside = []
    return (
        f"There is no file {written!r} (looked for {file}).{did_you_mean(file.name, beside)} "
        "Check the path, or the folder you are in."
    )
