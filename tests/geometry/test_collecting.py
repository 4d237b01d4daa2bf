"""Members until there are enough: where it stops and what it has taken."""

from functools import partial

import pytest

import netgrain as ng
from netgrain.geometry.collecting import collect, schedule
from netgrain.geometry.provenance import Provenance
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
    reference = ng.average_geometry(make, (1, 16, 16), members=350, seed=9)
    assert ng.corr(fine, reference).plug_in == pytest.approx(fine.fidelity, abs=0.015)


@pytest.mark.quick
def test_members_are_taken_in_order_until_the_tolerance_is_reached() -> None:
    def collected(
        corrs: list[float | None], members: int | None = None, tolerance: float | None = None
    ) -> tuple[int, bool | None, float, list[int]]:
        stream = MemberStream(lambda members: [Outcome({"i": i}) for i in members], Local(), 5)
        taken: list[int] = []
        left = iter(corrs)

        def take(sample: Outcome) -> bool:
            taken.append(sample.numbers["i"])
            return sample.numbers["i"] < 2

        bar, about = Bar("", None, False), Provenance("sampled")
        found = collect(
            stream, about, take, lambda _: next(left), stops=schedule(members), tolerance=tolerance, bar=bar
        )
        assert found.tolerance == tolerance
        return found.members, found.reached, found.zero_share, taken

    # 8, 12, 18: each half as much again
    assert collected([0.5, 0.89, 0.9, 1.0], tolerance=0.1) == (18, True, 2 / 18, list(range(18)))
    assert collected([], members=7) == (7, None, 2 / 7, list(range(7)))
    assert collected([None] * 20, tolerance=0.1)[:2] == (schedule(None)[9], None)
    assert schedule(None)[8] < 256 <= schedule(None)[9]


def test_a_tolerance_out_of_reach_is_given_up() -> None:
    """Corr 0.05 of nine members would take 180,000 of them, and at most 24 are sampled."""

    def members(corr: float, *, give_up: bool) -> int:
        stream = MemberStream(lambda members: [Outcome() for _ in members], Local(), 5)
        stops = schedule(None, first=4, most=24)
        bar, about = Bar("", None, False), Provenance("sampled")
        found = collect(
            stream, about, lambda _: False, lambda _: corr, stops=stops, tolerance=0.01, bar=bar, give_up=give_up
        )
        assert found.reached is False
        return found.members

    assert members(0.05, give_up=True) == 9
    assert members(0.05, give_up=False) == members(0.95, give_up=True) == 24
