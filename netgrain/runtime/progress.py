"""Progress of anything longer than a few seconds: a bar on a terminal, lines in a command's pipe, else silence."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from types import TracebackType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

PATIENCE = 2.0  # seconds before a bar appears
FIRST_LINE, NEXT_LINE = 10.0, 30.0  # seconds before the first line, and between two
_lines_of: int | None = None  # the process that writes lines where there is no terminal


@contextmanager
def lines_in_pipes() -> Iterator[None]:
    """Inside, progress is written as lines where stderr is no terminal; not by the workers that are started there."""
    global _lines_of
    _lines_of, before = os.getpid(), _lines_of
    try:
        yield
    finally:
        _lines_of = before


class Bar:
    """Counts finished units; total=None while the end is not known (sampling to a tolerance)."""

    def __init__(self, label: str, total: int | None, show: bool | None = None) -> None:
        self.label, self.total = label, total
        self.terminal = _on_terminal()
        self.show = self.terminal or _lines_of == os.getpid() if show is None else show
        self.done = 0
        self.note = ""
        self._started = time.monotonic()
        self._next_line = self._started + FIRST_LINE
        self._progress: Progress | None = None
        self._task: TaskID | None = None

    def __enter__(self) -> Bar:
        return self

    def advance(self, units: int = 1, note: str | None = None) -> None:
        self.done += units
        self.note = self.note if note is None else note
        if not self.show:
            return
        if not self.terminal:
            self._line()
            return
        if self._progress is None and time.monotonic() - self._started > PATIENCE:
            self._open()
        if self._progress is not None and self._task is not None:
            self._progress.update(self._task, completed=self.done, note=self.note, refresh=True)

    def _line(self) -> None:
        """What is done, as one line, if the last one was some time ago."""
        now = time.monotonic()
        if now < self._next_line:
            return
        self._next_line = now + NEXT_LINE
        count = f"{self.done}" if self.total is None else f"{self.done} of {self.total}"
        note = f" ({self.note})" if self.note else ""
        parts = [f"{self.label}: {count}{note}", f"{_clock(now - self._started)} so far"]
        if self.total is not None and 0 < self.done < self.total:
            parts.append(f"about {_clock((now - self._started) * (self.total - self.done) / self.done)} left")
        sys.stderr.write(", ".join(parts) + "\n")
        sys.stderr.flush()

    def _open(self) -> None:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )

        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[note]}"),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
        )
        # no refresh thread: this process may fork workers later
        self._progress = Progress(*columns, console=Console(stderr=True), transient=True, auto_refresh=False)
        self._progress.start()
        self._task = self._progress.add_task(self.label, total=self.total, note=self.note)

    def __exit__(self, kind: type[BaseException] | None, e: BaseException | None, trace: TracebackType | None) -> None:
        if self._progress is not None:
            self._progress.stop()


def _on_terminal() -> bool:
    """Whether stderr can redraw a line."""
    return sys.stderr.isatty() and os.environ.get("TERM") != "dumb"


def _clock(seconds: float) -> str:
    return str(timedelta(seconds=round(seconds)))
