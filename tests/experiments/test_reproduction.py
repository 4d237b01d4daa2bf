"""Every experiment in one folder: chosen by name or group, resumed after a kill, summed up in one scorecard."""

import json
import os
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from netgrain import NetgrainError
from netgrain.cli.app import app
from netgrain.data import looking_in
from netgrain.experiments import registry as experiments
from netgrain.experiments.contract import Experiment
from netgrain.experiments.reproduction import Clock, Reproduction, chosen, reproduce
from netgrain.experiments.scorecard import scorecard
from netgrain.runtime import run_folder as runs
from netgrain.runtime.processes import Processes
from netgrain.runtime.units import Outcome, Unit, Work

CHEAP = ["gc-l2", "eq-uncertainty"]


def _same(found: Reproduction) -> list[dict]:
    return [{k: v for k, v in row.items() if k != "seconds"} for row in found.as_list()]


def _replace_run(monkeypatch: pytest.MonkeyPatch, name: str, run: Callable) -> None:
    real = experiments.find

    def find(asked: str) -> Experiment:
        found = real(asked)
        return replace(found, run=run) if found.name == name else found

    monkeypatch.setattr(experiments, "find", find)


def test_all_experiments_are_chosen_once() -> None:
    everything = chosen(None)
    assert len(everything) == len(set(everything))
    assert set(everything) == set(experiments.names()) - {
        "advice",
        "pretrained",
        "recipes",
        "validity",
        "weak-directions",
    }  # ours: asked for
    assert chosen(["learnability"]) == ["advice", "pretrained", "recipes", "validity", "weak-directions"]
    assert chosen(["gc-l2", "fig9", "gc_l2"]) == ["fig9", "gc-l2"]
    assert chosen(["complexity"]) == [n for n in everything if n.startswith("gc-")]
    assert chosen(["geometry"]) == everything[: len(chosen(["geometry"]))]
    with pytest.raises(NetgrainError, match="did you mean 'fig9'"):
        chosen(["figg9"])


class KilledAfter:
    """An engine whose process dies, as if by kill -9, with some units stored."""

    name, parallel = "killed", 1

    def __init__(self, units: int) -> None:
        self.left = units

    def run(self, work: Work, units: Sequence[Unit], ahead: int | None = None) -> Iterator[tuple[Unit, Outcome]]:
        for unit in units:
            if self.left == 0:
                os._exit(9)
            self.left -= 1
            yield unit, work(unit.config)


def test_killed_at_random_moments_and_resumed_gives_the_same_scorecard(tmp_path: Path) -> None:
    quiet = reproduce("smoke", tmp_path / "quiet", only=CHEAP, engine=Processes(2))
    rng = random.Random(5)
    for resume in (False, True, True):
        child = os.fork()
        if child == 0:
            reproduce("smoke", tmp_path / "hit", only=CHEAP, engine=KilledAfter(rng.randint(1, 2)), resume=resume)
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
        rng.random()
    again = reproduce("smoke", tmp_path / "hit", only=CHEAP, resume=True)
    assert _same(again) == _same(quiet)
    assert all(part.core_seconds > 0 for part in again.parts)
    assert again.wall > 0


