"""A progress bar on the terminal for anything longer than two seconds, and silence everywhere else."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

PATIENCE = 2.0  # seconds before a bar appears


class Bar:
    """Counts finished units; total=None while the end is not known (sampling to a tolerance)."""

    def __init__(self, label: str, total: int | None, show: bool | None = None) -> None:
        self.label, self.total = label, total
        self.show = sys.stderr.isatty() if show is None else show
        self.done = 0
        self.note = ""
        self._started = time.monotonic()
        self._progress: Progress | None = None
        self._task: TaskID | None = None

    def __enter__(self) -> Bar:
        return self

    def advance(self, units: int = 1, note: str | None = None) -> None:
        self.done += units
        self.note = self.note if note is None else note
        if not self.show:
            return
        if self._progress is None and time.monotonic() - self._started > PATIENCE:
            self._open()
        if self._progress is not None and self._task is not None:
            self._progress.update(self._task, completed=self.done, note=self.note, refresh=True)

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
