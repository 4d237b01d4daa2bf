"""Every mistake in the tables ends in one sentence, or is accepted with the right answer: never in a traceback."""

import importlib
import importlib.util
from pathlib import Path

import pytest
import torch

from tests.end_to_end.mistakes import Mistake, end

TABLES = [
    importlib.import_module(name)
    for about in ("models", "inputs", "data")
    if importlib.util.find_spec(name := f"tests.end_to_end.mistakes_about_{about}")
]
ROWS = [(table, row) for table in TABLES for row in table.MISTAKES]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(("table", "row"), [pytest.param(t, r, id=r.name) for t, r in ROWS])
@pytest.mark.filterwarnings("ignore")
def test_mistake(table: object, row: Mistake, folder: Path) -> None:
    if prepare := getattr(table, "prepare", None):
        prepare(folder)
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*") if "__pycache__" not in path.parts}
    torch.manual_seed(0)  # some rows make a model themselves
    ending = end(row)
    assert ending.verdict(row) == ("accepted rightly" if row.says is None else "clear"), ending
    if ending.kind == "clear":
        assert row.argv or ("\n" not in ending.text and ending.text[-1] in ".?")
        after = {path: path.stat().st_mtime_ns for path in folder.rglob("*") if "__pycache__" not in path.parts}
        assert after == before, "something was written"


def test_names_are_unique() -> None:
    names = [row.name for _, row in ROWS]
    assert sorted(set(names)) == sorted(names)
