"""Progress: silence unless it is asked for and the work is long, a bar on a terminal, lines elsewhere."""

import io
import os
import re
import sys

import pytest

from netgrain.runtime import progress
from netgrain.runtime.progress import Bar, lines_in_pipes


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.quick
def test_a_bar_appears_only_on_a_terminal_and_only_when_it_takes_long(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("TERM", "xterm"), ("COLUMNS", "120")):
        monkeypatch.setenv(name, value)
    for stream, show, patience, appears in (
        (io.StringIO(), None, -1.0, False),
        (Terminal(), None, -1.0, True),
        (Terminal(), False, -1.0, False),
        (Terminal(), True, 3600.0, False),
        (Terminal(), True, -1.0, True),
    ):
        monkeypatch.setattr(progress, "PATIENCE", patience)
        monkeypatch.setattr(sys, "stderr", stream)
        with Bar("counting sheep", 3, show) as bar:
            bar.advance()
            bar.advance(2, note="asleep")
        assert (bar.done, bar.note) == (3, "asleep")
        err = stream.getvalue()
        assert ("counting sheep" in err) == appears
        assert ("3/3" in err) == appears


def counted(bar: Bar, clock: list[float], steps: int) -> None:
    with bar:
        for _ in range(steps):
            clock[0] += 6.0
            bar.advance(note="asleep")


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


def test_a_command_in_a_pipe_writes_lines_now_and_then(clock: list[float], capsys: pytest.CaptureFixture[str]) -> None:
    with lines_in_pipes():
        counted(Bar("counting sheep", 10), clock, 10)
    assert capsys.readouterr().err.splitlines() == [
        "counting sheep: 2 of 10 (asleep), 0:00:12 so far, about 0:00:48 left",
        "counting sheep: 7 of 10 (asleep), 0:00:42 so far, about 0:00:18 left",
    ]
    counted(Bar("counting sheep", 10), clock, 10)  # outside of a command
    assert capsys.readouterr().err == ""


def test_lines_where_the_end_is_not_known_and_where_they_are_asked_for(
    clock: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    counted(Bar("counting sheep", None, True), clock, 2)
    assert capsys.readouterr().err == "counting sheep: 2 (asleep), 0:00:12 so far\n"
    with lines_in_pipes():
        counted(Bar("counting sheep", 2, False), clock, 2)
    assert capsys.readouterr().err == ""


def test_workers_write_no_lines(
    clock: list[float], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with lines_in_pipes():
        monkeypatch.setattr(os, "getpid", lambda: -1)  # as in a process that was forked inside
        counted(Bar("counting sheep", 10), clock, 10)
    assert capsys.readouterr().err == ""


def test_a_terminal_that_cannot_redraw_gets_lines(clock: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", stream := Terminal())
    monkeypatch.setenv("TERM", "dumb")
    with lines_in_pipes():
        counted(Bar("counting sheep", 2), clock, 2)
    assert re.fullmatch(r"counting sheep: 2 of 2 .* so far\n", stream.getvalue())
