"""What every command shares: reading what the user wrote, saying what went wrong, printing."""

from __future__ import annotations

import json
import math
import os
import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer

from netgrain.data.sources import format_of, kinds
from netgrain.models.specs import check_name, is_builtin
from netgrain.runtime.arguments import MOST_INPUTS
from netgrain.runtime.errors import GrainWarning, NetgrainError

if TYPE_CHECKING:
    from netgrain.families.members import Family
    from netgrain.families.probes import Probe

BAD_INPUT, INTERRUPTED = 2, 130  # exit codes; 1: a check of the doctor failed


def known_model(written: str | list[str]) -> str | list[str]:
    """The models of a command line, refused before torch is loaded if they cannot be any."""
    with one_sentence_errors():
        for spec in [written] if isinstance(written, str) else written or []:
            check_name(spec, Path.cwd())
    return written


# options that several commands share
Model = Annotated[
    str,
    typer.Argument(
        metavar="MODEL", help="The family of networks, as in `netgrain geometry --help`.", callback=known_model
    ),
]
DataOption = Annotated[
    str,
    typer.Option(
        "--data",
        metavar="DATA",
        help=f"{kinds()}.",
        callback=lambda data: source_given(data),
    ),
]
DataDir = Annotated[
    Path | None, typer.Option(metavar="DIR", help="Where the files of the data set are.", show_default=False)
]
Download = Annotated[bool, typer.Option("--download", help="Fetch the data set if it is not there.")]
Size = Annotated[
    int | None, typer.Option(metavar="N", help="Average the images down to N x N first.", show_default=False)
]
Limit = Annotated[int | None, typer.Option(metavar="N", help="Use N random training samples only.", show_default=False)]
Seed = Annotated[int, typer.Option(metavar="SEED", help="The same seed gives the same result.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")]


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


def family_from_text(spec: str, sizes: tuple[int, ...], outputs: int | None = None) -> Family:
    """The model with the sizes of the input (and its outputs) filled in, built once: what is wrong is said first."""
    from netgrain.models.specs import load_model
    from netgrain.runtime.memory import shortage

    square = len(sizes) == 3 and sizes[1] == sizes[2]
    builtin = is_builtin(spec)
    if builtin and not square:
        raise NetgrainError(
            f"'{spec}' expects square images, as in --input 1x32x32; found {'x'.join(map(str, sizes))}. "
            "For other inputs give a model of your own, as path/file.py:name."
        )
    family_from_text = load_model(
        spec,
        channels=sizes[0] if len(sizes) == 3 else None,
        image_size=sizes[1] if square else None,
        outputs=outputs,
    )
    try:
        if builtin:
            _check_weights(spec, family_from_text)
        family_from_text()
    except NetgrainError:
        raise
    except (Exception, SystemExit) as e:  # the user's own code may raise anything
        if short := shortage(e):
            raise NetgrainError(f"'{spec}' could not be built: {short}") from e
        raise NetgrainError(
            f"'{spec}' could not be built ({type(e).__name__}: {e}); check its options and its code."
        ) from e
    return family_from_text


def _check_weights(spec: str, family_from_text: Family) -> None:
    """Memory is promised generously, and then the system ends who uses it: better to count first."""
    from netgrain.runtime.memory import free_memory, in_words, weights_in_bytes

    if (needed := weights_in_bytes(family_from_text)) > (free := free_memory()):
        raise NetgrainError(
            f"the weights of '{spec}' take {in_words(needed)} for this input, {in_words(free)} of memory are free; "
            "choose a smaller width, depth or input."
        )


