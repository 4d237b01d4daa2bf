"""What every command has in common at its end: JSON or tables, errors in one sentence, exit codes."""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TextIO

import typer

from netgrain.runtime.errors import GrainWarning, NetgrainError

if TYPE_CHECKING:
    from pathlib import Path

    from rich.console import Console
    from rich.table import Table

FAILED, BAD_INPUT, INTERRUPTED = 1, 2, 130  # exit codes; FAILED: a check found something wrong
FILE_WIDTH = 170  # columns of a table where the output is not a terminal


@dataclass(frozen=True)
class Answer:
    """What a command found: a document for --json, parts to show to people, and how the command ends."""

    document: Any
    shown: Iterable[str | list[tuple[str, str]] | Table]  # text, names with values, tables; a generator makes them late
    code: int = 0
    error: str | None = None  # said last, with exit code 2: the result stands, but something is missing
    written: Iterable[str | Path] = ()

    def give(self, as_json: bool) -> None:
        """Print it, and end the command with its exit code."""
        if as_json:
            typer.echo(as_text(self.document))
        else:
            for part in (*self.shown, *(f"written: {file}" for file in self.written)):
                _print(part)
        if self.error is not None:
            raise NetgrainError(self.error)
        if self.code:
            raise typer.Exit(self.code)


def _print(part: str | list[tuple[str, str]] | Table) -> None:
    """Names and values are as wide as the terminal, also in a file."""
    if isinstance(part, str):
        typer.echo(part)
    elif isinstance(part, list):
        from rich.console import Console

        Console(highlight=False).print(plain_table(None, part))
    else:
        console().print(part)


# --- errors -----------------------------------------------------------------------------------------------------------


@contextmanager
def one_sentence_errors() -> Iterator[None]:
    """Errors made on purpose become a sentence and an exit code, warnings one line each; bugs keep their traceback."""
    with warnings.catch_warnings(), on_interrupt("nothing was written"):
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
            _end(str(e), e)
        except OSError as e:
            if e.filename is None:
                raise
            _end(f"{e.filename}: {e.strerror}; choose another file or folder.", e)
        except (MemoryError, RuntimeError) as e:
            from netgrain.runtime.memory import shortage

            if (short := shortage(e)) is None:
                raise
            _end(short, e)


@contextmanager
def on_interrupt(kept: str | Callable[[], str]) -> Iterator[None]:
    """Ctrl-C inside ends the command with a line about what was kept."""
    try:
        yield
    except KeyboardInterrupt as e:
        typer.echo(f"interrupted; {kept if isinstance(kept, str) else kept()}", err=True)
        raise typer.Exit(INTERRUPTED) from e


def _end(sentence: str, error: Exception) -> None:
    typer.echo(f"error: {_one_line(sentence)}", err=True)
    raise typer.Exit(BAD_INPUT) from error


def _one_line(text: str) -> str:
    return " ".join(text.split())


# --- printing ---------------------------------------------------------------------------------------------------------


def as_text(report: Any) -> str:
    return json.dumps(report, indent=2, ensure_ascii=False, allow_nan=False)


def console() -> Console:
    """A console as wide as the terminal, or FILE_WIDTH in a file."""
    from rich.console import Console

    return Console(highlight=False, width=None if sys.stdout.isatty() else FILE_WIDTH)


def plain_table(
    columns: Sequence[str] | None,
    rows: Iterable[Sequence[str]],
    *,
    no_wrap: Sequence[str] = (),
    right: Sequence[str] = (),
) -> Table:
    """A table without lines; what stands in it is text, never markup. columns=None: no header, the first in bold."""
    from rich.table import Table
    from rich.text import Text

    cells = [[Text(cell) for cell in row] for row in rows]
    table = Table(box=None, show_header=columns is not None, pad_edge=False, padding=(0, 2, 0, 0))
    if columns is None:
        table.add_column(style="bold", no_wrap=True)
        for _ in range(1, max(map(len, cells), default=1)):
            table.add_column(overflow="fold")
    for column in columns or ():
        table.add_column(column, no_wrap=column in no_wrap, justify="right" if column in right else "left")
    for row in cells:
        table.add_row(*row)
    return table
