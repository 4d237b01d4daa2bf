"""Swapped submodules: a family again, its geometry by hand and by sampling, and a sentence for what is wrong."""

import pickle
import sys
from functools import partial
from typing import Any

import pytest
import torch
from torch import nn

from netgrain import average_geometry, corr
from netgrain.auditing.gains import relative_gains
from netgrain.auditing.swapped import Swapped
from netgrain.auditing.swaps import parsed_swaps, what_if
from netgrain.families.members import member
from netgrain.runtime.errors import NetgrainError

SHAPE = (1, 6, 6)


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 8, 3, padding=1, bias=False)
        self.act = nn.GELU()
        self.pool1 = nn.MaxPool2d(2)
        self.body = nn.Sequential(nn.Conv2d(8, 8, 1, bias=False), nn.Identity())
        self.head = nn.Linear(72, 2, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.body(self.pool1(self.act(self.conv1(x)))).flatten(1))


Average = partial(Swapped, Net, {"pool1": nn.AvgPool2d(2)})


def test_only_the_named_submodule_changes() -> None:
    family = Swapped(Net, {"body.0": nn.Conv2d(8, 8, 3, padding=1, bias=False)})
    before, after, other = member(Net, 0, 1), member(family, 0, 1), member(family, 0, 2)
    assert torch.equal(before.get_parameter("conv1.weight"), after.get_parameter("conv1.weight"))
    assert torch.equal(before.get_parameter("head.weight"), after.get_parameter("head.weight"))
    assert after.get_parameter("body.0.weight").shape == (8, 8, 3, 3)
    # drawn anew for each member, and a function of (seed, i)
    assert not torch.equal(after.get_parameter("body.0.weight"), other.get_parameter("body.0.weight"))
    again = member(family, 0, 1)
    assert torch.equal(after.get_parameter("body.0.weight"), again.get_parameter("body.0.weight"))


def test_the_replacement_and_the_generators_are_left_as_found() -> None:
    new = nn.Conv2d(8, 8, 1, bias=False)
    weight, state = new.weight.detach().clone(), torch.get_rng_state()
    what_if(Net, {"body.0": new, "pool1": nn.AvgPool2d(2)}, SHAPE, keep=1, members=2)
    assert torch.equal(new.weight, weight)
    assert new.weight.requires_grad
    assert torch.equal(torch.get_rng_state(), state)


def test_a_callable_makes_a_fresh_module_and_the_family_can_be_sent() -> None:
    family = Swapped(Net, {"body.1": nn.Identity, "head": partial(nn.Linear, 72, 3)})
    assert member(family, 0, 0)(torch.zeros(1, *SHAPE)).shape == (1, 3)
    again = pickle.loads(pickle.dumps(family))  # noqa: S301
    assert torch.equal(
        member(again, 0, 4).get_parameter("head.weight"), member(family, 0, 4).get_parameter("head.weight")
    )
    assert family().get_submodule("head").training
    assert not Swapped(lambda: Net().eval(), {"head": nn.Linear(72, 3)})().get_submodule("head").training


@pytest.mark.parametrize("new", [nn.Conv2d(8, 8, 1, bias=False), partial(nn.Conv2d, 8, 8, 1, bias=False)])
def test_the_closed_form_of_a_swapped_family_knows_its_weights_are_random(new: Any) -> None:
    plain = average_geometry(Average(), SHAPE)
    swapped = average_geometry(Swapped(Average(), {"body.0": new}), SHAPE)
    assert swapped.method == "closed-form"
    assert torch.allclose(swapped.matrix(), plain.matrix(), rtol=1e-6)  # the same law


def test_closed_form_and_sampling_agree_after_a_swap() -> None:
    family = Swapped(Average(), {"conv1": nn.Conv2d(1, 8, 3, padding=1, padding_mode="circular", bias=False)})
    exact = average_geometry(family, SHAPE)
    sampled = average_geometry(family, SHAPE, members=64, first_layer="never")
    assert exact.method == "closed-form"
    U = exact.directions(3)
    value, error = relative_gains(sampled, U)
    assert bool(((value - relative_gains(exact, U)[0]).abs() < 4 * error).all())
    assert bool((error > 0).all())


