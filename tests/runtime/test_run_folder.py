"""Units, engines and run folders: nothing lost, nothing computed twice, nothing mixed up."""

import fcntl
import json
import os
import signal
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from netgrain import GrainWarning, NetgrainError
from netgrain.models import LeNet
from netgrain.runtime.local import Local
from netgrain.runtime.processes import Processes
from netgrain.runtime.run_folder import RunFolder, Runner
from netgrain.runtime.units import Outcome, Unit
from netgrain.training import Settings, train_member

CALLS: list[int] = []
SWEPT = 16  # units of the run that is killed


def square(unit: Mapping[str, Any]) -> Outcome:
    CALLS.append(unit["n"])
    generator = torch.Generator().manual_seed(unit["n"])
    return Outcome({"square": unit["n"] ** 2}, {"noise": torch.randn(5, generator=generator)})


def _folder(path: Path, *, resume: bool = False, **changes: Any) -> RunFolder:
    asked = {"experiment": "test", "scale": "smoke", "config": {"a": 1}} | changes
    return RunFolder.create(path, resume=resume, **asked)


def _configs(n: int) -> list[dict[str, Any]]:
    return [{"n": i, "kind": "square"} for i in range(n)]


@pytest.mark.parametrize("engine", [Local(), Processes(2)], ids=lambda e: e.name)
def test_outcomes_come_back_in_order_and_stay(engine: Any, tmp_path: Path) -> None:
    with _folder(tmp_path / "run") as folder:
        outcomes = Runner(folder, engine).map(square, _configs(6))
    assert [o.numbers["square"] for o in outcomes] == [0, 1, 4, 9, 16, 25]
    CALLS.clear()
    with _folder(tmp_path / "run", resume=True) as folder:
        runner = Runner(folder, Local())
        again = runner.map(square, _configs(8))
    assert CALLS == [6, 7]
    assert runner.computed == 2
    assert all(torch.equal(a.arrays["noise"], b.arrays["noise"]) for a, b in zip(outcomes, again, strict=False))


def test_same_bits_for_one_and_two_processes(tmp_path: Path) -> None:
    for name, chosen in (("one", Local()), ("two", Processes(2))):
        with _folder(tmp_path / name) as folder:
            Runner(folder, chosen).map(square, _configs(5))
    files = sorted(p.name for p in (tmp_path / "one" / "units").iterdir())
    assert files == sorted(p.name for p in (tmp_path / "two" / "units").iterdir())
    for name in files:
        assert (tmp_path / "one" / "units" / name).read_bytes() == (tmp_path / "two" / "units" / name).read_bytes()


def test_damaged_and_swapped_units_are_computed_again(tmp_path: Path) -> None:
    with _folder(tmp_path) as folder:
        good = Runner(folder).map(square, _configs(3))
        files = [folder.unit_file(Unit(c)) for c in _configs(3)]
    files[0].write_bytes(files[0].read_bytes()[:-4])
    files[1].write_bytes(files[2].read_bytes())
    with _folder(tmp_path, resume=True) as folder:
        runner = Runner(folder)
        with pytest.warns(GrainWarning, match="counts as missing"):
            again = runner.map(square, _configs(3))
    assert runner.computed == 2
    assert [o.numbers for o in again] == [o.numbers for o in good]


def test_units_of_another_run_are_computed_again(tmp_path: Path) -> None:
    """Two runs may have units of the same name that mean different things."""
    for name in ("a", "b"):
        with _folder(tmp_path / name, config={"of": name}) as folder:
            Runner(folder).map(square, _configs(2))
    ours, theirs = (tmp_path / name / "units" / f"{Unit(_configs(1)[0]).id}.safetensors" for name in ("a", "b"))
    sound = ours.read_bytes()
    ours.write_bytes(theirs.read_bytes())
    with _folder(tmp_path / "a", config={"of": "a"}, resume=True) as folder:
        runner = Runner(folder)
        with pytest.warns(GrainWarning, match="that of another run; it counts as missing"):
            runner.map(square, _configs(2))
    assert runner.computed == 1
    assert ours.read_bytes() == sound


def test_what_a_kill_left_behind_is_taken_away(tmp_path: Path) -> None:
    (tmp_path / ".lock").touch()
    (tmp_path / ".run.json.k1.tmp").write_text("{")  # killed before it was a run
    with _folder(tmp_path) as folder:
        Runner(folder).map(square, _configs(3))
    for left in (tmp_path / ".claims.json.k2.tmp", tmp_path / "units" / ".0123.safetensors.k3.tmp"):
        left.write_text("half")
    csv = tmp_path / "seconds.csv"
    csv.write_text("".join(csv.read_text().splitlines(keepends=True)[:2]) + "0123,0.")  # killed in a line
    with _folder(tmp_path, resume=True) as folder:
        Runner(folder).map(square, _configs(4))
        assert folder.core_seconds() == sum(float(line.split(",")[1]) for line in csv.read_text().splitlines())
    assert sorted(p.name for p in tmp_path.iterdir()) == [".lock", "run.json", "seconds.csv", "units"]
    assert len(list((tmp_path / "units").iterdir())) == 4
    assert csv.read_text().splitlines()[-1].startswith(Unit(_configs(4)[3]).id)


