"""Trainings in cells and seeds: seeds that leave, seeds that are added, notes."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch

from netgrain.experiments.grain import trials
from netgrain.experiments.grain.grains import model_config
from netgrain.experiments.grain.trials import (
    Trials,
    curve_of,
    drawn,
    joined,
    left_out,
    settings_of,
    trained_accuracy,
    until_decided,
)
from netgrain.runtime.run_folder import RunFolder
from netgrain.runtime.runners import Runner
from netgrain.runtime.units import Outcome
from netgrain.training import Settings


@pytest.fixture
def runner(tmp_path: Path) -> Any:
    with RunFolder.create(tmp_path / "run", experiment="x", scale="s", config={}, resume=False) as folder:
        yield Runner(folder)


def test_diverged_seeds_leave_as_wholes() -> None:
    def row(*shares: float | None) -> list[Outcome]:
        return [Outcome({"diverged": share is None, "test": share}) for share in shares]

    found = Trials([row(0.5, 0.25), row(0.5, None), row(1.0, 0.75)])
    assert found.left_out == 1
    assert found.per_cent("test") == {0: [50, 25], 2: [100, 75]}
    assert found.columns("test", ("a", "b")) == {"a": [50, 100], "b": [25, 75]}
    assert Trials([row(None)]).columns("test", ("a",)) == {"a": []}


def _work(unit: Mapping[str, Any]) -> Outcome:
    return Outcome({"diverged": unit["seed"] == 1, "cell": unit["cell"], "seed": unit["seed"]})


def test_seeds_go_to_what_is_undecided(runner: Runner) -> None:
    asked: list[dict[str, int]] = []

    def result(found: Mapping[str, Trials]) -> dict[str, int]:
        for cell, t in found.items():  # every cell has its own outcomes, seed by seed
            assert [[(o.numbers["cell"], o.numbers["seed"]) for o in row] for row in t.rows] == [
                [(cell, seed)] * 2 for seed in range(len(t.rows))
            ]
        asked.append({cell: len(t.rows) for cell, t in found.items()})
        return asked[-1]

    def undecided(result: Mapping[str, int]) -> list[str]:
        return [c for c, needed in {"a": 1, "b": 5, "c": 99}.items() if result[c] < needed] + ["not a cell"]

    def units(cell: str, seed: int) -> list[dict[str, Any]]:
        return [{"cell": cell, "seed": seed, "part": part} for part in range(2)]

    cells = {"a": (2, 7), "b": (2, 7), "c": (3, 6)}
    options: dict[str, Any] = {"result": result, "undecided": undecided, "step": 2}
    assert until_decided(runner, _work, units, cells, **options) == {"a": 2, "b": 6, "c": 6}
    assert asked == [{"a": 2, "b": 2, "c": 3}, {"a": 2, "b": 4, "c": 5}, {"a": 2, "b": 6, "c": 6}]
    assert runner.computed == 2 * (2 + 6 + 6)
    read_only = Runner(RunFolder.open(runner.folder.path))
    more = {**cells, "c": (6, 9)}
    assert until_decided(read_only, _work, units, more, **options) == {"a": 2, "b": 2, "c": 6}
    fewer = dict.fromkeys(cells, (2, 1))  # at most one, but two are there to begin with
    assert until_decided(runner, _work, units, fewer, **options) == dict.fromkeys(cells, 2)


def test_images_are_read_only_where_something_is_missing(runner: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    read = []
    monkeypatch.setattr(trials, "pictures", lambda **images: read.append(images))

    def units(cell: str, seed: int) -> list[dict[str, Any]]:
        return [{"cell": cell, "seed": seed}]

    for _ in range(2):
        until_decided(
            runner, _work, units, {"a": (1, 1)}, result=len, undecided=lambda _: (), images={"name": "made up"}
        )
    assert read == [{"name": "made up"}]


def test_a_training_is_tested() -> None:
    unit = {"model": model_config("MLP", (1, 4, 4), activation="relu", width=0.1), "device": "cpu", "seed": 0}
    X, y = torch.randn(8, 1, 4, 4, generator=torch.Generator().manual_seed(0)), torch.arange(8) % 2
    tests = {"right": (X, y), "wrong": (X, 1 - y)}
    found = trained_accuracy(unit, X, y, Settings(steps=2, batch=4), tests)
    assert not found["diverged"]
    assert found["right"] == found["train"] == pytest.approx(1 - found["wrong"])
    assert found["distance"] > 0
    wild = trained_accuracy(unit, 1e6 * X, y, Settings(steps=20, batch=4, lr=1e30), tests)
    assert wild == {"diverged": True, "right": None, "wrong": None, "train": None, "distance": None}


def test_settings_of_a_unit() -> None:
    unit = {"lr": 0.2, "batch": 64, "clip": None, "other": 1}
    assert settings_of(unit, steps=5) == Settings(lr=0.2, batch=64, clip=None, steps=5, decay="linear")
    assert settings_of(unit, steps=5, weight_decay=0.1).weight_decay == 0.1


def test_seeds_draw_their_own_samples() -> None:
    X = torch.zeros(10, 3)
    assert len(set(drawn(X, 4, 0, "x").tolist())) == 4
    assert torch.equal(drawn(X, 4, 0, "x"), drawn(X, 4, 0, "x"))
    assert not torch.equal(drawn(X, 10, 0, "x"), drawn(X, 10, 1, "x"))
    assert not torch.equal(drawn(X, 10, 0, "x"), drawn(X, 10, 0, "y"))
    assert len(drawn(X, 99, 0, "x")) == 10


def test_curves_and_notes() -> None:
    assert [(p.value, p.n) for p in curve_of([[1.0, 2.0], [3.0, 6.0]])] == [(2.0, 2), (4.0, 2)]
    assert curve_of([]) == []
    assert joined("a", "", "b") == "a; b"
    assert (left_out(0), left_out(2, "pairs")) == ("", "2 diverged pairs left out")
