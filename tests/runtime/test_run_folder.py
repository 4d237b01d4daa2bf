"""Run folders: what is damaged, of another run or half written is told from what is sound."""

import json
from pathlib import Path

import pytest
import torch

from netgrain import GrainWarning, NetgrainError
from netgrain.runtime.run_folder import RunFolder
from netgrain.runtime.runners import Runner
from netgrain.runtime.units import Unit
from tests.runtime.small_runs import configs, folder_of, square


def test_damaged_and_swapped_units_are_computed_again(tmp_path: Path) -> None:
    with folder_of(tmp_path) as folder:
        good = Runner(folder).map(square, configs(3))
        files = [folder.unit_file(Unit(c)) for c in configs(3)]
    files[0].write_bytes(files[0].read_bytes()[:-4])
    files[1].write_bytes(files[2].read_bytes())
    with folder_of(tmp_path, resume=True) as folder:
        runner = Runner(folder)
        with pytest.warns(GrainWarning, match="counts as missing"):
            again = runner.map(square, configs(3))
    assert runner.computed == 2
    assert [o.numbers for o in again] == [o.numbers for o in good]


def test_units_of_another_run_are_computed_again(tmp_path: Path) -> None:
    """Two runs may have units of the same name that mean different things."""
    for name in ("a", "b"):
        with folder_of(tmp_path / name, config={"of": name}) as folder:
            Runner(folder).map(square, configs(2))
    ours, theirs = (tmp_path / name / "units" / f"{Unit(configs(1)[0]).id}.safetensors" for name in ("a", "b"))
    sound = ours.read_bytes()
    ours.write_bytes(theirs.read_bytes())
    with folder_of(tmp_path / "a", config={"of": "a"}, resume=True) as folder:
        runner = Runner(folder)
        with pytest.warns(GrainWarning, match="that of another run; it counts as missing"):
            runner.map(square, configs(2))
    assert runner.computed == 1
    assert ours.read_bytes() == sound


def test_what_a_kill_left_behind_is_taken_away(tmp_path: Path) -> None:
    (tmp_path / ".lock").touch()
    (tmp_path / ".run.json.k1.tmp").write_text("{")  # killed before it was a run
    with folder_of(tmp_path) as folder:
        Runner(folder).map(square, configs(3))
    for left in (tmp_path / ".claims.json.k2.tmp", tmp_path / "units" / ".0123.safetensors.k3.tmp"):
        left.write_text("half")
    csv = tmp_path / "seconds.csv"
    csv.write_text("".join(csv.read_text().splitlines(keepends=True)[:2]) + "0123,0.")  # killed in a line
    with folder_of(tmp_path, resume=True) as folder:
        Runner(folder).map(square, configs(4))
        assert folder.core_seconds() == sum(float(line.split(",")[1]) for line in csv.read_text().splitlines())
    assert sorted(p.name for p in tmp_path.iterdir()) == [".lock", "run.json", "seconds.csv", "units"]
    assert len(list((tmp_path / "units").iterdir())) == 4
    assert csv.read_text().splitlines()[-1].startswith(Unit(configs(4)[3]).id)


def test_folders_that_are_refused(tmp_path: Path) -> None:
    run = tmp_path / "run"
    with folder_of(run), pytest.raises(NetgrainError, match="another process is working"):
        folder_of(run, resume=True)
    with pytest.raises(NetgrainError, match="already holds a run of test; continue it with --resume"):
        folder_of(run)
    with pytest.raises(NetgrainError, match='belongs to another run: its experiment is "test"'):
        folder_of(run, resume=True, experiment="other")
    with pytest.raises(NetgrainError, match="its config is"):
        folder_of(run, resume=True, config={"a": 2})
    (run / "run.json").write_text(json.dumps({**json.loads((run / "run.json").read_text()), "layout": 99}))
    with pytest.raises(NetgrainError, match="its layout is 99"):
        folder_of(run, resume=True)
    (run / "run.json").write_text("{")
    with pytest.raises(NetgrainError, match="cannot be read"):
        folder_of(run, resume=True)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("words")
    with pytest.raises(NetgrainError, match="not empty and not a run"):
        folder_of(tmp_path / "mine")
    assert [p.name for p in (tmp_path / "mine").iterdir()] == ["thesis.txt"]
    with pytest.raises(NetgrainError, match="is a file"):
        folder_of(tmp_path / "mine" / "thesis.txt")
    with pytest.raises(NetgrainError, match="is not a run"):
        RunFolder.open(tmp_path / "mine")


def test_the_folder_says_where_it_ran(tmp_path: Path) -> None:
    with folder_of(tmp_path / "run") as folder:
        about = json.loads((folder.path / "run.json").read_text())
    assert about["versions"]["torch"] == torch.__version__
    assert about["hardware"]["cores"] >= 1
    assert about["config"] == {"a": 1}
