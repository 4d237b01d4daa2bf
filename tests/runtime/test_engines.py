"""Engines: the same bits wherever units run, and no unit lost to a worker that dies, hangs or fails."""

import dataclasses
import importlib.util
import inspect
import os
import signal
import subprocess
import sys
import threading
import time
import tomllib
import warnings
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

import netgrain as ng
from netgrain.complexity.sweeps import sweep
from netgrain.models import LeNet
from netgrain.runtime import on_ray, on_slurm
from netgrain.runtime.answers import UnitError
from netgrain.runtime.backlog import Backlog, UnitLate, UnitLost
from netgrain.runtime.engine_in_use import using
from netgrain.runtime.engine_kinds import EngineKind
from netgrain.runtime.engines import ENGINES, engine, engine_for
from netgrain.runtime.local import Local
from netgrain.runtime.on_ray import Ray
from netgrain.runtime.on_slurm import Slurm
from netgrain.runtime.processes import Processes
from netgrain.runtime.streams import MemberStream
from netgrain.runtime.units import Engine, Outcome, Unit, fingerprint, in_order
from netgrain.training import Settings, train
from netgrain.training.regularizers.norms import L2

needs_ray = pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="the extra [distributed] is missing")
needs_slurm = pytest.mark.skipif(importlib.util.find_spec("submitit") is None, reason="the extra [slurm] is missing")
# Ray leaves sockets and processes to the garbage collector of the interpreter that is ending
quiet = pytest.mark.filterwarnings("ignore")
one_cluster = pytest.mark.xdist_group("ray")  # started once, in one of the processes that run tests

TRIED = [
    pytest.param(Local(), id="local"),
    pytest.param(Processes(1), id="processes1"),
    pytest.param(Processes(2), id="processes2"),
    pytest.param(Ray(1), id="ray1", marks=[needs_ray, quiet, one_cluster]),
    pytest.param(Ray(2), id="ray2", marks=[needs_ray, quiet, one_cluster]),
]


@pytest.fixture(scope="module", autouse=True)
def _end_ray() -> Iterator[None]:
    yield
    if "ray" in sys.modules:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            sys.modules["ray"].shutdown()


def noise(unit: Mapping[str, Any]) -> Outcome:
    generator = torch.Generator().manual_seed(unit["n"])
    whole = torch.randn(40, 30, generator=generator)
    return Outcome(
        {"n": unit["n"], "threads": torch.get_num_threads()}, {"a": whole @ whole.T, "b": whole[3:5], "c": whole[3:4]}
    )


def _units(n: int) -> list[Unit]:
    return [Unit({"n": i}) for i in range(n)]


def _bits(via: Engine) -> list[tuple[int, bytes, bytes]]:
    units = _units(7)
    found = [(u, o) for u, o in via.run(noise, units)]
    assert sorted(u.config["n"] for u, _ in found) == list(range(7))  # each once
    assert all(o.numbers["n"] == u.config["n"] and o.numbers["threads"] == 1 for u, o in found)
    return sorted((o.numbers["n"], o.arrays["a"].numpy().tobytes(), o.arrays["b"].numpy().tobytes()) for _, o in found)


@pytest.mark.parametrize("via", TRIED)
def test_same_bits_on_every_engine(via: Engine) -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(2)  # which a unit must not inherit
    try:
        assert _bits(via) == _bits(Local())
    finally:
        torch.set_num_threads(before)


@needs_slurm
@quiet
def test_slurm_in_its_local_mode(tmp_path: Path) -> None:
    def dies_once(unit: Mapping[str, Any]) -> Outcome:
        mark = tmp_path / "died"
        if unit["n"] == 1 and not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return noise(unit)

    units = _units(3)
    via = Slurm(2, folder=str(tmp_path / "jobs"), cluster="local")
    found = [o.arrays["a"] for o in in_order(via.run(dies_once, units), units)]
    expected = [o.arrays["a"] for _, o in Local().run(noise, units)]
    assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))
    assert (tmp_path / "died").exists()
    assert list((tmp_path / "jobs").iterdir()) == []


