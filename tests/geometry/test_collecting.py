"""Members until there are enough: where it stops and what it has taken."""

from functools import partial

import pytest

import netgrain as ng
from netgrain.geometry.collecting import Collected, collect, schedule
from netgrain.models import LeNet
from netgrain.runtime.local import Local
from netgrain.runtime.progress import Bar
from netgrain.runtime.streams import MemberStream
from netgrain.runtime.units import Outcome


def test_tolerance_stops_when_the_estimate_is_good_enough() -> None:
    make = partial(LeNet, channels=1, image_size=16, outputs=1, activation="gelu")
    rough = ng.average_geometry(make, (1, 16, 16), tolerance=0.1, method="sampled")
    fine = ng.average_geometry(make, (1, 16, 16), tolerance=0.02, method="sampled")
    assert rough.members < fine.members
    assert fine.fidelity >= 0.98
    reference = ng.average_geometry(make, (1, 16, 16), members=700, seed=9)
    assert ng.corr(fine, reference).plug_in == pytest.approx(fine.fidelity, abs=0.01)


@pytest.mark.quick
def test_members_are_taken_in_order_until_the_tolerance_is_reached() -> None:
    def collected(corrs: list[float | None], **goal: float | None) -> tuple[Collected, list[int]]:
        stream = MemberStream(lambda members: [Outcome({"i": i}) for i in members], Local(), 5)
        taken: list[int] = []
        found = collect(
            stream, lambda sample: taken.append(sample.numbers["i"]), iter(corrs).__next__, Bar("", None, False), **goal
        )
        return found, taken

    found, taken = collected([0.5, 0.89, 0.9, 1.0], members=None, tolerance=0.1)
    assert found == Collected(18, reached=True)  # 8, 12, 18: each half as much again
    assert taken == list(range(18))
    assert collected([], members=7, tolerance=None) == (Collected(7), list(range(7)))
    unknown, _ = collected([None] * 20, members=None, tolerance=0.1)
    assert unknown == Collected(schedule(None)[9], reached=None)
    assert schedule(None)[8] < 256 <= schedule(None)[9]
