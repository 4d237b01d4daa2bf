"""Engines: the same bits wherever units run, and no unit lost to a worker that dies, hangs or fails."""

import importlib.util
import os
import signal
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

import netgrain as ng
from netgrain.complexity.sweeps import sweep
from netgrain.models import LeNet
from netgrain.runtime.backlog import Backlog, UnitLate, UnitLost
from netgrain.runtime.engines import engine
from netgrain.runtime.local import Local
from netgrain.runtime.on_ray import Ray
from netgrain.runtime.on_slurm import Slurm
from netgrain.runtime.processes import Processes
from netgrain.runtime.units import Engine, Outcome, fingerprint, in_order
from netgrain.training import Settings, train
from netgrain.training.regularizers.norms import L2
from tests.runtime.tried import TRIED, bits, needs_ray, noise, one_cluster, quiet, units_of


@pytest.mark.parametrize("via", TRIED)
def test_same_bits_on_every_engine(via: Engine) -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(2)  # which a unit must not inherit
    try:
        assert bits(via) == bits(Local())
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("via", TRIED[2:])
def test_same_geometry_on_every_engine(via: Engine) -> None:
    make = partial(LeNet, channels=1, outputs=2, image_size=16, activation="gelu")
    ours = ng.average_geometry(make, (1, 16, 16), members=24, engine=via, chunk=3)
    assert torch.equal(ours.matrix(), _geometry_here().matrix())


def _geometry_here() -> ng.Geometry:
    make = partial(LeNet, channels=1, outputs=2, image_size=16, activation="gelu")
    return ng.average_geometry(make, (1, 16, 16), members=24, engine="local")


@pytest.mark.parametrize("via", TRIED[1:])
def test_same_training_sweep_on_every_engine(via: Engine) -> None:
    X = torch.randn(60, 4, generator=torch.Generator().manual_seed(0))
    y = (X[:, 0] > 0).long()
    settings = Settings(steps=30, batch=10, lr=0.1)

    def make() -> torch.nn.Module:
        return torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))

    there, here = (
        sweep(make, X, y, [0.0, 0.01], settings, regularizer=L2, seeds=2, engine=e).numbers for e in (via, Local())
    )
    assert there == here
    trained, expected = (train(make, X, y, settings, members=3, engine=e) for e in (via, Local()))
    for a, b in zip(trained, expected, strict=True):
        assert all(torch.equal(a.state[k], b.state[k]) for k in b.state)


@pytest.mark.parametrize("via", [TRIED[1], TRIED[2], TRIED[4]])
def test_a_killed_worker_loses_nothing(via: Engine, tmp_path: Path) -> None:
    def dies_once(unit: Mapping[str, Any]) -> Outcome:
        mark = tmp_path / str(unit["n"])
        if unit["n"] in deadly and not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return noise(unit)

    deadly = [1] if isinstance(via, Ray) else [1, 3, 5]  # a new worker of Ray takes seconds
    units = units_of(6)
    found = [o.arrays["a"] for o in in_order(via.run(dies_once, units), units)]
    expected = [o.arrays["a"] for _, o in Local().run(noise, units)]
    assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))
    assert len(list(tmp_path.iterdir())) == len(deadly)


@pytest.mark.parametrize(
    "via",
    [
        Processes(1, deadline=2.0),
        Processes(2, deadline=2.0),
        pytest.param(Ray(2, deadline=3.0), marks=[needs_ray, quiet, one_cluster]),
    ],
)
def test_a_unit_that_hangs_is_sent_again(via: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reasons: list[type[UnitLost]] = []
    lost = Backlog.lost

    def noted(backlog: Backlog, i: int, why: str, remedy: str = "", kind: type[UnitLost] = UnitLost) -> None:
        if i == 1:
            reasons.append(kind)
        lost(backlog, i, why, remedy, kind)

    monkeypatch.setattr(Backlog, "lost", noted)

    def hangs_once(unit: Mapping[str, Any]) -> Outcome:
        mark = tmp_path / str(unit["n"])
        if unit["n"] == 1 and not mark.exists():
            mark.touch()
            time.sleep(600)
        time.sleep(0.2)
        return Outcome({"n": unit["n"]})

    started = time.monotonic()
    units = units_of(6)
    assert [o.numbers["n"] for o in in_order(via.run(hangs_once, units), units)] == list(range(6))
    assert time.monotonic() - started < 300  # on a busy machine Ray takes long to start a worker
    # the one that hung comes to an end later, when the unit is on its way again: that is no second loss
    assert set(reasons) == {UnitLate}


def test_engines_by_name() -> None:
    assert engine("local").name == "local"
    assert engine("processes", 2) == Processes(2)
    assert engine("ray:gpus=1,deadline=60", 4, "10.0.0.1:6379") == Ray(4, "10.0.0.1:6379", 60.0, 1.0)
    assert engine("slurm:minutes=5,partition=gpu", 3).partition == "gpu"  # type: ignore[attr-defined]
    assert fingerprint({"x": [1, 2]}) != fingerprint({"x": [2, 1]})


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("cloud",), "engine 'cloud' is not known; expected one of local, processes, ray, slurm."),
        (("procesess",), "did you mean 'processes'?"),
        (("processes", 0), "expected at least one worker, found 0."),
        (("local", 3), "engine 'local' has one worker, 3 were asked for; use processes."),
        (("processes:pace=3",), "engine 'processes' has no option 'pace=3'; it takes deadline"),
        (("ray:deadline=soon",), "deadline expects a positive number, found 'soon'."),
        (("processes", 2, "10.0.0.1:6379"), "--address belongs to the engine ray"),
    ],
)
def test_engines_that_are_refused(arguments: tuple[Any, ...], sentence: str) -> None:
    with pytest.raises(ng.NetgrainError) as e:
        engine(*arguments)
    assert sentence in str(e.value)


def test_an_extra_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ng.NetgrainError, match=r"pip install -e '\.\[distributed\]'"):
        list(Ray(1).run(noise, units_of(1)))
    with pytest.raises(ng.NetgrainError, match=r"pip install -e '\.\[slurm\]'"):
        list(Slurm(1).run(noise, units_of(1)))