class _TooShort:
    """An executor whose jobs have time for so many units."""

    units = 2

    def submit(self, job: Any, work: Any, configs: dict[int, Any], *rest: Any) -> Any:
        job(work, {i: configs[i] for i in list(configs)[: self.units]}, *rest)
        return SimpleNamespace(state="TIMEOUT", done=lambda: True, cancel=lambda check: None)


@needs_slurm
def test_jobs_of_slurm_that_end_too_early_come_to_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Twenty units to a job, of which it does two: the others were not lost, they were never begun."""
    monkeypatch.setattr(Slurm, "_executor", lambda self, room: _TooShort())
    monkeypatch.setitem(on_slurm.LOOK_EVERY, "local", 0.0)
    monkeypatch.setattr(on_slurm, "one_thread_for_good", lambda: None)
    via = Slurm(1, folder=str(tmp_path), cluster="local")
    found = via.run(lambda unit: Outcome({"n": unit["n"]}), _units(80))
    assert [o.numbers["n"] for _, o in found] == list(range(80))
    monkeypatch.setattr(_TooShort, "units", 0)
    with pytest.raises(ng.NetgrainError, match=r"5 times \(its job ended as TIMEOUT\); try more minutes or memory"):
        list(via.run(noise, _units(3)))


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


@pytest.mark.parametrize("via", TRIED)
def test_what_goes_wrong_in_a_worker_is_told_here(via: Engine) -> None:
    def work(unit: Mapping[str, Any]) -> Outcome:
        if unit["n"] == 1:
            raise ng.NetgrainError("number one")
        return Outcome()

    def buggy(unit: Mapping[str, Any]) -> Outcome:
        return Outcome({"x": {}["missing"]})

    def warns(unit: Mapping[str, Any]) -> Outcome:
        warnings.warn("mind the gap", ng.GrainWarning, stacklevel=1)
        return Outcome()

    with pytest.raises(ng.NetgrainError, match="number one"):
        list(via.run(work, _units(3)))
    with pytest.raises(KeyError if via == Local() else UnitError, match="missing"):
        list(via.run(buggy, _units(1)))
    with pytest.warns(ng.GrainWarning, match="mind the gap"):
        list(via.run(warns, _units(1)))


@pytest.mark.parametrize("via", [TRIED[1], TRIED[2], TRIED[4]])
def test_a_killed_worker_loses_nothing(via: Engine, tmp_path: Path) -> None:
    def dies_once(unit: Mapping[str, Any]) -> Outcome:
        mark = tmp_path / str(unit["n"])
        if unit["n"] in deadly and not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return noise(unit)

    deadly = [1] if isinstance(via, Ray) else [1, 3, 5]  # a new worker of Ray takes seconds
    units = _units(6)
    found = [o.arrays["a"] for o in in_order(via.run(dies_once, units), units)]
    expected = [o.arrays["a"] for _, o in Local().run(noise, units)]
    assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))
    assert len(list(tmp_path.iterdir())) == len(deadly)


def test_a_unit_that_always_kills_its_worker_is_given_up() -> None:
    def dies(unit: Mapping[str, Any]) -> Outcome:
        os.kill(os.getpid(), signal.SIGKILL)
        return Outcome()

    with pytest.raises(ng.NetgrainError, match=r"lost 5 times \(its process ended by SIGKILL\); try fewer workers"):
        list(Processes(2).run(dies, _units(2)))


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
    units = _units(6)
    assert [o.numbers["n"] for o in in_order(via.run(hangs_once, units), units)] == list(range(6))
    assert time.monotonic() - started < 300  # on a busy machine Ray takes long to start a worker
    # the one that hung comes to an end later, when the unit is on its way again: that is no second loss
    assert set(reasons) == {UnitLate}


@needs_ray
@quiet
@one_cluster
def test_a_late_unit_goes_to_a_host_that_can_be_reached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only what is late goes to the host of `_on_this_host`: where that does not exist, this unit alone is lost.

    A clock would call a unit late that only waits for Ray to start its worker: the others must have come back.
    """
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    def hangs_once(unit: Mapping[str, Any]) -> Outcome:
        mark = tmp_path / str(unit["n"])
        if unit["n"] == 1 and not mark.exists():
            mark.touch()
            time.sleep(600)
        return Outcome({"n": unit["n"]})

    class Judge(Backlog):
        def late(self) -> list[int]:
            return [1] if self._next == 3 and list(self._sent) == [1] and self._tries[1] == 1 else []

    monkeypatch.setattr(on_ray, "Backlog", Judge)
    monkeypatch.setattr(on_ray, "_on_this_host", lambda ray: NodeAffinitySchedulingStrategy("ab" * 28, soft=False))
    found = Ray(2, deadline=4.0).run(hangs_once, _units(3))
    assert sorted(next(found)[1].numbers["n"] for _ in range(2)) == [0, 2]
    with pytest.raises(ng.NetgrainError, match=r"lost 5 times \(Ray says TaskUnschedulableError\)"):
        next(found)


