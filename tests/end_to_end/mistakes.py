"""The row type of the tables of mistakes, and how a row is run: in Python or as a command line."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from typer.testing import CliRunner

from netgrain import NetgrainError
from netgrain.cli import app as cli


@dataclass(frozen=True)
class Mistake:
    """One mistake that a user can make, and how it must end: in a sentence, or accepted with the right answer.

    A table is a module with `MISTAKES: tuple[Mistake, ...]` and, if its command lines need files, a function
    `prepare(folder: Path)` that writes them; every row runs inside such a folder.
    """

    name: str
    act: Callable[[], object] | None = None
    """The mistake in Python, or …"""
    argv: tuple[str, ...] | None = None
    """… on the command line, without the word netgrain."""
    says: str | None = None
    """A regular expression that the sentence must match; None if the mistake is accepted."""
    right: Callable[[object], bool] | None = None
    """Whether an accepted answer is right: of what `act` returned, or of what the command printed."""


@dataclass(frozen=True)
class Ending:
    """How a row ended: "raw" (a traceback), "clear" (a sentence), "accepted"."""

    kind: str
    text: str = ""
    answer: object = None

    def verdict(self, row: Mistake) -> str:
        """raw, clear, unclear, accepted rightly or accepted wrongly."""
        if self.kind == "raw":
            return "raw"
        if self.kind == "clear":
            return "clear" if row.says is not None and re.search(row.says, self.text) else "unclear"
        return "accepted rightly" if row.right is not None and row.right(self.answer) else "accepted wrongly"


def end(row: Mistake) -> Ending:
    """Run a row where it stands."""
    if row.argv is not None:
        return _end_of_command(row.argv)
    assert row.act is not None, f"{row.name} does nothing"
    try:
        return Ending("accepted", answer=row.act())
    except NetgrainError as e:
        return Ending("clear", str(e))
    except BaseException as e:
        return Ending("raw", f"{type(e).__name__}: {e}")


def _end_of_command(argv: tuple[str, ...]) -> Ending:
    result = CliRunner().invoke(cli.app, list(argv))
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        return Ending("raw", f"{type(result.exception).__name__}: {result.exception}")
    if result.exit_code == 0:
        return Ending("accepted", result.stderr, result.stdout)
    lines = [line for line in result.stderr.splitlines() if not line.startswith("warning: ")]
    # one line of ours, or typer's own usage lines for an option that it refuses
    ours = result.exit_code == 2 and ((len(lines) == 1 and lines[0].startswith("error: ")) or "Usage:" in result.stderr)
    return Ending("clear" if ours else "raw", " ".join(result.stderr.split()))
