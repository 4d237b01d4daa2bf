"""Panels, curves with errors, and the legend below."""

import math

import pytest

from netgrain.experiments.grain.drawing import band, error_bars, legend_below, panels
from netgrain.geometry.estimate import Estimate

POINTS = [Estimate(1.0, 0.5, 3), Estimate(2.0, math.nan, 1)]


@pytest.mark.quick
def test_errors_are_drawn_where_there_are_some() -> None:
    figure, (left, right) = panels("title", (4, 2), rows=1, columns=2)
    error_bars(left, [0, 1], POINTS, fmt="o", label="points")
    bars = left.containers[0].lines[2][0].get_segments()
    assert [tuple(bar[:, 1]) for bar in bars] == [(0.5, 1.5), (2.0, 2.0)]
    band(right, [0, 1], POINTS, alpha=0.2, color="#0072b2")
    edges = right.collections[0].get_paths()[0].vertices
    assert {tuple(v) for v in edges} == {(0.0, 0.5), (0.0, 1.5), (1.0, 2.0)}
    legend_below(figure, left.get_legend_handles_labels()[0], columns=1)
    assert [t.get_text() for t in figure.legends[0].get_texts()] == ["points"]
    assert figure.get_suptitle() == "title"
