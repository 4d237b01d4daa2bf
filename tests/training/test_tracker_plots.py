"""A tracker is drawn from the panels it declares, whatever they are called."""

from __future__ import annotations

import pytest

from netgrain.training.tracker_plots import PALETTE, draw
from tests.training.test_tracking import Counter


@pytest.mark.quick
def test_panels_are_drawn_as_they_are_declared() -> None:
    tracker = Counter(every=5)
    for step in (0, 5, 10):
        tracker(step)
    figure = draw(tracker, log_steps=True)
    plain, relative = figure.axes
    assert [plain.get_title(), relative.get_title()] == ["Count", "Both"]
    assert list(plain.lines[0].get_ydata()) == [1, 2, 3]
    assert len(plain.collections) == 1  # the error band
    assert plain.get_legend() is None
    _, squared = relative.lines
    assert list(squared.get_ydata()) == [1, 4, 9]
    assert (squared.get_linestyle(), squared.get_color()) == ("--", PALETTE[1])
    assert [text.get_text() for text in relative.get_legend().get_texts()] == ["counted", "squared"]
    assert plain.get_xscale() == "symlog"


def test_relative_means_over_the_first_value_that_is_a_number() -> None:
    tracker = Counter()
    values = {"count": [[float("nan")], [0.0], [4.0]], "square": [[2.0], [3.0], [1.0]]}
    tracker._resume({**tracker._state(), "steps": [0, 1, 2], "values": values}, "a file")
    relative = draw(tracker).axes[1]
    assert list(relative.lines[0].get_ydata())[1:] == [0.0, 1.0]
    assert list(relative.lines[1].get_ydata()) == [1.0, 1.5, 0.5]
    assert draw(Counter()).axes[0].lines  # nothing measured yet
