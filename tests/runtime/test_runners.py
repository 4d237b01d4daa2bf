"""Engines that keep what they finish: nothing lost, nothing computed twice, nothing mixed up."""

import fcntl
import os
import signal
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from netgrain import NetgrainError
from netgrain.models import LeNet
from netgrain.runtime.local import Local
from netgrain.runtime.processes import Processes
from netgrain.runtime.run_folder import RunFolder
from netgrain.runtime.runners import Runner
from netgrain.runtime.units import Outcome
from netgrain.training import Settings, train_member
from tests.runtime.small_runs import CALLS, configs, folder_of, square

SWEPT = 16  # units of the run that is killed


@pytest.mark.parametrize("engine", [Local(), Processes(2)], ids=lambda e: e.name)
def test_outcomes_come_back_in_order_and_stay(engine: Any, tmp_path: Path) -> None:
    with folder_of(tmp_path / "run") as folder:
        outcomes = Runner(folder, engine).map(square, configs(6))
    assert [o.numbers["square"] for o in outcomes] == [0, 1, 4, 9, 16, 25]
    CALLS.clear()
    with folder_of(tmp_path / "run", resume=True) as folder:
        runner = Runner(folder, Local())
        again = runner.map(square, configs(8))
    assert CALLS == [6, 7]
    assert runner.computed == 2
    assert all(torch.equal(a.arrays["noise"], b.arrays["noise"]) for a, b in zip(outcomes, again, strict=False))


def test_same_bits_for_one_and_two_processes(tmp_path: Path) -> None:
    for name, chosen in (("one", Local()), ("two", Processes(2))):
        with folder_of(tmp_path / name) as folder:
            Runner(folder, chosen).map(square, configs(5))
    files = sorted(p.name for p in (tmp_path / "one" / "units").iterdir())
    assert files == sorted(p.name for p in (tmp_path / "two" / "units").iterdir())
    for name in files:
        assert (tmp_path / "one" / "units" / name).read_bytes() == (tmp_path / "two" / "units" / name).read_bytes()


def test_a_run_that_is_only_looked_at_computes_nothing(tmp_path: Path) -> None:
    with folder_of(tmp_path) as folder:
        Runner(folder).map(square, configs(2))
    looking = Runner(RunFolder.open(tmp_path))
    assert len(looking.map(square, configs(2))) == 2
    assert looking.has(configs(2))
    assert not looking.has(configs(3))
    with pytest.raises(NetgrainError, match="lacks 1 of 3 units; finish the run"):
        looking.map(square, configs(3))


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
        with folder_of(path, resume=True) as folder:
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
