"""Plans: what is counted, measured and refused before anything starts."""

import gc
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import Result
from typer.testing import CliRunner

from netgrain import NetgrainError
from netgrain.cli.app import app
from netgrain.experiments.registry import plan_experiment, run_experiment
from netgrain.runtime import cost as planning
from netgrain.runtime.cost import Cost, CostEngine, EndOfPlan, PlanningRunner, Stage
from netgrain.runtime.local import Local
from netgrain.runtime.run_folder import RunFolder
from netgrain.runtime.runners import ResumableEngine, Runner
from netgrain.runtime.units import Outcome, Unit

GB = 10**9


def invoke(*words: str) -> Result:
    return CliRunner().invoke(app, words)


def hungry(unit: Mapping[str, Any]) -> Outcome:
    block = torch.ones(unit["megabytes"] * 2**18)  # float32
    time.sleep(0.1)
    return Outcome({"sum": float(block.sum())}, {"rows": torch.zeros(1000)})


def test_units_are_counted_and_a_few_are_measured(tmp_path: Path) -> None:
    planner = CostEngine(samples=2)
    found = PlanningRunner(tmp_path, planner).map(hungry, [{"megabytes": 200, "i": i} for i in range(50)], "blocks")
    assert len(found) == 50
    (stage,) = planner.plan.stages
    assert (stage.label, stage.units, stage.left) == ("blocks", 50, 50)
    assert stage.seconds is not None
    assert 0.1 < stage.seconds < planning.PATIENCE
    assert stage.memory is not None
    assert 190 * 2**20 < stage.memory < 300 * 2**20
    assert 4000 < stage.disk < 5000
    assert list(tmp_path.iterdir()) == []  # nothing is written


def tidy(unit: Mapping[str, Any]) -> Outcome:
    gc.collect()
    return hungry(unit)


def test_memory_does_not_depend_on_what_the_process_held_before(tmp_path: Path) -> None:
    """Garbage that a unit happens to collect hides what it takes itself, unless it is collected before."""
    garbage: dict[str, Any] = {"block": torch.ones(150 * 2**18)}
    garbage["itself"] = garbage
    gc.disable()
    try:
        del garbage
        planner = CostEngine(samples=1)
        PlanningRunner(tmp_path, planner).map(tidy, [{"megabytes": 100}])
    finally:
        gc.enable()
        gc.collect()
    memory = planner.plan.stages[0].memory
    assert memory is not None
    assert 95 * 2**20 < memory < 200 * 2**20


def test_what_is_finished_is_not_planned_again(tmp_path: Path) -> None:
    configs = [{"megabytes": 1, "i": i} for i in range(6)]
    with RunFolder.create(tmp_path / "run", experiment="x", scale="smoke", config={}, resume=False) as folder:
        Runner(folder).map(hungry, configs[:4])
    planner = CostEngine()
    PlanningRunner(tmp_path / "run", planner).map(hungry, configs)
    assert (planner.plan.stages[0].units, planner.plan.stages[0].left) == (6, 2)


