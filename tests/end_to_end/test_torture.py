"""The torture itself: it takes no lost unit for a kept one, and a short piece of it runs with the tests."""

import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from torture import disk, files
from torture.comparison import compare
from torture.parts import Findings


def test_damaged_files_are_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "FLIPS", 12)
    monkeypatch.setattr(files, "CUTS", 3)
    monkeypatch.setattr(files, "OTHERS", 1)
    found = Findings()
    files.Damage(found, random.Random(1), tmp_path).everything()
    assert found.lost == []
    assert found.facts["single bits flipped"] == 12
    assert found.facts["computed again"] == 12 + 3 + 5


@pytest.fixture
def two_runs(tmp_path: Path) -> tuple[Path, Path]:
    """The same run twice, as a subject leaves it."""
    quiet, disturbed = tmp_path / "quiet", tmp_path / "disturbed"
    files.geometry(quiet)
    shutil.copytree(quiet, disturbed)
    for run in (quiet, disturbed):
        Path(f"{run}.json").write_text(json.dumps({"digest": "d", "twice": 0}))
    return quiet, disturbed


def _first(run: Path) -> Path:
    return min((run / "units").iterdir())


def _differs(run: Path) -> None:
    content = bytearray(_first(run).read_bytes())
    content[-1] ^= 1
    _first(run).write_bytes(content)


def _computed_again(run: Path) -> None:
    with (run / "seconds.csv").open("a") as file:
        file.write(f"{_first(run).stem},0.1\n")


WRONG: dict[str, Callable[[Path], object]] = {
    "1 units are missing": lambda run: _first(run).unlink(),
    "left behind: ['.x.tmp']": lambda run: (run / "units" / ".x.tmp").touch(),
    "1 units have other bytes": _differs,
    "the folder has": lambda run: (run / "other").touch(),
    "1 finished units were computed again": _computed_again,
    "seconds.csv has": lambda run: (run / "seconds.csv").write_text("0123,0.1\n"),
    "1 outcomes came twice": lambda run: Path(f"{run}.json").write_text('{"digest": "d", "twice": 1}'),
    "did not come to its end": lambda run: Path(f"{run}.json").unlink(),
    "the final numbers differ": lambda run: Path(f"{run}.json").write_text('{"digest": "e", "twice": 0}'),
}


def test_equal_runs_are_equal(two_runs: tuple[Path, Path]) -> None:
    found = Findings()
    compare(found, *two_runs)
    disk.same(found, "here", *two_runs)
    assert found.lost == []
    assert found.facts["units"] == 6


@pytest.mark.parametrize("sentence", WRONG)
def test_a_run_that_lost_something_is_not_equal(sentence: str, two_runs: tuple[Path, Path]) -> None:
    WRONG[sentence](two_runs[1])
    found = Findings()
    compare(found, *two_runs)
    assert len(found.lost) == 1
    assert sentence in found.lost[0]


@pytest.mark.parametrize(
    ("code", "errors"),
    [(0, "error: no space"), (1, "error: no space"), (2, ""), (2, "Traceback"), (2, "error: no\nspace")],
)
def test_what_is_no_refusal(code: int, errors: str) -> None:
    found = Findings()
    disk.refused(found, "here", code, errors)
    assert found.lost


def test_a_refusal() -> None:
    found = Findings()
    disk.refused(found, "here", 2, "error: no space\n")
    assert found.lost == []
