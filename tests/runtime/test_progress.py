"""The bar: silence unless it is asked for and the work is long."""

import pytest

from netgrain.runtime import progress
from netgrain.runtime.progress import Bar


@pytest.mark.quick
def test_a_bar_appears_only_on_a_terminal_and_only_when_it_takes_long(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in (("FORCE_COLOR", "1"), ("TERM", "xterm"), ("COLUMNS", "120")):
        monkeypatch.setenv(name, value)  # a terminal, as far as rich is concerned
    for show, patience, appears in ((None, 0.0, False), (True, 3600.0, False), (True, -1.0, True)):
        monkeypatch.setattr(progress, "PATIENCE", patience)
        with Bar("counting sheep", 3, show) as bar:
            bar.advance()
            bar.advance(2, note="asleep")
        assert (bar.done, bar.note) == (3, "asleep")
        out, err = capsys.readouterr()
        assert out == ""
        assert ("counting sheep" in err) == appears
        assert ("3/3" in err) == appears
