"""One row: which trainings its sweeps ask for, and the experiment they make."""

from dataclasses import replace

import pytest

from netgrain.complexity.sweeps import SweepCurve
from netgrain.experiments.heuristics.protocol import presets
from netgrain.experiments.heuristics.rows import Convolutional, Curves, Heuristic, Sweep

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
    falls, rises = [[4, 3, 2, 1], [6, 5, 4, 3], [5, 4, 2, 1]], [[1, 2, 3, 4], [3, 4, 5, 6], [1, 2, 4, 5]]
    for rows, verdict in ((falls, "holds"), (rises, "fails")):
        curve = SweepCurve((0.0, 0.1, 0.2, 0.3), {"complexity": rows}, [[True] * 4] * 3)
        found = Curves(experiment.PRESETS["laptop"], {"own": curve}, None)
        assert [(c.name, c.verdict) for c in experiment.claims(found)] == [("it falls", verdict)]
        assert [p.title for p in experiment.overview_panels(found)] == ["Own"]
        assert len(experiment.figure(found).axes) == 1


def test_the_convolutional_network_has_its_own_grid_and_training() -> None:
    both = replace(SWEEP, convolutional=Convolutional(grid=(0.0, 0.5), panel="Other"))
    row = replace(ROW, sweeps=(both,))
    scales = presets(100)
    first, second = row.sweeps_at(scales["laptop"])
    assert first == both
    assert (second.network, second.panel, second.label) == ("convnet", "Other", "own, convolutional")
    (plain, strong) = second.protocols(scales["laptop"], "cifar10").values()
    assert (plain.strength, strong.strength, strong.regularizer) == (0.0, 0.5, "L2")
    assert (strong.network, strong.data, strong.size, strong.samples) == ("convnet", "cifar10", 16, 256)
    assert (strong.settings["lr"], strong.settings["steps"]) == (0.2, 800)
    stops = replace(both, convolutional=Convolutional(grid=(0.0, 0.5), settings={"stop_at_loss": 1.0}))
    assert next(iter(stops.beside()[1].protocols(scales["laptop"]).values())).settings["steps"] == 4000
    assert row.sweeps_at(scales["paper"]) == (both,)
    curve = SweepCurve((0.0, 0.5), {"complexity": [[2, 1]]}, [[True] * 2])
    result = Curves(scales["laptop"], {"own": curve, "own, convolutional": curve}, None, "cifar10")
    assert [c.subject for c in row.claims(result)] == ["", "ConvNet on cifar10"]
