"""Weak directions: units of a run, made-up cells with known verdicts, and what the figure draws."""

from dataclasses import replace

import pytest

from netgrain.auditing.words import Cell
from netgrain.experiments.learnability import weak_directions
from netgrain.experiments.learnability.weak_directions import PRESETS, Config, Result, claims, recipes_of
from netgrain.runtime.errors import NetgrainError
from netgrain.runtime.run_folder import RunFolder
from netgrain.runtime.runners import Runner
from tests.experiments.conftest import SmokeRun

BASE = Cell("task", "net", "convolutional", "none", "SGD", True, False, 1e-3, 1e-3, 30.0, 0.0, 0.5)


def made_up(reached: float) -> Result:
    """Nine pairs, with and without batch norm, SGD and AdamW: weak ones learnt up to `reached`, lost ones never."""
    cells = []
    for i in range(9):
        for norm in ("none", "batch"):
            for optimiser in ("SGD", "AdamW"):
                base = replace(BASE, task=f"task {i}", norm=norm, optimiser=optimiser)
                cells += [replace(base, reached=reached), replace(base, gain=1e-7, linear=2.0, reached=50.0)]
                cells.append(replace(base, lost=True, gain=0.0, reached=0.3))
    return Result(Config(), tuple(cells))


def test_verdict_seeds_are_not_the_pilot_s() -> None:
    assert all(config.first_seed == 0 for config in PRESETS.values())
    assert PRESETS["laptop"].seeds == 3
    assert len(PRESETS["laptop"].chosen()) >= 8
    with pytest.raises(NetgrainError, match="pair"):
        Config(pairs=("nothing",)).chosen()


def test_claims_on_made_up_cells() -> None:
    """Cells in which a linear rule finds nothing do not count, whatever was reached."""
    names = [*recipes_of(made_up(0.0).counted)]
    assert names == [f"{o}, {n}" for n in ("no normalisation", "normalised") for o in ("SGD", "AdamW")] + ["all"]
    never = claims(made_up(0.0))
    assert [c.verdict for c in never] == ["holds"] * 6
    assert "0 of 36 cells learnt, 9 pairs" in never[0].note
    always = claims(made_up(40.0))
    assert [c.verdict for c in always] == ["holds"] + ["fails"] * 5
    assert "no gain above zero up to which none learnt: 0 of 36 cells of 9 pairs" in always[-1].note


def test_the_weakest_is_also_trained_in_its_own_size() -> None:
    blocks = [{"linear": 30, "lost": False}, {"linear": 12, "lost": False}, {"linear": 9, "lost": False}]
    lost = {"linear": 40, "lost": True}
    assert weak_directions.trained_blocks([*blocks, lost], 3) == [(0, True), (1, True), (3, True), (1, False)]
    assert weak_directions.trained_blocks([*blocks, lost], 1) == [(1, True), (3, True), (1, False)]
    assert weak_directions.trained_blocks([lost], 3) == [(0, True)]


def test_units_of_a_run(smoke_run: SmokeRun) -> None:
    """One pair, two normalisations; one block and what is lost, two optimisers, and one block in its own size."""
    folder = RunFolder.open(smoke_run("weak-directions"))
    assert len(list((folder.path / "units").iterdir())) == 2 + 2 * 2 * 3
    result = weak_directions.run(PRESETS["smoke"], Runner(folder))
    lost = [c for c in result.cells if c.lost]
    assert len(lost) == 4
    assert all(abs(c.reached) < 3 * c.stderr + 5 for c in lost)
    strong = result.some(optimiser="AdamW", lost=False, scaled=True)
    assert all(c.gain > 1 and c.learnt for c in strong)
    one = weak_directions.merged([folder.path])
    assert one.cells == result.cells
    assert weak_directions.words(one).count("means of 2 x 2") == 1 + len(one.cells)
    figure = weak_directions.figure(result)
    assert figure.axes[0].get_title() == "SGD, without normalisation"