def test_what_a_pool_gives_back_by_hand() -> None:
    """Without the pool a linear readout of four values sees all of them alike; with it, only sums of neighbours."""

    def make() -> nn.Module:
        return nn.Sequential(nn.AvgPool1d(2), nn.Flatten(), nn.Linear(2, 1, bias=False))

    answer = what_if(make, {"0": nn.Identity(), "2": nn.Linear(4, 1, bias=False)}, (1, 4), keep=4)
    assert answer.directions_for == {0.5: (1, 2), 0.9: (2, 4), 0.99: (2, 4)}
    assert answer.correlation.value == pytest.approx(0.5**0.5)  # a plane of four dimensions
    assert [e.value for e in answer.gained_before] == pytest.approx([0, 0], abs=1e-6)  # the other two lost
    assert [e.value for e in answer.gained_after] == pytest.approx([1, 1], abs=1e-6)
    pairs = answer.gained.reshape(2, 2, 2)
    assert torch.allclose(pairs.sum(2), torch.zeros(2, 2).double(), atol=1e-6)  # differences of neighbours
    text = repr(answer)
    assert text.startswith("WhatIf(0 → Identity(), 2 → Linear(in_features=4")
    assert "directions for 50/90/99 % of the geometry 1/2/2 → 2/4/4 of 4" in text
    assert "gained most: 0 → 1 times an average one" in text


def test_nothing_changes_when_nothing_is_changed() -> None:
    answer = what_if(Average(), {"body.1": nn.Identity()}, SHAPE, keep=2)
    assert answer.correlation.value == pytest.approx(1.0)
    assert len(answer.gained) == 0
    assert "gained most" not in repr(answer)
    assert answer.correlation.value == pytest.approx(corr(answer.before, answer.after).value)


def test_large_inputs_are_decomposed_without_a_matrix(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = what_if(Average(), {"act": nn.Identity(), "pool1": nn.AvgPool2d(3, 2, 1)}, SHAPE, keep=2)
    monkeypatch.setattr(sys.modules[what_if.__module__], "MOST_DENSE", 1)
    parts = what_if(Average(), {"act": nn.Identity(), "pool1": nn.AvgPool2d(3, 2, 1)}, SHAPE, keep=2)
    assert [e.value for e in parts.gained_after] == pytest.approx([e.value for e in whole.gained_after], rel=1e-3)
    assert float((parts.gained[0] * whole.gained[0]).sum().abs()) == pytest.approx(1.0, abs=1e-3)


def test_a_network_cut_off_from_its_input_is_told() -> None:
    class Zero(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return 0 * x

    with pytest.warns(UserWarning, match="exactly zero"):
        answer = what_if(Average(), {"body.1": Zero()}, SHAPE, members=2)
    assert "after the change the network does not react to its input" in repr(answer)
    assert answer.correlation.value != answer.correlation.value


def test_layers_as_they_are_written() -> None:
    found = parsed_swaps(["a.b=AvgPool2d(2, stride=1)", "c=GELU"])
    assert isinstance(found["a.b"], nn.AvgPool2d)
    assert isinstance(found["c"], nn.GELU)


class Stubborn(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(1))


@pytest.mark.parametrize(
    ("swap", "said"),
    [
        (
            {"pol1": nn.Identity()},
            "Net has no submodule 'pol1'. Did you mean 'pool1'\\? Its submodules: conv1, act, po",
        ),
        ({"": nn.Identity()}, "Net has no submodule ''"),
        ({}, r"expected swap as a dictionary of names and modules, found \{\}"),
        ({"body": nn.Identity(), "body.0": nn.Identity()}, "replaces 'body' and 'body.0' inside it"),
        (
            {"body.1": nn.Sequential(Stubborn())},
            r"'0' of the replacement of 'body.1' \(Stubborn\) has parameters and no",
        ),
        ({"act": 3}, "the replacement of 'act' is int; expected a module"),
        ({"act": lambda: 3}, "the replacement of 'act' returned int; expected a torch.nn.Module"),
        ({"pool1": nn.Identity()}, r"runs on inputs of shape \(1, 6, 6\), but not with 'pool1' replaced \(mat1"),
    ],
)
def test_what_is_wrong_is_said(swap: dict[str, Any], said: str) -> None:
    with pytest.raises(NetgrainError, match=said):
        what_if(Average(), swap, SHAPE) if "pool1" in swap else what_if(Net, swap, SHAPE, members=1)


def test_scores_before_and_after_on_labelled_samples() -> None:
    X = torch.randn(60, *SHAPE, generator=torch.Generator().manual_seed(0))
    y = (X[:, 0, 2:4, 2:4].mean((1, 2)) > 0).long()
    answer = what_if(Net, {"pool1": nn.AvgPool2d(2)}, X=X, y=y, members=2, keep=1)
    assert answer.scores is not None
    assert answer.scores.gain.n == 30
    assert answer.before.d == 36
    assert "expected score" in repr(answer)
    for wrong in ({}, {"X": X}, {"y": y}):
        with pytest.raises(NetgrainError, match="what_if expects input_shape, or labelled samples"):
            what_if(Net, {"pool1": nn.AvgPool2d(2)}, **wrong)
