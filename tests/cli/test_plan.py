"""--dry-run and `netgrain plan`: what they print, and what they refuse."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from netgrain.cli.app import app
from netgrain.cli.plan import plan_experiments
from netgrain.runtime import cost as planning
from netgrain.runtime.cost import Cost, Stage

GB = 10**9


def invoke(*words: str) -> Result:
    return CliRunner().invoke(app, words)


def test_several_experiments_in_one_table(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def planned(name: str, *_: Any, **__: Any) -> Cost:
        return Cost([Stage("few", 1, 0, 10.0, 10.0, GB, 1000), Stage("many", 9, 0, 1.0, 2.0, 10, 0)], ["it depends"])

    monkeypatch.setattr("netgrain.experiments.registry.plan_experiment", planned)
    whole = plan_experiments(["a", "b"], "smoke", {"a": tmp_path, "b": tmp_path})
    assert [(s.label, s.units, s.seconds, s.memory) for s in whole.stages] == [("a", 10, 1.9, GB), ("b", 10, 1.9, GB)]
    assert whole.disk == 2000
    assert whole.notes == ["a, b: it depends"]


def test_dry_runs_on_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    command = ["geometry", "lenet:activation=gelu", "--input", "1x16x16", "--members", "100", "--workers", "2"]
    told = invoke(*command, "--dry-run", "--json")
    assert told.exit_code == 0
    report = json.loads(told.stdout)
    assert (report["units"], report["workers"], report["disk"]) == (25, 2, 0)
    assert report["memory_per_unit"] > 0
    assert report["seconds"]["2"] > 0
    assert "there is a closed form" in invoke("plan", "geometry", "lenet", "--input", "1x16x16").stdout
    assert "units" in invoke("plan", "run", "gc-double-descent", "--scale", "smoke").stdout
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setattr(planning, "free_memory", lambda: 1000)
    wrong = invoke("plan", "doctor")
    assert (wrong.exit_code, wrong.stderr[:37]) == (2, "error: plan expects a command of geom")
    refused = invoke("plan", *command)
    assert refused.exit_code == 2
    assert "does not fit" in refused.stderr
