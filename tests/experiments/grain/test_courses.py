"""Networks on their way: members that diverged, both labels, the MLP along the directions of others."""

import pytest
import torch

from netgrain.experiments.grain import courses, fig2
from netgrain.experiments.grain.trials import Trials
from netgrain.runtime.units import Outcome
from tests.experiments.grain.made_up_courses import rows

BAD = Outcome({"diverged": True, "train": [], "test": []}, {"rows": torch.zeros(0)})


def _good(i: int) -> Outcome:
    numbers = {"diverged": False, "train": [50.0, 60.0], "test": [50.0, 40.0]}
    return Outcome(numbers, {"rows": rows(1, 2, seed=i)[0]})


def _target() -> Outcome:
    eye, G = torch.eye(6, dtype=torch.float64), torch.diag(torch.arange(6.0, 0, -1)).double()
    return Outcome({"dimension": 1, "twins": []}, {"G": G, "GSG": eye, "S": eye, "top": eye[:, :1]})


def test_diverged_members_leave_a_course() -> None:
    slope = courses.mean_slope([Outcome({"slopes": [1.0, None, 3.0]})])
    assert (slope.value, slope.n) == (2.0, 2)
    trials = Trials([*([_good(i)] for i in range(6)), [BAD]])
    course = courses.course_of([0, 5], trials, _target(), slope)
    assert (course.members, course.left_out) == (6, 1)
    assert [v.value for v in course.train] == [50.0, 60.0]
    assert course.corr["S"][1].value == pytest.approx(course.corr["I"][1].value)
    assert course.apart.value == pytest.approx(0)  # GSG is S here
    assert course.labels is None
    gone = courses.course_of([0, 5], Trials([[BAD], [BAD]]), _target(), slope)
    none = fig2.Result(fig2.PRESETS["smoke"], {"LeNet": gone}, "digits")
    assert {c.verdict for c in fig2.claims(none) if "slope" not in c.name} == {"undecided"}
    assert "2 diverged" in fig2.claims(none)[0].note


@pytest.mark.quick
def test_labels_are_compared_on_the_same_members() -> None:
    slope = courses.mean_slope([Outcome({"slopes": [1.0, 2.0]})])
    alike = Trials([[_good(i), _good(i)] for i in range(4)])
    same = courses.course_of([0, 5], alike, _target(), slope).labels
    assert same is not None
    assert same.early.value == pytest.approx(0, abs=1e-9)
    assert same.early.stderr == pytest.approx(0, abs=1e-9)
    only = Trials([*alike.rows[:3], [_good(7)]])  # one member without random labels
    course = courses.course_of([0, 5], only, _target(), slope)
    assert course.members == 4
    assert course.labels is not None
    assert course.labels.early.n == 3
    other = Trials([[_good(i), _good(i + 10)] for i in range(4)])
    apart = courses.course_of([0, 5], other, _target(), slope).labels
    assert apart is not None
    assert abs(apart.early.value) > 1e-3


def test_the_mlp_along_the_directions_of_others() -> None:
    slope = courses.mean_slope([Outcome({"slopes": [1.0, 2.0]})])
    course = courses.course_of([0, 5], Trials([[_good(i)] for i in range(4)]), _target(), slope)
    found = courses.beside_mlp({"MLP": course, "LeNet": course}, rows(4, 2, seed=9))
    assert found["MLP"].beside is None
    assert found["LeNet"].beside is not None
    assert found["LeNet"].beside.directions is course.change.directions
    assert found["LeNet"].beside.absolute[0].value != course.change.absolute[0].value
