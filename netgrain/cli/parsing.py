"""From what the user wrote to objects: sizes, outputs, probes, families, engines."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from netgrain.models.specs import is_builtin
from netgrain.runtime.arguments import MOST_INPUTS
from netgrain.runtime.errors import NetgrainError

if TYPE_CHECKING:
    from netgrain.families.members import Family
    from netgrain.families.outputs import Output
    from netgrain.families.probes import Probe
    from netgrain.runtime.units import Engine


def parse_input(text: str) -> tuple[int, ...]:
    """1x32x32 → (1, 32, 32).

    >>> parse_input("1x32x32"), parse_input("20")
    ((1, 32, 32), (20,))
    """
    if not re.fullmatch(r"[1-9]\d{0,8}([x×][1-9]\d{0,8})*", text.strip().casefold()):
        raise NetgrainError(
            f"--input expects positive sizes joined by x, as in 1x32x32 or 20, of at most nine digits; found '{text}'."
        )
    sizes = tuple(int(size) for size in re.split("[x×]", text.strip().casefold()))
    if math.prod(sizes) > MOST_INPUTS:
        raise NetgrainError(f"--input {text} has {math.prod(sizes):.2g} values; expected at most {MOST_INPUTS:.0e}.")
    return sizes


def parse_output(text: str) -> Output:
    """
    >>> parse_output("mean"), parse_output("3"), parse_output("diff:0,1")
    ('mean', 3, ('diff', 0, 1))
    """
    if text in ("all", "mean"):
        return text
    if re.fullmatch(r"\d{1,9}", text):
        return int(text)
    if match := re.fullmatch(r"diff:(\d{1,9}),(\d{1,9})", text):
        return "diff", int(match[1]), int(match[2])
    raise NetgrainError(f"--output expects all, mean, an index as in 3, or diff:0,1; found '{text}'.")


def parse_probe(text: str) -> Probe | None:
    """A probe from its name, or data:FILE (.npy, or .npz with an array X)."""
    from netgrain.data.arrays import read_tensors
    from netgrain.families.probes import Data, probe_named

    kind, _, value = text.partition(":")
    if kind == "data" and value:
        return Data(read_tensors(Path(value), "X")[0], name=Path(value).name)
    return probe_named(text)


def check_share(keep: float) -> None:
    if not 0 < keep <= 1:
        raise NetgrainError(f"--keep expects a share in (0, 1], found {keep:g}.")


def family_from_text(spec: str, sizes: tuple[int, ...], outputs: int | None = None) -> Family:
    """The model with the sizes of the input (and its outputs) filled in, built once: what is wrong is said first."""
    from netgrain.models.specs import load_model
    from netgrain.runtime.memory import shortage

    square = len(sizes) == 3 and sizes[1] == sizes[2]
    builtin = is_builtin(spec)
    table = len(sizes) == 1
    if builtin and not square and not (table and spec.partition(":")[0].strip().casefold() == "mlp"):
        found = f"a table of {sizes[0]} features" if table else "x".join(map(str, sizes))
        raise NetgrainError(
            f"'{spec}' expects square images, as in --input 1x32x32; found {found}. "
            f"{'For tables take mlp, or' if table else 'For other inputs'} give a model of your own, as "
            "path/file.py:name."
        )
    make = load_model(
        spec,
        channels=sizes[0] if len(sizes) == 3 else None,
        image_size=sizes[1] if square else None,
        features=sizes[0] if table else None,
        outputs=outputs,
    )
    try:
        if builtin:
            _check_weights(spec, make)
        make()
    except NetgrainError:
        raise
    except (Exception, SystemExit) as e:  # the user's own code may raise anything
        if short := shortage(e):
            raise NetgrainError(f"'{spec}' could not be built: {short}") from e
        raise NetgrainError(
            f"'{spec}' could not be built ({type(e).__name__}: {e}); check its options and its code."
        ) from e
    return make


def _check_weights(spec: str, make: Family) -> None:
    """Memory is promised generously, and then the system ends who uses it: better to count first."""
    from netgrain.runtime.memory import free_memory, in_words, weights_in_bytes

    if (needed := weights_in_bytes(make)) > (free := free_memory()):
        raise NetgrainError(
            f"the weights of '{spec}' take {in_words(needed)} for this input, {in_words(free)} of memory are free; "
            "choose a smaller width, depth or input."
        )


def source_of(make: Family) -> str | None:
    """What the file of a user's model is now: members of two versions of it are not mixed."""
    import inspect

    try:
        return digest_of(inspect.getsourcefile(getattr(make, "make", make)) or "")
    except TypeError:
        return None


def digest_of(file: str) -> str | None:
    """The hash of a file's content; None if it cannot be read."""
    import hashlib

    try:
        return hashlib.sha256(Path(file).read_bytes()).hexdigest()[:16]
    except (OSError, ValueError):
        return None


def engine_of_the_run() -> Engine:
    """The engine that was asked for, else forked processes."""
    from netgrain.runtime.engine_in_use import current
    from netgrain.runtime.processes import Processes

    return current() or Processes()


@contextmanager
def resumable(folder: Path | None, about: dict[str, Any], resume: bool) -> Iterator[Any]:
    """Inside, units that are finished are kept in this folder (None: they are not)."""
    if folder is None:
        yield None
        return
    from netgrain.runtime.engine_in_use import using
    from netgrain.runtime.runners import ResumableEngine

    keeping = ResumableEngine(folder, "geometry", about, engine_of_the_run(), resume=resume)
    try:
        with using(keeping):
            yield keeping
    finally:
        keeping.close()
