"""--out: folders are made, endings are respected, and what cannot be written is refused first."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from netgrain import Geometry
from netgrain.cli.writing import file_ending_in, folder_or_file, is_one_file, write_all
from netgrain.runtime.errors import NetgrainError
from tests.cli.commands import NET, Run

PNG = b"\x89PNG"


@pytest.mark.quick
@pytest.mark.parametrize(
    ("name", "one"),
    [("out", False), ("out/run-0.5", False), ("v1.2", False), ("G.safetensors", True), ("new/a.PNG", True)],
)
def test_an_ending_makes_a_file_of_it(name: str, one: bool) -> None:
    assert is_one_file(Path(name)) == one


def test_a_folder_that_is_there_is_a_folder_whatever_its_name(tmp_path: Path) -> None:
    (tmp_path / "odd.json").mkdir()
    assert not is_one_file(tmp_path / "odd.json")
    folder_or_file()(tmp_path / "odd.json")


@pytest.mark.parametrize(
    ("check", "name", "message"),
    [
        (folder_or_file(), "a.json", "--out expects a folder, found 'a.json'; leave .json out."),
        (folder_or_file(".png", ".json"), "a.csv", "--out expects a folder or a name that ends in .png or .json"),
        (folder_or_file(".json"), "file/a.json", "--out expects a folder, .*file is a file"),
        (file_ending_in(".png"), "a.json", "--out expects a name that ends in .png, found 'a.json'"),
        (file_ending_in(".png"), ".", "--out expects a file, . is a folder; add a name such as report.png"),
    ],
)
def test_what_cannot_be_written_is_refused(
    check: object, name: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("file").touch()
    with pytest.raises(NetgrainError, match=message):
        check(Path(name))  # type: ignore[operator]


def test_one_file_or_all_of_them_in_a_folder_that_is_made(tmp_path: Path) -> None:
    contents = {"a.png": b"picture", "b.json": b"numbers"}
    for out, expected in (
        (tmp_path / "new" / "mine.json", {"mine.json": b"numbers"}),
        (tmp_path / "other" / "deep" / "all", contents),
    ):
        written = write_all(out, lambda: contents)
        assert {file.name: file.read_bytes() for file in written} == expected
        folder = out.parent if out.suffix else out
        assert sorted(folder.iterdir()) == sorted(written)


def written(run: Run, *words: str) -> list[str]:
    """Files in new/ after a command that ends with --out new/…"""
    code, _, err = run(*words)
    assert code == 0, err
    return sorted(file.name for file in Path("new").iterdir())


def test_geometry_writes_one_file_of_each_kind(run: Run) -> None:
    words = ("geometry", *NET, "--members", "3", "--out")
    assert written(run, *words, "new/G.safetensors") == ["G.safetensors"]
    assert Geometry.load("new/G.safetensors").d == 4
    written(run, *words, "new/G.png")
    assert Path("new/G.png").read_bytes().startswith(PNG)
    assert written(run, *words, "new/G.json") == ["G.json", "G.png", "G.safetensors"]
    assert json.loads(Path("new/G.json").read_text())["files"] == {"summary": "new/G.json"}
    code, _, err = run(*words, "new/G.csv")
    assert code == 2
    assert "a name that ends in .safetensors, .png or .json, found 'G.csv'" in err
    code, _, err = run(*words, "new/G.json", "--resume")
    assert code == 2
    assert "name it with --out DIR" in err


def test_there_is_no_picture_of_a_geometry_that_is_zero(run: Run) -> None:
    words = ("geometry", "models.py:Deaf", "--input", "4", "--members", "3", "--out")
    code, _, err = run(*words, "G.png")
    assert code == 2
    assert "G is zero, so there is no picture; G.png was not written. Name a .json file" in err
    assert not Path("G.png").exists()
    assert run(*words, "G.json")[0] == 0


def test_a_card_stands_beside_its_picture(run: Run) -> None:
    words = ("card", *NET, "--out")
    assert written(run, *words, "new/net.md") == ["net.md", "net.png"]
    assert "](net.png)" in Path("new/net.md").read_text()
    written(run, *words, "new/only.png")
    assert not Path("new/only.md").exists()


def test_numbers_in_a_file_are_those_of_json(run: Run) -> None:
    rng = np.random.default_rng(0)
    np.savez("own.npz", X=rng.normal(size=(40, 4)).astype(np.float32), y=np.arange(40) % 2)
    np.save("signal.npy", np.ones(4, dtype=np.float32))
    on_data = ("--data", "own.npz")
    for words in (
        ("visible", "models.py:Net", "--signal", "signal.npy"),
        ("complexity", "models.py:Net", *on_data, "--members", "1"),
        ("learnability", "models.py:Net", *on_data, "--no-trial"),
    ):
        code, out, err = run(*words, "--out", "new/numbers.json", "--json")
        assert code == 0, err
        assert json.loads(Path("new/numbers.json").read_text()) == json.loads(out)
    assert "written: new/numbers.json" in run(*words, "--out", "new/numbers.json")[1]


def test_groups_and_limits_write_what_the_ending_says(run: Run) -> None:
    assert written(run, "group", "D6", "--out", "new/D6.json") == ["D6.json"]
    assert json.loads(Path("new/D6.json").read_text())["order"] == 6
    assert written(run, "group", "D6", "--out", "new/D6.png") == ["D6.json", "D6.png"]
    assert Path("new/D6.png").read_bytes().startswith(PNG)