@contextmanager
def one_sentence_errors(interrupted: str | Callable[[], str] = "nothing was written") -> Iterator[None]:
    """Errors made on purpose become a sentence and an exit code, warnings one line each; bugs keep their traceback."""
    with warnings.catch_warnings():
        warnings.simplefilter("always", GrainWarning)
        others = warnings.showwarning

        def show(
            message: Warning | str,
            category: type[Warning],
            filename: str,
            lineno: int,
            file: TextIO | None = None,
            line: str | None = None,
        ) -> None:
            if issubclass(category, GrainWarning):
                typer.echo(f"warning: {_one_line(str(message))}", err=True)
            else:
                others(message, category, filename, lineno, file, line)

        warnings.showwarning = show
        try:
            yield
        except NetgrainError as e:
            typer.echo(f"error: {_one_line(str(e))}", err=True)
            raise typer.Exit(BAD_INPUT) from e
        except OSError as e:
            if e.filename is None:
                raise
            typer.echo(f"error: {_one_line(str(e.filename))}: {e.strerror}; choose another file or folder.", err=True)
            raise typer.Exit(BAD_INPUT) from e
        except (MemoryError, RuntimeError) as e:
            from netgrain.runtime.memory import shortage

            if (short := shortage(e)) is None:
                raise
            typer.echo(f"error: {short}", err=True)
            raise typer.Exit(BAD_INPUT) from e
        except KeyboardInterrupt as e:
            typer.echo(f"interrupted; {interrupted if isinstance(interrupted, str) else interrupted()}", err=True)
            raise typer.Exit(INTERRUPTED) from e


def _one_line(text: str) -> str:
    return " ".join(text.split())


def check_folder(out: Path) -> None:
    """Refuse a folder that cannot be written to before anything is computed."""
    if out.exists() and not out.is_dir():
        raise NetgrainError(f"--out expects a folder, {out} is a file; choose another name.")
    there = next((p for p in (out.absolute(), *out.absolute().parents) if p.exists()), Path("/"))
    if not there.is_dir():
        raise NetgrainError(f"--out expects a folder, but {there} is a file; choose another name.")
    if not os.access(there, os.W_OK | os.X_OK):
        raise NetgrainError(f"--out: {there} cannot be written to; choose another folder.")


def source_given(data: str) -> str:
    """--data as it was written, looked at while the command line is read: before torch is loaded."""
    with one_sentence_errors():
        format_of(data)
    return data


def check_file(out: Path, *suffixes: str, new_folder: bool = False) -> None:
    """Refuse a file that cannot be written, or is of no kind that is written here, before anything is computed."""
    if out.is_dir():
        raise NetgrainError(f"--out expects a file, {out} is a folder; add a name such as report{suffixes[0]}.")
    if out.suffix.casefold() not in suffixes:
        raise NetgrainError(f"--out expects a name that ends in {' or '.join(suffixes)}, found '{out.name}'.")
    folder = out.absolute().parent
    if new_folder and not folder.exists():
        check_folder(folder)
        return
    if not folder.is_dir():
        raise NetgrainError(f"--out: there is no folder {folder}; make it first, or choose another place.")
    if not os.access(folder, os.W_OK | os.X_OK) or (out.exists() and not os.access(out, os.W_OK)):
        raise NetgrainError(f"--out: {out} cannot be written; choose another place.")


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


@contextmanager
def resumable(folder: Path | None, about: dict[str, Any], resume: bool) -> Iterator[Any]:
    """Inside, units that are finished are kept in this folder (None: they are not)."""
    if folder is None:
        yield None
        return
    from netgrain.runtime.engine_in_use import current, using
    from netgrain.runtime.processes import Processes
    from netgrain.runtime.run_folder import ResumableEngine

    keeping = ResumableEngine(folder, "geometry", about, current() or Processes(), resume=resume)
    try:
        with using(keeping):
            yield keeping
    finally:
        keeping.close()


def as_text(report: Any) -> str:
    return json.dumps(report, indent=2, ensure_ascii=False, allow_nan=False)


def print_rows(rows: list[tuple[str, str]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in rows:
        table.add_row(Text(name), Text(value))
    Console(highlight=False).print(table)


def parse_probe(text: str) -> Probe | None:
    """A probe from its name, or data:FILE (.npy, or .npz with an array X)."""
    from netgrain.data.arrays import read_tensors
    from netgrain.families.probes import Data, probe_named

    kind, _, value = text.partition(":")
    if kind == "data" and value:
        return Data(read_tensors(Path(value), "X")[0], name=Path(value).name)
    return probe_named(text)
