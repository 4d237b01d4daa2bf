"""Pictures of sweeps: panels, what stands in them, and accuracy where there is one."""

import pytest

from netgrain.complexity.sweeps import SweepCurve
from netgrain.experiments.heuristics.drawing import complexity, draw, overview
from netgrain.experiments.heuristics.panels import Panel

VALUES, ROWS = (0.0, 0.1, 1.0, 2.0), [[4.0, 3.0, 2.0, 1.0], [5.0, 4.0, 3.0, 2.0]]
PLAIN = SweepCurve(VALUES, {"complexity": ROWS}, [[True] * 4, [True, True, True, False]])
TESTED = SweepCurve(VALUES, {"complexity": ROWS, "accuracy": [[0.9, 0.8, 0.7, 0.6]] * 2}, [[True] * 4] * 2)


@pytest.mark.quick
def test_a_column_for_each_panel_and_accuracy_below() -> None:
    assert len(draw([Panel("a", PLAIN, "strength")] * 3).axes) == 3
    axes = draw([Panel("a", PLAIN, "strength"), Panel("b", TESTED, "rate", network="ConvNet")]).axes
    assert [ax.get_title().split("\n")[0] for ax in axes] == ["a", "b", "", ""]
    assert [ax.axison for ax in axes] == [True, True, False, True]
    assert axes[1].get_title() == "b\nConvNet: rho −1.00 (2 seeds)"
    assert axes[0].get_title().endswith("(1 seeds, 1 runs missed)")  # three points have no rank correlation
    assert axes[3].get_xlabel() == "rate"
    assert list(axes[3].lines[0].get_ydata()) == pytest.approx([90, 80, 70, 60])


def test_many_panels_stand_in_rows_of_four() -> None:
    axes = draw([Panel(name, TESTED, "rate") for name in "abcdef"]).axes
    titles = [ax.get_title().split("\n")[0] for ax in axes]
    assert titles == ["a", "b", "c", "d", "", "", "", "", "e", "f", "", "", "", "", "", ""]
    assert [ax.axison for ax in axes] == [True] * 8 + [True, True, False, False] * 2


def test_a_line_for_each_seed_their_mean_and_a_mark_where_one_missed() -> None:
    ax = complexity(Panel("a", PLAIN, "strength"), draw([Panel("a", TESTED, "x")]).axes[1])
    lines = [list(line.get_ydata()) for line in ax.lines]
    assert all(row in lines for row in ROWS)
    marks = [tuple(place) for c in ax.collections for place in c.get_offsets().tolist()]
    assert (3.0, 2.0) in marks
    assert [t.get_text() for t in ax.get_xticklabels()] == ["0", "0.1", "1", "2"]


def test_the_overview_hides_places_that_are_left() -> None:
    axes = overview([Panel(name, PLAIN, "strength", caption="said") for name in "abcde"]).axes
    assert [ax.axison for ax in axes] == [True] * 5 + [False] * 3
    assert axes[4].get_title() == "e\nsaid"
