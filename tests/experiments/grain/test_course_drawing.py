"""Figures 2 and 8: courses above, changes by index below."""

import pytest

from netgrain import Estimate
from netgrain.experiments.grain.course_drawing import draw_courses
from tests.experiments.grain.made_up_courses import course


@pytest.mark.quick
def test_two_panels_for_each_network() -> None:
    yes, no = Estimate(0.2, 0.01, 8), Estimate(-0.2, 0.01, 8)
    courses = {"MLP": course(yes, no, yes, kind="one", beside=False), "LeNet": course(yes, no, yes)}
    figure = draw_courses("made up", courses)
    above = [a for a in figure.axes if a.get_xlabel() == "step"]
    below = [a for a in figure.axes if a.get_xlabel() == "index of u + 1"]
    assert (len(above), len(below)) == (2, 2)
    assert {a.get_xscale() for a in below} == {"log"}
    assert [t.get_text() for t in below[1].get_legend().get_texts()] == ["LeNet", "MLP along the same u"]
    assert any("random labels" in str(line.get_label()) for line in above[0].lines)
