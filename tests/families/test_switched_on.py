"""A family that is switched on is the one that would have been written without the zeros."""

from __future__ import annotations

import pickle
from functools import partial

import pytest
import torch
from torch import nn

import netgrain as ng
from netgrain.families.members import family_name, member
from netgrain.families.reading import read
from netgrain.families.switched_off import switches_of
from netgrain.families.switched_on import SwitchedOn
from tests.families.residual_networks import OFF, ON, WIDTH, Make, multiplied, residual, scale


def on(make: Make) -> Make:
    return SwitchedOn.of(make, switches_of(read(make, (5,))))


@pytest.mark.quick
@pytest.mark.parametrize("name", [n for n, row in OFF.items() if row[1] not in ("response norm", "layer")])
def test_nothing_is_off_any_more_and_the_law_is_read_off_the_program(name: str) -> None:
    make, kind, _, _, parameter, _ = OFF[name]
    reading = read(on(make), (5,))
    assert switches_of(reading).off is None
    law = reading.initialisation.of(parameter)
    assert law.read_from == "program"
    if kind == "head":
        assert law.kind == "normal"
        assert (law.mean, law.variance) == (0.0, pytest.approx(1 / WIDTH, rel=1e-12))
        assert reading.last_layer().symmetric
    else:
        assert (law.kind, law.mean) == ("constant", 1.0)


def test_what_is_not_switched_stays() -> None:
    for name in ("response norm", "layer"):
        make = OFF[name][0]
        family = on(make)
        assert isinstance(family, SwitchedOn)
        assert not family.ones
        assert not family.heads


def test_members_are_those_of_the_family_but_for_the_switches() -> None:
    make = OFF["head"][0]
    family = on(make)
    own, same, other = member(make, 3, 1), member(family, 3, 1), member(family, 3, 2)
    again = member(family, 3, 1)
    for name, p in own.named_parameters():
        assert torch.equal(p, same.get_parameter(name)) == (name != "head.weight")
    assert torch.equal(same.head.weight, again.head.weight)
    assert not torch.equal(same.head.weight, other.head.weight)


def net(width: int = 4, *, gain: float = 0.0) -> nn.Module:
    model = nn.Sequential(nn.Linear(5, width), nn.BatchNorm1d(width), nn.Linear(width, 2))
    nn.init.constant_(model[1].weight, gain)
    return model


def test_name_and_pickling_are_those_of_the_family() -> None:
    family = SwitchedOn(partial(net, width=3), ones=("1.weight",))
    assert family_name(family, family()) == family_name(partial(net, width=3), net())
    again = pickle.loads(pickle.dumps(family))  # noqa: S301
    assert torch.equal(member(again, 0, 0)[0].weight, member(family, 0, 0)[0].weight)
    assert bool((again()[1].weight == 1).all())


def test_statistics_of_data_are_those_of_the_network_that_is_on() -> None:
    make = residual(lambda m, h: m.after(h * m.gamma), gamma=scale(0.0), after=lambda: nn.BatchNorm1d(WIDTH))
    X = torch.randn(64, 5, generator=torch.Generator().manual_seed(0))
    found = member(on(ng.data_statistics(make, X)), 0, 0)
    wanted = member(ng.data_statistics(on(make), X), 0, 0)
    assert torch.equal(found.after.running_var, wanted.after.running_var)
    assert bool((found.after.running_var > 1e-3).all())


@pytest.mark.parametrize(("name", "by_hand"), [("norm", ON["norm"]), ("scale", residual(multiplied, gamma=scale(1.0)))])
def test_the_geometry_is_that_of_the_family_written_by_hand(name: str, by_hand: Make) -> None:
    options = {"members": 40, "first_layer": "never", "probe": ng.Gaussian(1.0)}
    G, wanted = ng.average_geometry(OFF[name][0], (5,), switched_on=True, **options), None
    wanted = ng.average_geometry(by_hand, (5,), **options)
    torch.testing.assert_close(G.matrix(), wanted.matrix())
    off = ng.average_geometry(OFF[name][0], (5,), **options)
    assert off.trace.value < 0.95 * G.trace.value


def test_a_head_that_is_on_in_closed_form_and_sampled() -> None:
    make = OFF["head"][0]
    closed = ng.average_geometry(make, (5,), switched_on=True, method="closed-form")
    sampled = ng.average_geometry(
        make, (5,), switched_on=True, method="sampled", members=800, first_layer="never", probe=ng.Origin()
    )
    assert abs(sampled.trace - closed.trace) < 4 * sampled.trace.stderr
    assert sampled.trace.stderr < 0.1 * closed.trace.value
