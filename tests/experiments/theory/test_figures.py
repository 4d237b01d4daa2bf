"""Figures 7 and 15 show what was measured."""

from netgrain.experiments.theory import figures, theorems
from netgrain.experiments.theory.statements import (
    Job,
)

JOB = Job()


def test_figures_show_what_was_measured() -> None:
    found = figures.curves(JOB)
    assert [c.panel for c in found] == ["a", "b"]
    for curve in found:
        for value, exact in zip(curve.measured, curve.exact, strict=True):
            assert abs(abs(value.value) - exact) < 4 * value.stderr
    drawn = figures.figure_7(found)
    assert len(drawn.axes) == 2
    arrows = figures.figure_15(theorems.example_geometry()).axes[0]
    assert sorted(t.get_text().split("\n")[0] for t in arrows.texts) == ["(1, 2, 1)", "(1, −1, 1)", "(−1, 0, 1)"]