def test_the_command_writes_both_files_and_refuses_what_it_must(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def invoke(*arguments: str) -> tuple[int, str, str]:
        result = CliRunner().invoke(app, ["reproduce", *arguments])
        return result.exit_code, result.stdout, result.stderr

    out = tmp_path / "run"
    code, text, progress = invoke("--scale", "smoke", "--only", "gc-l2", "--out", str(out), "--engine", "local")
    assert code == 0
    assert "Statements of the sources: 3, of which 0 hold, 3 are undecided, 0 fail and 0 are not fitted." in text
    assert "All claims: 4, of which 0 hold, 4 are undecided, 0 fail and 0 are not fitted." in text
    assert "gc-l2 (1 of 1)" in progress
    rows = json.loads((out / "reproduction.json").read_text())
    assert {"experiment", "claim", "paper", "ours", "stderr", "verdict", "seconds"} <= set(rows[0])
    assert rows[0]["seconds"] > 0
    page = (out / "reproduction.md").read_text()
    assert "### `gc-l2`" in page
    assert "weight decay lowers complexity" in page

    for arguments, sentence in (
        (("--only", "figg9"), "did you mean 'fig9'"),
        (("--scale", "labtop"), "did you mean 'laptop'"),
        (("--scale", "smoke", "--only", "gc-l2", "--out", str(out)), "already holds a run of reproduction"),
        (("--scale", "smoke", "--only", "fig9", "--out", str(out), "--resume"), "belongs to another run"),
        (("--scale", "smoke", "--data-dir", str(out / "nowhere")), "is not a folder"),
    ):
        code, _, error = invoke(*arguments)
        assert (code, sentence in error, len(error.strip().splitlines())) == (2, True, 1), error

    monkeypatch.setattr(runs, "versions", lambda: {"netgrain": "9.9", "torch": "0", "python": "0"})
    code, _, error = invoke("--scale", "smoke", "--only", "gc-l2", "--out", str(out), "--resume")
    assert code == 2
    assert "was made by netgrain 0.1.0, this is 9.9" in error


def test_an_experiment_that_cannot_run_is_named_and_the_others_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def without_data(*_: object) -> None:
        raise NetgrainError("CIFAR-10 was not found.")

    _replace_run(monkeypatch, "gc-spectral", without_data)
    for resume in (False, True):
        found = reproduce("smoke", tmp_path / "run", only=["gc-spectral", "gc-l2"], resume=resume)
        by_name = {p.name: p for p in found.parts}
        assert by_name["gc-spectral"].problem == "CIFAR-10 was not found."
        assert by_name["gc-l2"].claims
        assert "`gc-spectral` was not run: CIFAR-10 was not found." in scorecard(found)
        assert [part.name for part in found.skipped] == ["gc-spectral"]


@pytest.mark.parametrize(("also", "claims"), [((), False), (("--only", "gc-l2"), True)])
def test_the_command_says_what_was_not_run_and_exits_with_2(
    also: tuple[str, ...], claims: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def without_data(*_: object) -> None:
        raise NetgrainError("CIFAR-10 was not found; fetch it.")

    out = ("--scale", "smoke", "--out", str(tmp_path / "run"), "--engine", "local")
    with monkeypatch.context() as missing:
        _replace_run(missing, "gc-spectral", without_data)
        result = CliRunner().invoke(app, ["reproduce", *out, "--only", "gc-spectral", *also])
    assert result.exit_code == 2
    last = result.stderr.strip().splitlines()[-1]
    assert last == (
        "error: gc-spectral was not run: CIFAR-10 was not found; fetch it. Then run the same command with --resume."
    )
    assert ("All claims: 4, of which" in result.stdout) == claims
    assert "0 claims" not in result.stdout
    again = CliRunner().invoke(app, ["reproduce", *out, "--only", "gc-spectral", *also, "--resume"])
    assert again.exit_code == 0
    assert "### `gc-spectral`" in (tmp_path / "run" / "reproduction.md").read_text()


def test_time_left_follows_the_expected_work() -> None:
    now = [0.0]
    clock = Clock({"fig1": 175.0, "x": 45.0}, lambda: now[0])
    assert clock.line("fig1") == "fig1 (1 of 2)"
    clock.done("fig1")
    now[0] = 60 * 175.0
    assert clock.line("x") == "x (2 of 2), 175.0 min so far, about 45.0 min left"


def test_the_data_folder_is_looked_in_and_left_as_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NETGRAIN_DATA", "before")
    with looking_in(tmp_path):
        assert os.environ["NETGRAIN_DATA"] == str(tmp_path)
    assert os.environ["NETGRAIN_DATA"] == "before"
    monkeypatch.delenv("NETGRAIN_DATA")
    with looking_in(tmp_path):
        pass
    assert "NETGRAIN_DATA" not in os.environ


def test_sweeps_are_drawn_side_by_side(tmp_path: Path) -> None:
    found = reproduce("smoke", tmp_path / "all", only=["gc-double-descent", "eq-uncertainty"], progress=False)
    assert [(part.name, [p.title for p in part.panels]) for part in found.parts] == [
        ("eq-uncertainty", []),
        ("gc-double-descent", ["Double descent"]),
    ]
    assert (tmp_path / "all" / "heuristics.png").read_bytes().startswith(b"\x89PNG")