def test_folders_that_are_refused(tmp_path: Path) -> None:
    run = tmp_path / "run"
    with _folder(run), pytest.raises(NetgrainError, match="another process is working"):
        _folder(run, resume=True)
    with pytest.raises(NetgrainError, match="already holds a run of test; continue it with --resume"):
        _folder(run)
    with pytest.raises(NetgrainError, match='belongs to another run: its experiment is "test"'):
        _folder(run, resume=True, experiment="other")
    with pytest.raises(NetgrainError, match="its config is"):
        _folder(run, resume=True, config={"a": 2})
    (run / "run.json").write_text(json.dumps({**json.loads((run / "run.json").read_text()), "layout": 99}))
    with pytest.raises(NetgrainError, match="its layout is 99"):
        _folder(run, resume=True)
    (run / "run.json").write_text("{")
    with pytest.raises(NetgrainError, match="cannot be read"):
        _folder(run, resume=True)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("words")
    with pytest.raises(NetgrainError, match="not empty and not a run"):
        _folder(tmp_path / "mine")
    assert [p.name for p in (tmp_path / "mine").iterdir()] == ["thesis.txt"]
    with pytest.raises(NetgrainError, match="is a file"):
        _folder(tmp_path / "mine" / "thesis.txt")
    with pytest.raises(NetgrainError, match="is not a run"):
        RunFolder.open(tmp_path / "mine")


def test_a_run_that_is_only_looked_at_computes_nothing(tmp_path: Path) -> None:
    with _folder(tmp_path) as folder:
        Runner(folder).map(square, _configs(2))
    looking = Runner(RunFolder.open(tmp_path))
    assert len(looking.map(square, _configs(2))) == 2
    assert looking.has(_configs(2))
    assert not looking.has(_configs(3))
    with pytest.raises(NetgrainError, match="lacks 1 of 3 units; finish the run"):
        looking.map(square, _configs(3))


def test_the_folder_says_where_it_ran(tmp_path: Path) -> None:
    with _folder(tmp_path / "run") as folder:
        about = json.loads((folder.path / "run.json").read_text())
    assert about["versions"]["torch"] == torch.__version__
    assert about["hardware"]["cores"] >= 1
    assert about["config"] == {"a": 1}


def _small_training(unit: Mapping[str, Any]) -> Outcome:
    """Trained for a while: a unit that takes long enough to be killed in its middle."""
    generator = torch.Generator().manual_seed(unit["seed"])
    X, y = torch.randn(64, 1, 16, 16, generator=generator), torch.arange(64) % 2
    make = partial(LeNet, channels=1, image_size=16, outputs=2)
    trained = train_member(make, X, y, Settings(steps=20, batch=16), seed=unit["seed"], i=0)
    weights = torch.cat([w.flatten() for w in trained.state.values()])
    return Outcome({"loss": float(trained.losses[-1])}, {"weights": weights})


def _sweep_in_another_process(path: Path) -> int:
    """Its number. It is forked, because to import torch anew takes longer than the whole sweep."""
    if child := os.fork():
        return child
    code = 1
    try:
        with _folder(path, resume=True) as folder:
            Runner(folder, Processes(2)).map(_small_training, [{"seed": s} for s in range(SWEPT)])
        code = 0
    finally:
        os._exit(code)


def _wait_for_the_lock(path: Path) -> None:
    """The workers of a killed process end with it, but a moment later, and hold the lock of its folder until then."""
    with (path / ".lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)


def _finished(path: Path) -> list[Path]:
    return sorted((path / "units").glob("*.safetensors"))


def test_kill_nine_three_times_then_resume(tmp_path: Path) -> None:
    quiet, hit = tmp_path / "quiet", tmp_path / "hit"
    assert os.waitpid(_sweep_in_another_process(quiet), 0)[1] == 0
    for kill in range(3):
        process = _sweep_in_another_process(hit)
        # wait for a few more finished units, then strike somewhere in the middle of the next ones
        while len(_finished(hit)) < 2 * (kill + 1):
            assert os.waitpid(process, os.WNOHANG)[0] == 0, "it ended before it was killed"
            time.sleep(0.005)
        time.sleep(0.017 * (kill + 1))
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)
        _wait_for_the_lock(hit)
    assert 2 <= len(_finished(hit)) < SWEPT
    assert os.waitpid(_sweep_in_another_process(hit), 0)[1] == 0
    assert [p.name for p in _finished(quiet)] == [p.name for p in _finished(hit)]
    assert len(_finished(quiet)) == SWEPT
    assert all(a.read_bytes() == b.read_bytes() for a, b in zip(_finished(quiet), _finished(hit), strict=True))
