"""The user's own Python code: a file or a module, loaded without leaving traces in the import path."""

import contextlib
import hashlib
import importlib
import importlib.util
import re
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

from netgrain.runtime.errors import NetgrainError, did_you_mean
from netgrain.runtime.files import is_file

# The modules each folder brought along, by name. Two folders may both have a `helper.py`.
_brought: dict[Path, dict[str, ModuleType]] = {}


@contextlib.contextmanager
def importable(folder: Path) -> Iterator[None]:
    """Inside, Python looks for modules in `folder` too; afterwards the import path is as before.

    It looks there last: a `json.py` or `torch.py` beside a model must not stand in for the real one.
    A module that another folder brought along under a name that `folder` has too is set aside, so that
    `a/model.py` and `b/model.py` each get the `helper.py` beside them.
    """
    for other, modules in _brought.items():
        for name in [n for n in modules if other != folder and _places(folder, n)]:
            if sys.modules.get(name) is modules[name]:
                del sys.modules[name]
    own = _brought.setdefault(folder, {})
    for name, module in own.items():
        sys.modules.setdefault(name, module)
    before = set(sys.modules)
    added = str(folder) not in sys.path
    if added:
        sys.path.append(str(folder))
    try:
        yield
    finally:
        with contextlib.suppress(ValueError):  # the user's code may have changed the path itself
            if added:
                sys.path.remove(str(folder))
        for name in sys.modules.keys() - before:
            top = name.partition(".")[0]
            if (top in own or top not in before) and _is_from(folder, sys.modules[name], name):
                own[name] = sys.modules[name]


def _places(folder: Path, name: str) -> list[Path]:
    """Where `folder` keeps the top of a dotted module name: a package, a file, or nowhere."""
    top = name.partition(".")[0]
    return [place for place in (folder / top, folder / f"{top}.py") if place.exists()]


def _is_from(folder: Path, module: ModuleType, name: str) -> bool:
    file = getattr(module, "__file__", None)  # None for a package without __init__.py
    return any(file is None or Path(file).is_relative_to(place) for place in _places(folder, name))


def module_from_file(file: Path, written: str) -> ModuleType:
    """The module in a file, under a name made of the file's path and contents.

    The same file with the same contents is the same module, in every process. `written` is the path as the
    user wrote it, for the sentence that says what is wrong.
    """
    if not is_file(file):
        raise NetgrainError(no_file(written, file))
    source = file.read_bytes()
    digest = hashlib.sha256(str(file).encode() + b"\0" + source).hexdigest()[:12]
    name = f"netgrain_user_{re.sub(r'[^0-9A-Za-z_]', '_', file.stem)}_{digest}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None:
        raise NetgrainError(f"{written!r} is not a Python file: give the path of a file that ends in .py.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and pickle look their module up while it is still loading
    importlib.invalidate_caches()
    try:
        with importable(file.parent):
            # Compiled from the source: Python's cached bytecode is stale for a file edited twice in a second.
            exec(compile(source, str(file), "exec"), vars(module))
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        raise _import_failed(written, str(file), error) from error
    except BaseException:
        del sys.modules[name]
        raise
    return module


def module_by_name(name: str, folder: Path, known: tuple[str, ...]) -> ModuleType:
    """The module with a dotted name, looked for where Python finds installed packages and then in `folder`.

    `known` are words the user may have meant instead.
    """
    importlib.invalidate_caches()
    try:
        with importable(folder):
            return importlib.import_module(name)
    except (Exception, SystemExit) as error:
        missing = error.name if isinstance(error, ModuleNotFoundError) else None
        if missing is not None and f"{name}.".startswith(f"{missing}."):
            raise NetgrainError(
                f"There is no module {name!r} in {folder} or among the installed packages "
                f"(Python found no {missing!r}).{did_you_mean(name, known)} "
                "A file is written path/file.py:name."
            ) from error
        raise _import_failed(name, None, error) from error


def _import_failed(written: str, file: str | None, error: BaseException) -> NetgrainError:
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
    where = f", line {lines[-1]}" if lines else ""
    hint = "Correct the code and try again"
    if "relative import" in str(error):
        hint = "A file inside a package is written package.module:name"
    return NetgrainError(f"{written!r} could not be imported ({type(error).__name__}: {error}{where}). {hint}.")


def path_of(text: str, base: Path) -> Path:
    """The file that a text names, seen from a folder."""
    try:
        return (base / Path(text).expanduser()).resolve()
    except (ValueError, RuntimeError, OSError) as e:  # a zero byte, nobody's home, links in a circle
        raise NetgrainError(f"{text!r} cannot be the path of a file ({e}): check how it is written.") from e


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