def test_a_unit_that_takes_too_long_ends_the_plan(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(planning, "PATIENCE", 0.3)

    def slow(unit: Mapping[str, Any]) -> Outcome:
        time.sleep(20)
        return Outcome()

    planner = CostEngine()
    with pytest.raises(EndOfPlan, match="takes longer than 0 s; what follows is not known"):
        PlanningRunner(tmp_path, planner).map(slow, [{"i": 0}])
    assert planner.plan.stages[0].seconds is None
    assert "longer than" in dict(planner.plan.rows(2, "processes"))["units"]


def _plan(memory: int, units: int = 10, seconds: float = 2.0) -> Cost:
    return Cost([Stage("units", units, 0, seconds, seconds, memory, 1000)])


def test_what_cannot_fit_is_refused_with_the_knob(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(planning, "free_memory", lambda: 10 * GB)
    _plan(2 * GB).check(5, tmp_path)
    with pytest.raises(NetgrainError, match=r"needs 12 GB of memory with 6 workers, 10 GB are free; use --workers 5"):
        _plan(2 * GB).check(6, tmp_path)
    with pytest.raises(NetgrainError, match=r"one unit alone does not fit; choose a smaller input"):
        _plan(11 * GB).check(1, tmp_path)
    _plan(2 * GB).check(64, tmp_path, elsewhere=True)  # the memory of this machine says nothing about a cluster's
    with pytest.raises(NetgrainError, match=r"writes .* into .*, .* are free; use --out on another disk"):
        _plan(1, units=10**15).check(1, tmp_path)


def test_time_shrinks_with_workers_down_to_the_longest_unit() -> None:
    plan = _plan(1)
    assert plan.seconds(1, "local") == 20
    assert plan.seconds(4, "local") == 5
    assert plan.seconds(64, "local") == 2


def test_the_plan_of_an_experiment_is_what_it_then_does(tmp_path: Path) -> None:
    plan = plan_experiment("gc-double-descent", "smoke", tmp_path / "run")
    finished = run_experiment("gc-double-descent", "smoke", tmp_path / "run")
    assert plan.units == finished.computed


def test_units_of_a_stage_that_needs_the_one_before(tmp_path: Path) -> None:
    """Outcomes that stand in for the real ones lead to the next stage, or the plan says where it ends."""
    planner = CostEngine()

    def chain(runner: Runner) -> None:
        (first, _) = runner.map(hungry, [{"megabytes": 1, "i": i} for i in range(2)], "first")
        count = int(first.numbers["sum"] // 2**17)
        runner.map(hungry, [{"megabytes": 1, "j": j} for j in range(count)], "second")
        raise ZeroDivisionError

    planning.explore(lambda: chain(PlanningRunner(tmp_path, planner)), planner.plan)
    assert [(s.label, s.units) for s in planner.plan.stages] == [("first", 2), ("second", 2)]
    assert planner.plan.notes == ["what comes after second depends on its results (ZeroDivisionError)"]


def test_a_geometry_that_was_stopped_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from netgrain.geometry.gradient_rows import Rows

    command = ["geometry", "lenet:activation=gelu", "--input", "1x16x16", "--members", "20", "--engine", "local"]
    whole = invoke(*command, "--out", str(tmp_path / "whole"))
    assert whole.exit_code == 0
    assert not (tmp_path / "whole" / "members").exists()

    calls: list[int] = []
    honest = Rows.one

    def stops(rows: Rows, i: int) -> Outcome:
        calls.append(i)
        if len(calls) == 11:
            raise KeyboardInterrupt
        return honest(rows, i)

    monkeypatch.setattr(Rows, "one", stops)
    stopped = invoke(*command, "--out", str(tmp_path / "cut"))
    assert stopped.exit_code == 130
    assert "resume with --resume" in stopped.stderr
    assert len(list((tmp_path / "cut" / "members" / "units").iterdir())) == 2
    refused = invoke(*command, "--out", str(tmp_path / "cut"))
    assert refused.exit_code == 2
    assert "continue it with --resume" in refused.stderr
    other = invoke(*command, "--seed", "1", "--out", str(tmp_path / "cut"), "--resume")
    assert other.exit_code == 2
    assert "belongs to another run" in other.stderr
    calls.clear()
    calls.extend([-1] * 100)
    again = invoke(*command, "--out", str(tmp_path / "cut"), "--resume")
    assert again.exit_code == 0
    assert calls[100:] == list(range(8, 20))
    files = [tmp_path / name / "geometry.safetensors" for name in ("whole", "cut")]
    assert files[0].read_bytes() == files[1].read_bytes()
    assert not (tmp_path / "cut" / "members").exists()


def test_members_of_another_model_are_not_mixed(tmp_path: Path) -> None:
    """A unit of another run, copied into the folder, counts as missing."""

    def work(name: str, unit: Mapping[str, Any]) -> Outcome:
        return Outcome({"model": name})

    def kept(name: str, *, resume: bool) -> Outcome:
        keeping = ResumableEngine(tmp_path / name, "geometry", {"model": name}, Local(), resume=resume)
        ((_, found),) = keeping.run(partial(work, name), [Unit({"members": [0, 4]})])
        keeping.close()
        return found

    for name in ("a", "b"):
        kept(name, resume=False)
    ours, theirs = (next((tmp_path / n / "units").iterdir()) for n in ("a", "b"))
    ours.write_bytes(theirs.read_bytes())
    with pytest.warns(UserWarning, match="of another run; it counts as missing"):
        assert kept("a", resume=True).numbers == {"model": "a"}
