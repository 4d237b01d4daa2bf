"""One row: which trainings its sweeps ask for, and the experiment they make."""

from dataclasses import replace

import pytest

from netgrain.complexity.sweeps import SweepCurve
from netgrain.experiments.heuristics.protocol import presets
from netgrain.experiments.heuristics.rows import Curves, Heuristic, Sweep

SWEEP = Sweep(
    label="own", setting="strength", grid=(0.0, 0.1, 0.2), paper_grid=(0.0, 9.0), regularizer="L2",
    settings={"lr": 0.5}, steps=7, panel="Own", claim="it falls", sign=-1,
)  # fmt: skip
ROW = Heuristic(name="gc-own", title="Own", cost=1.0, steps=100, sweeps=(SWEEP,))


@pytest.mark.quick
def test_the_trainings_of_a_sweep() -> None:
    scales = presets(100)
    laptop = SWEEP.protocols(scales["laptop"])
    assert [p.strength for p in laptop.values()] == list(laptop) == [0.0, 0.1, 0.2]
    assert {(p.regularizer, p.settings["lr"], p.settings["steps"]) for p in laptop.values()} == {("L2", 0.5, 7)}
    assert list(SWEEP.protocols(scales["smoke"])) == [0.0, 0.2]  # every second one
    paper = SWEEP.protocols(scales["paper"])
    assert list(paper) == [0.0, 9.0]
    assert {p.settings["steps"] for p in paper.values()} == {10_000}
    rates = replace(SWEEP, vary="lr").protocols(scales["laptop"])
    assert [(p.settings["lr"], p.strength) for p in rates.values()] == [(0.0, 0.0), (0.1, 0.0), (0.2, 0.0)]


def test_a_row_is_an_experiment() -> None:
    experiment = ROW.experiment()
    assert (experiment.name, experiment.study, experiment.title) == ("gc-own", "complexity", "Own")
    assert set(experiment.PRESETS) == {"smoke", "laptop", "paper"}
    for rows, verdict in (([[3, 2, 1], [5, 4, 3], [4, 2, 1]], "holds"), ([[1, 2, 3], [3, 4, 5], [1, 2, 4]], "fails")):
        curve = SweepCurve((0.0, 0.1, 0.2), {"complexity": rows}, [[True] * 3] * 3)
        found = Curves(experiment.PRESETS["laptop"], {"own": curve}, None)
        assert [(c.name, c.verdict) for c in experiment.claims(found)] == [("it falls", verdict)]
        assert [p.title for p in experiment.overview_panels(found)] == ["Own"]
        assert len(experiment.figure(found).axes) == 1
