"""Words around a curve: every measure that a row or a panel names has them."""

import pytest

from netgrain.complexity.sweeps import SweepCurve
from netgrain.experiments.heuristics.panels import MEASURES, Panel
from netgrain.experiments.heuristics.table import HEURISTICS


@pytest.mark.quick
def test_every_measure_has_words() -> None:
    assert {sweep.measure for row in HEURISTICS for sweep in row.sweeps} <= set(MEASURES)
    curve = SweepCurve((1.0,), {"margin_complexity": [[1.0]]}, [[True]])
    assert Panel("a", curve, "rate", "margin_complexity").axis == "complexity / median margin²"
    assert Panel("a", curve, "rate").axis == "geometric complexity"
