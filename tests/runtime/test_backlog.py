"""What is waiting, out, lost and late: the first answer counts."""

from contextlib import nullcontext

import pytest

from netgrain.runtime.backlog import Backlog, UnitLate, UnitLost


def test_the_first_answer_counts() -> None:
    now = [0.0]
    backlog = Backlog(3, ahead=2, deadline=10, clock=lambda: now[0])
    assert [backlog.take(), backlog.take(), backlog.take()] == [0, 1, None]  # two ahead of unit 0 at most
    assert backlog.done(1)
    assert backlog.take() is None
    now[0] = 11
    assert backlog.late() == [0]
    backlog.lost(0, "late")
    assert backlog.take() == 0
    now[0] = 25
    assert backlog.late() == []  # twice as long the second time
    assert backlog.patience() == 6
    assert backlog.done(0)
    assert not backlog.done(0)
    assert backlog.take() == 2
    assert not backlog.finished
    assert backlog.done(2)
    assert backlog.finished


def test_what_is_always_late_is_given_up_as_late() -> None:
    """Costs ask for this kind of error: a unit that takes too long is measured as such."""
    backlog = Backlog(1, deadline=1, attempts=2)
    for last in (False, True):
        assert backlog.take() == 0
        given_up = pytest.raises(UnitLate, match=r"no answer within the deadline.*try a longer deadline")
        with given_up if last else nullcontext():
            backlog.overdue(0)
    other = Backlog(1, attempts=1)
    other.take()
    with pytest.raises(UnitLost, match="lost 1 times") as caught:
        other.lost(0, "its process ended")
    assert not isinstance(caught.value, UnitLate)
