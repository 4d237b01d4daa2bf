"""The experiment from its units to claims and figure."""

import numpy as np
import pytest

from netgrain.experiments.learnability import advice
from netgrain.experiments.learnability.advice import FIRST, PLAIN, PRESETS, Followed, Result, claims, figure
from netgrain.experiments.learnability.advice_networks import listed
from netgrain.runtime.run_folder import RunFolder
from netgrain.runtime.runners import Runner
from tests.experiments.conftest import SmokeRun


def test_scales() -> None:
    """Smoke touches tuning pairs alone; the others have every verdict pair and several draws."""
    assert {scale for scale, config in PRESETS.items() if config.part == "tuning"} == {"smoke"}
    for scale in ("laptop", "overnight"):
        config = PRESETS[scale]
        assert len(config.chosen()) >= 10
        assert config.draws >= 3
        assert config.seeds >= 2


def test_units_of_a_run(smoke_run: SmokeRun) -> None:
    folder = RunFolder.open(smoke_run("advice"))
    result = advice.run(PRESETS["smoke"], Runner(folder))
    assert len(result.pairs) == 2
    for p in result.pairs:
        assert p.right[PLAIN].shape == p.right[FIRST].shape == (2, 40)
        assert len(p.randoms) == 1
        assert p.gain == pytest.approx(p.reached(FIRST) - p.reached(PLAIN))
    assert "no verdict" in claims(result)[0].note


def made_up(gain: float, random: float, predicted: float) -> Followed:
    """Of 100 tests 50 are right as it is; exact numbers of the others for two seeds."""

    def right(points: float) -> np.ndarray:
        row = np.arange(100) < round(points)
        return np.stack([row, row])

    pair = next(p for p in listed().values() if p.part == "verdict")
    many = {PLAIN: right(50), FIRST: right(50 + gain), "a": right(50 + random), "b": right(50 + random + 2)}
    return Followed(pair, "advised", "do it", predicted, 3.0, many)


def test_claims_by_hand() -> None:
    pairs = [made_up(10, 1, 12), made_up(8, 0, 7), made_up(12, 2, 10), made_up(9, 1, 30)]
    share, above, size, against, inside, *each = claims(Result(PRESETS["laptop"], pairs))
    assert share.value == 1.0
    assert (above.value, above.verdict) == (pytest.approx(9.75), "holds")
    assert (size.value, size.verdict) == (pytest.approx(9.75), "holds")
    assert against.value == pytest.approx(9.75 - 2)  # a random change gains 1 on average, and one more for "b"
    assert against.verdict == "holds"
    assert inside.value == 0.75
    assert len(each) == 4
    assert "50.0 → 60.0, predicted +12.0" in each[0].note
    bad = claims(Result(PRESETS["laptop"], [made_up(-5, 1, 3), made_up(-4, 1, 3), made_up(-6, 1, 3)]))
    assert [c.verdict for c in bad[:4]] == [
        "undecided",
        "fails",
        "fails",
        "fails",
    ]


def test_figure() -> None:
    drawn = figure(Result(PRESETS["laptop"], [made_up(10, 1, 12), made_up(-3, 0, 7)]))
    (ax,) = drawn.axes
    points = {round(float(x), 6) for line in ax.lines for x in line.get_xdata()}
    assert {60.0, 47.0, 50.0, 51.0} <= points
