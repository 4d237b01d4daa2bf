"""Advice: a change that surely helps is first, budgets are counts, and nothing is left behind."""

import sys

import pytest
import torch
from torch import nn

from netgrain.auditing.advice import advise, aligned_changes, gain_by_samples, scores_of, settled
from netgrain.auditing.catalogue import Catalogue, catalogue
from netgrain.auditing.known_network import Change
from netgrain.auditing.paired_gains import paired
from netgrain.auditing.swapped import Swapped
from netgrain.families.members import member
from netgrain.geometry.estimate import Estimate
from netgrain.geometry.value import Geometry
from netgrain.learning.learning_curves import LearningCurve
from netgrain.learning.predictions import learnability

SHAPE = (1, 16)


def make() -> nn.Module:
    """The stride skips every other value."""
    return nn.Sequential(nn.Conv1d(1, 8, 1, stride=2), nn.ReLU(), nn.Flatten(), nn.Linear(64, 2))


X = torch.randn(160, *SHAPE, generator=torch.Generator().manual_seed(0))
HIDDEN = (X[:, 0, 1:5:2].mean(1) > 0).long()  # told by two values that the stride skips


def test_a_label_that_the_stride_skips_is_found_by_leaving_the_stride_out() -> None:
    found = advise(make, X, HIDDEN, members=4, samples=120, trained=0)
    others = [row.change for row in found.rows if row.kind != "family"]
    assert others[0] == "no stride in the first strided convolution"
    (row,) = (row for row in found.rows if row.kind == "stride")
    assert row.gain.clear
    assert row.gain.value > 0.2
    assert row.action == "give '0' stride=1; to match, '3' = Linear(128, …)"
    assert row.cost_ratio == 2.0
    assert found.first is found.rows[0]
    assert found.first.kind in ("stride", "family")  # a dense network sees all values, too
    gains = [row.gain.chosen_by for row in found.rows]
    assert gains == sorted(gains, reverse=True)
    assert (found.samples, found.members, found.left) == (120, 4, 0)
    plain = found.as_dict()
    assert plain["rows"][0]["gain"]["value"] == found.rows[0].gain.value
    assert float(row.after) == min(1.0, float(row.before) + row.gain.value)
    assert row.after.stderr > row.before.stderr


def test_the_budget_is_a_count(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = catalogue(make, X)
    few = Catalogue(tuple(c for c in whole.changes if c.kind != "family")[:6], whole.unfit)
    monkeypatch.setattr(sys.modules[advise.__module__], "catalogue", lambda *_: few)
    some = advise(make, X, HIDDEN, members=4, samples=60, budget=8e7, trained=0)
    every = advise(make, X, HIDDEN, members=4, samples=60, budget=None, trained=0)
    assert every.left == 0
    assert some.tried + some.left == every.tried
    assert 0 < some.tried < every.tried
    first = {row.change: row.gain for row in some.rows}
    assert first == {row.change: row.gain for row in every.rows if row.change in first}
    assert settled(make, X, 1e12)[0] == 1000
    assert settled(make, X, 1e3) == (150, 4)


def test_on_noise_no_change_is_clear() -> None:
    noise = torch.randint(2, (160,), generator=torch.Generator().manual_seed(5))
    found = advise(make, X, noise, members=4, samples=80, budget=3e8, trained=1e9)
    assert found.tried > 1
    assert not any(row.gain.clear for row in found.rows)
    assert found.first is None or abs(found.first.gain.value) < 1.96 * found.first.gain.stderr


def test_more_samples_and_what_was_expected_before() -> None:
    expected = learnability(make, X, HIDDEN, kinds=("layers",), trial=False, grain=False, samples=80)
    found = advise(make, X, HIDDEN, expected=expected, members=4, samples=60, budget=1e7, trained=0)
    (row,) = (row for row in found.rows if row.kind == "samples")
    assert (row.change, row.cost_ratio) == ("160 samples instead of 80", 2.0)
    assert row.before == expected.score
    sizes = (50, 100, 200, 400)
    curve = LearningCurve("accuracy", sizes, tuple(Estimate(1 - 2 / n**0.5, 1e-3, n) for n in sizes), 0)
    value, error = gain_by_samples(curve, 2)
    assert abs(value - (0.1 - 2 / 800**0.5)) < 2 * error + 1e-3


def test_align_is_offered_only_where_it_helps(monkeypatch: pytest.MonkeyPatch) -> None:
    def dense() -> nn.Module:
        return nn.Sequential(nn.Flatten(), nn.Linear(16, 24), nn.ReLU(), nn.Linear(24, 2))

    Z = torch.randn(300, 1, 4, 4, generator=torch.Generator().manual_seed(1))
    noise = torch.randint(2, (300,), generator=torch.Generator().manual_seed(2))
    G = Geometry.from_matrix(torch.eye(16).double())
    over = paired(Z, noise, members=4, samples=300)
    assert list(aligned_changes(dense, over, G)) == []  # no direction carries the label
    easy = paired(Z, (Z[:, 0, 0, 0] > 0).long(), members=4, samples=300)
    (change,) = aligned_changes(dense, easy, G)
    monkeypatch.setattr(sys.modules[advise.__module__], "FULL_LIMIT", 15)
    assert list(aligned_changes(dense, easy, G)) == []  # an input with too many directions to look at
    monkeypatch.undo()
    assert change.choosing is not None
    turns = [member(make, 0, 0).front.reflections for make in (change.family, change.choosing)]
    assert turns[0].shape != turns[1].shape or not torch.equal(*turns)  # each fitted to the labels of another half
    monkeypatch.setattr(sys.modules[advise.__module__], "catalogue", lambda *_: Catalogue((), 0))
    found = advise(dense, Z, (Z[:, 0, 0, 0] > 0).long(), G=G, members=4, samples=300)
    assert found.tried == 1
    assert [row.change for row in found.rows if row.gain.value <= 0] == []  # G is flat: there is nothing to gain


def test_scores_of_one_change_and_nothing_is_left_behind() -> None:
    state, before = torch.get_rng_state(), X.clone()
    change = Change("tanh", "replace", "swap", Swapped(make, {"1": nn.Tanh()}))
    row = scores_of(make, change, X, HIDDEN, samples=60)
    again = scores_of(
        make, change, X[torch.randperm(160, generator=torch.Generator().manual_seed(3))], HIDDEN, samples=60
    )
    assert row.gain.n == again.gain.n
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.equal(X, before)
    same = scores_of(make, Change("nothing", "", "swap", make), X, HIDDEN, samples=60)
    assert same.gain.value == 0.0
    assert same.cost_ratio == 1.0
    assert "points" in repr(same)
