"""The experiment from its units to claims and figure."""

from pathlib import Path

import numpy as np
import pytest

from netgrain import GrainWarning, NetgrainError
from netgrain.experiments.learnability import validity
from netgrain.experiments.learnability.networks import NETWORKS
from netgrain.experiments.learnability.tasks import named, task_data
from netgrain.experiments.learnability.validity import PRESETS, Config, Result, claims, figure
from netgrain.experiments.registry import preset, run_experiment
from netgrain.runtime.run_folder import RunFolder
from netgrain.runtime.runners import Runner
from tests.experiments.conftest import SmokeRun
from tests.experiments.learnability.made_up_pairs import made_up_pairs


def test_scales() -> None:
    """Only the overnight run touches verdict tasks, and it has every network and three seeds."""
    assert {scale for scale, config in PRESETS.items() if config.part == "verdict"} == {"overnight"}
    night = PRESETS["overnight"]
    assert night.networks == tuple(NETWORKS)
    assert night.seeds == 3
    assert len(night.chosen()) >= 16
    assert all(task.part == "verdict" for task in night.chosen())
    assert len(PRESETS["laptop"].chosen()) == 16
    with pytest.raises(NetgrainError, match="overnight"):
        preset("fig9", "overnight")
    with pytest.raises(NetgrainError, match="did you mean 'verdict'"):
        Config(part="verdicts", networks=("MLP",), seeds=1, epochs=1).chosen()


def test_units_of_a_run(smoke_run: SmokeRun) -> None:
    """Two sources, four predictions, two tasks, and two seeds of four pairs, of which the first searches rates."""
    folder = RunFolder.open(smoke_run("validity"))
    result = validity.run(PRESETS["smoke"], Runner(folder))
    assert len(list((folder.path / "units").iterdir())) == 2 + 4 + 2 + 8
    pairs = result.pairs
    assert pairs.reached.shape == (2, 2)
    assert all(r.shape == (2, 60) for r in pairs.right.values())
    for (t, j), right in pairs.right.items():
        assert pairs.reached[t, j] == pytest.approx(right.mean())
    assert np.array_equal(pairs.predicted["fixed ranking"], pairs.reached[::-1])
    assert (pairs.predicted["neighbours"][:, 0] == pairs.predicted["neighbours"][:, 1]).all()
    assert np.isnan(pairs.predicted["trial"]).all()
    assert "2 tasks, 4 pairs, 2 seeds" in result.remarks


def test_the_rate_of_later_seeds_is_the_first_ones() -> None:
    task = named("digits").smaller(60, 40)
    unit = validity._unit(
        "training", task, network="linear", seed=0, rates=[1e-3, 3.16e-3], epochs=2, patience=5, cooling=1
    )
    first = validity._trained(unit)
    assert len(first.numbers["rates"]) >= 3  # the best of two is at the edge
    again = validity._trained({**unit, "rates": [first.numbers["rate"]]})
    assert again.numbers["test"] == first.numbers["test"]
    assert list(again.numbers["rates"]) == [f"{first.numbers['rate']:g}"]
    other = validity._trained({**unit, "rates": [first.numbers["rate"]], "seed": 1})
    assert not np.array_equal(other.arrays["right"], first.arrays["right"])
    assert first.arrays["right"].shape == task_data(task).test[1].shape


def test_a_source_that_is_missing_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(validity, "problem_with", lambda source: "it is not here." if source == "digits" else "")
    with pytest.warns(GrainWarning, match=r"tasks on digits are left out \(1\): it is not here"):
        finished = run_experiment("validity", "smoke", tmp_path / "run", changes={"networks": ("linear",), "seeds": 1})
    assert "left out for want of data: digits" in finished.claims[0].note
    assert "1 tasks, 1 pairs" in finished.claims[0].note
    monkeypatch.setattr(validity, "problem_with", lambda source: "it is not here.")
    with pytest.raises(NetgrainError, match="no task can be read: it is not here"):
        run_experiment("validity", "smoke", tmp_path / "none")


def test_figure_and_remarks_of_made_up_pairs() -> None:
    pairs = made_up_pairs(off=0.2)
    pairs.train[0, 0] = 0.5
    result = Result(PRESETS["overnight"], pairs, {"mnist": "it is not here."}, edges=2)
    drawn = figure(result)
    (ax,) = drawn.axes
    points = {tuple(p) for c in ax.collections for p in np.asarray(c.get_offsets()).round(6).tolist()}
    expected = np.stack([100 * pairs.predicted["kernel"], 100 * pairs.reached], -1).reshape(-1, 2).round(6)
    assert {tuple(p) for p in expected.tolist()} <= points
    assert "12 verdict tasks, 4 networks, 48 pairs" in ax.get_title()
    note = claims(result)[0].note
    assert "1 pairs with training accuracy below 95%" in note
    assert "2 with the best rate at the edge" in note