def test_a_worker_that_hangs_in_the_middle_of_its_answer(tmp_path: Path) -> None:
    """A large answer does not fit into a pipe: its reader must not wait for the second half for ever."""

    def stops_once(unit: Mapping[str, Any]) -> Outcome:
        mark = tmp_path / "stopped"
        if unit["n"] == 1 and not mark.exists():
            mark.touch()
            threading.Timer(0.6, os.kill, (os.getpid(), signal.SIGSTOP)).start()
            time.sleep(0.3)  # the other unit comes first
        return Outcome({"n": unit["n"]}, {"large": torch.zeros(1_000_000)})

    found = Processes(2, deadline=2.0).run(stops_once, _units(2))
    _, first = next(found)
    time.sleep(1.2)  # meanwhile the other one has begun to answer, and was stopped
    assert sorted([first.numbers["n"], *(o.numbers["n"] for _, o in found)]) == [0, 1]
    assert (tmp_path / "stopped").exists()


def test_workers_end_with_the_reader() -> None:
    def pid(unit: Mapping[str, Any]) -> Outcome:
        return Outcome({"pid": os.getpid()})

    found = Processes(2).run(pid, _units(4))
    _, first = next(found)
    found.close()
    with pytest.raises(ProcessLookupError):
        os.kill(first.numbers["pid"], 0)


def test_the_first_answer_counts() -> None:
    now = [0.0]
    backlog = Backlog(3, ahead=2, deadline=10, clock=lambda: now[0])
    assert [backlog.take(), backlog.take(), backlog.take()] == [0, 1, None]  # two ahead of unit 0 at most
    assert backlog.done(1)
    assert backlog.take() is None
    now[0] = 11
    assert backlog.late() == [0]
    backlog.lost(0, "late")
    assert backlog.take() == 0
    now[0] = 25
    assert backlog.late() == []  # twice as long the second time
    assert backlog.patience() == 6
    assert backlog.done(0)
    assert not backlog.done(0)
    assert backlog.take() == 2
    assert not backlog.finished
    assert backlog.done(2)
    assert backlog.finished


@needs_ray
@quiet
@one_cluster
def test_units_on_ray_wait_for_nobody() -> None:
    """Ray gives its workers the lowest priority but four: beside other work they would hardly begin."""
    ((_, found),) = Ray(1).run(lambda unit: Outcome({"nice": os.nice(0)}), _units(1))
    assert found.numbers["nice"] == os.nice(0)


