"""Files are whole or not there, private until they are, and their cells are no formulas."""

import errno
import io
import os
import stat
import tempfile
from pathlib import Path

import pytest

from netgrain import NetgrainError
from netgrain.runtime.files import csv_cell, write_whole


def test_temporary_files_are_private_and_beside_their_target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[str, str, int]] = []
    chmod = Path.chmod

    def watched(self: Path, mode: int) -> None:
        seen.append((str(self.parent), self.name, stat.S_IMODE(self.stat().st_mode)))
        chmod(self, mode)

    monkeypatch.setattr(Path, "chmod", watched)
    before = os.umask(0o027)
    try:
        for _ in range(2):
            write_whole(tmp_path / "a", b"content")
    finally:
        os.umask(before)
    assert [(folder, mode) for folder, _, mode in seen] == [(str(tmp_path), 0o600)] * 2
    assert seen[0][1] != seen[1][1]
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o640


def test_a_link_at_the_target_or_at_the_temporary_name_is_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "precious").write_bytes(b"precious")
    (tmp_path / "a").symlink_to(tmp_path / "precious")
    names = iter(["guessed", "guessed", "free"])
    monkeypatch.setattr(tempfile, "_get_candidate_names", lambda: names)
    (tmp_path / ".a.guessed.tmp").symlink_to(tmp_path / "precious")
    write_whole(tmp_path / "a", b"content")
    assert (tmp_path / "precious").read_bytes() == b"precious"
    assert (tmp_path / "a").read_bytes() == b"content"
    assert not (tmp_path / "a").is_symlink()


CELLS = {
    "cat": "cat",
    "=1+1": "'=1+1",
    "+1": "'+1",
    "-1": "'-1",
    "@SUM(A1)": "'@SUM(A1)",
    "\tx": "'\tx",
    "\rx": '"\'\rx"',
    "a,b": '"a,b"',
    'say "x"': '"say ""x"""',
    "two\nlines": '"two\nlines"',
    '=HYPERLINK("u","v")': '"\'=HYPERLINK(""u"",""v"")"',
    "": "",
}


def test_cells_of_a_table_are_no_formulas() -> None:
    import csv

    assert {text: csv_cell(text) for text in CELLS} == CELLS
    assert [csv_cell(v) for v in (-1, -1.5, 3, True)] == ["-1", "-1.5", "3", "True"]
    for text in CELLS:
        (row,) = csv.reader(io.StringIO(f"{csv_cell(text)},end\n", newline=""), strict=True)
        assert row == [text if not CELLS[text].lstrip('"').startswith("'") else f"'{text}", "end"]


@pytest.mark.quick
def test_a_file_is_written_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_whole(tmp_path / "new" / "a", b"before")

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    def stopped(_: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(NetgrainError, match="the disk is full; free some space or choose another folder"):
        write_whole(path, b"after")
    monkeypatch.setattr(os, "fsync", stopped)
    with pytest.raises(KeyboardInterrupt):
        write_whole(path, b"after")
    assert path.read_bytes() == b"before"
    assert list(path.parent.iterdir()) == [path]
