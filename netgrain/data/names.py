"""What --data may name, known without loading torch: a wrong name or a missing file is answered at once."""

from __future__ import annotations

from pathlib import Path

from netgrain.runtime.errors import NetgrainError, known_name
from netgrain.runtime.files import is_file

SETS = {
    "digits": "digits",
    "mnist": "MNIST",
    "fashionmnist": "Fashion-MNIST",
    "cifar10": "CIFAR-10",
    "cifar2": "CIFAR-2",
}  # how a name is written in code, without marks between its words → how its authors write it
HOW_TO_SAVE = "save your data with np.savez('my.npz', X=X, y=y) and pass --data my.npz"


def set_named(name: str) -> str:
    """The key in SETS of a name as a user writes it.

    >>> set_named("Fashion-MNIST")
    'fashionmnist'
    """
    key = name.lower().replace("-", "").replace("_", "").replace(" ", "")
    return known_name("data set", key, SETS)


def check_source(data: str, *, folders: bool) -> None:
    """Refuse what --data cannot mean: neither a known name nor a FILE.npz (or a folder, where these are read)."""
    try:
        path = Path(data).expanduser()
        folder = path.is_dir()
    except (OSError, RuntimeError, ValueError):  # a name too long for one, with a zero byte, or of nobody's home
        path, folder = Path(data), False
    if folder or data.endswith("/"):
        if not folder:
            raise NetgrainError(f"--data: there is no folder {path}; expected one with a folder for each class.")
        if not folders:
            raise NetgrainError(f"--data expects a name or FILE.npz here, {path} is a folder; {HOW_TO_SAVE}.")
        return
    if path.suffix.casefold() == ".npz":
        if not is_file(path):
            raise NetgrainError(f"--data: {path} is not a file; {HOW_TO_SAVE}.")
        return
    if is_file(path) or path.suffix:
        found = f"{path.suffix or 'this kind of'} files are not read" if is_file(path) else f"{path} is not a file"
        kinds = "a name, FILE.npz or FOLDER/" if folders else "a name or FILE.npz"
        raise NetgrainError(f"--data expects {kinds}; {found}: {HOW_TO_SAVE}.")
    set_named(data)