@needs_ray
@quiet
@one_cluster
def test_a_long_unit_is_never_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a deadline a unit may be sent again many times, and still its first answer counts."""
    monkeypatch.setattr(on_ray, "LEAST_DEADLINE", 0.02)  # doubled five times, that is 0.6 seconds

    def long(unit: Mapping[str, Any]) -> Outcome:
        time.sleep(2)
        return Outcome({"n": unit["n"]})

    assert [o.numbers["n"] for _, o in Ray(1).run(long, _units(1))] == [0]
    assert "RAY_health_check_period_ms" not in os.environ  # what Ray is told stays with Ray


def test_a_reader_in_order_holds_few_outcomes(tmp_path: Path) -> None:
    """The first unit is slow; the others must not pile up while it is awaited."""

    def work(members: range) -> list[Outcome]:
        (tmp_path / f"{members.start}").touch()
        if members.start == 0:
            time.sleep(0.5)
            return [Outcome({"begun": len(list(tmp_path.iterdir()))}) for _ in members]
        return [Outcome() for _ in members]

    found = list(MemberStream(work, Processes(2), 1).map(range(100), 0))
    assert len(found) == 100
    assert found[0].numbers["begun"] <= 17


def test_units_start_nothing_themselves() -> None:
    def work(unit: Mapping[str, Any]) -> Outcome:
        via = engine_for(None, 7)
        return Outcome({"name": "none" if via is None else via.name})

    with using(Processes(2)):
        assert engine_for(None, None) == Processes(2)
        assert [o.numbers["name"] for _, o in Local().run(work, _units(1))] == ["local"]
        assert [o.numbers["name"] for _, o in Processes(2).run(work, _units(2))] == ["local"] * 2
    assert engine_for(None, None) is None
    assert engine_for(None, 1) == Local()
    with pytest.raises(ng.NetgrainError, match="workers=2 belongs to the engine that was given"):
        engine_for(Local(), 2)
    assert engine_for(None, None, torch.device("cuda")) == Local()


def test_engines_by_name() -> None:
    assert engine("local").name == "local"
    assert engine("processes", 2) == Processes(2)
    assert engine("ray:gpus=1,deadline=60", 4, "10.0.0.1:6379") == Ray(4, "10.0.0.1:6379", 60.0, 1.0)
    assert engine("slurm:minutes=5,partition=gpu", 3).partition == "gpu"  # type: ignore[attr-defined]
    assert fingerprint({"x": [1, 2]}) != fingerprint({"x": [2, 1]})


@pytest.mark.parametrize("kind", ENGINES.values(), ids=list(ENGINES))
def test_every_row_describes_its_engine(kind: EngineKind) -> None:
    """The options of a row are arguments of the engine, its extra exists, and a fresh engine knows its name."""
    made = kind.make()
    own = {f.name for f in dataclasses.fields(made)} - {"name", "parallel", "workers"}  # type: ignore[arg-type]
    assert set(kind.options) == own
    assert made.name == kind.name
    assert kind.start_up >= 0
    assert (kind.extra is None) == (kind.package is None)
    extras = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    if kind.extra is not None:
        assert str(kind.package) in " ".join(extras["optional-dependencies"][kind.extra])
    if "workers" in inspect.signature(kind.make).parameters:
        assert engine(kind.name, workers=3).parallel == 3
    else:
        assert kind.one_worker
        assert engine(kind.name).parallel == 1


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
        list(Ray(1).run(noise, _units(1)))
    with pytest.raises(ng.NetgrainError, match=r"pip install -e '\.\[slurm\]'"):
        list(Slurm(1).run(noise, _units(1)))


def test_slurm_without_slurm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda name: None)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: "there")
    with pytest.raises(ng.NetgrainError, match=r"needs SLURM's sbatch"):
        list(Slurm(1).run(noise, _units(1)))
    with pytest.raises(ng.NetgrainError, match=r"cluster expects slurm, or local"):
        list(Slurm(1, cluster="moon").run(noise, _units(1)))


@needs_ray
@quiet
@one_cluster
def test_addresses_where_no_cluster_is(monkeypatch: pytest.MonkeyPatch) -> None:
    import ray

    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    with pytest.raises(ng.NetgrainError, match=r"no Ray cluster answers at 127\.0\.0\.1:9 \(Connection refused\)"):
        list(Ray(1, "127.0.0.1:9").run(noise, _units(1)))
    with pytest.raises(ng.NetgrainError, match=r"--address expects HOST:PORT as in 10\.0\.0\.1:6379"):
        list(Ray(1, "somewhere").run(noise, _units(1)))


@needs_ray
@quiet
@one_cluster
def test_workers_of_another_version(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(on_ray, "versions", lambda: {"netgrain": "9.9", "torch": torch.__version__})
    with pytest.raises(ng.NetgrainError, match=r"other versions \(netgrain .* there, 9\.9 here\); install"):
        list(Ray(1).run(noise, _units(1)))


@needs_ray
@quiet
@one_cluster
def test_the_environment_of_a_user_reaches_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    def looks(unit: Mapping[str, Any]) -> Outcome:
        return Outcome({"data": os.environ.get("NETGRAIN_DATA")})

    list(Ray(1).run(looks, _units(1)))  # a worker that is there already
    monkeypatch.setenv("NETGRAIN_DATA", "/somewhere")
    assert [o.numbers["data"] for _, o in Ray(1).run(looks, _units(1))] == ["/somewhere"]
    monkeypatch.delenv("NETGRAIN_DATA")
    assert [o.numbers["data"] for _, o in Ray(1).run(looks, _units(1))] == [None]


@pytest.mark.parametrize("first_layer", ["always", "never"])
def test_members_side_by_side_give_the_same_geometry(first_layer: str) -> None:
    make = partial(LeNet, channels=1, outputs=2, image_size=16, activation="gelu")
    alone, together = (
        ng.average_geometry(
            make, (1, 16, 16), members=20, first_layer=first_layer, vmapped=v, probe=ng.Gaussian(1.0), chunk=8
        )
        for v in (False, True)
    )
    assert not torch.equal(alone.matrix(), together.matrix())  # rounding shows that it went another way
    assert torch.allclose(alone.matrix(), together.matrix(), rtol=1e-3, atol=1e-5 * float(alone.matrix().max()))
    assert together.about.notes == alone.about.notes


def test_members_that_cannot_run_side_by_side_run_one_by_one() -> None:
    class Branches(torch.nn.Linear):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = super().forward(x)
            return y if bool(y.isfinite().all()) else y * 0

    G = ng.average_geometry(partial(Branches, 3, 1), (3,), members=6, vmapped=True)
    assert "members one by one: vmap does not take the model" in G.about.notes[-1]


GPU_UNITS = """
import os, ray
from netgrain.runtime.units import Outcome, Unit
from netgrain.runtime.on_ray import Ray

def pid(unit):
    return Outcome({"pid": os.getpid()})

ray.init(num_cpus=1, num_gpus=1, include_dashboard=False, log_to_driver=False)  # Ray counts GPUs, it does not look
print(len({o.numbers["pid"] for _, o in Ray(1, gpus=1.0).run(pid, [Unit({"n": n}) for n in range(4)])}))
try:
    list(Ray(0, gpus=2.0).run(pid, [Unit({"n": 0})]))
except ValueError as e:
    print(e)
"""


@needs_ray
@pytest.mark.skipif("NETGRAIN_THOROUGH" not in os.environ, reason="starts a cluster of its own: NETGRAIN_THOROUGH=1")
def test_gpu_units_reuse_their_worker_and_the_cluster_of_the_user() -> None:
    told = subprocess.run([sys.executable, "-W", "ignore", "-c", GPU_UNITS], capture_output=True, text=True, check=True)
    assert told.stdout == "1\neach unit asks for 2 GPUs, the cluster has 1; lower gpus=.\n"
