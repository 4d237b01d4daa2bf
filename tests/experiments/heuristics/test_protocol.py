"""One network of a sweep: its data, its labels, its training, and the scales."""

import math

import pytest
import torch

from netgrain.complexity.sweeps import curve_of
from netgrain.experiments.heuristics.protocol import Protocol, corrupted, material, one, presets
from netgrain.families.members import member
from netgrain.runtime.errors import NetgrainError


def test_digits_are_split_centred_and_not_rescaled() -> None:
    X, y, X_test, y_test = material("digits", 1000, True)
    assert (X.shape, X_test.shape, len(y), len(y_test)) == ((1000, 64), (797, 64), 1000, 797)
    assert float(X.mean(0).abs().max()) < 1e-6
    assert float(X_test.mean(0).abs().max()) > 1e-3  # the mean of the training part is taken off
    assert 0.9 < float((X.max(0).values - X.min(0).values).max()) <= 1
    with pytest.raises(NetgrainError, match="digits has 1000 training samples, 2000 were asked for"):
        material("digits", 2000, True)


def test_a_share_of_labels_is_replaced_once_and_for_all() -> None:
    y = torch.zeros(1000, dtype=torch.int64)
    wrong = corrupted(y, 0.4, 10, seed=1)
    assert int((wrong > 0).sum()) == pytest.approx(360, abs=4 * math.sqrt(36))
    assert torch.equal(wrong, corrupted(y, 0.4, 10, seed=1))
    assert not torch.equal(wrong, corrupted(y, 0.4, 10, seed=2))
    assert corrupted(y, 0.0, 10, seed=1) is y


def test_other_networks_and_sets_as_at_paper_scale() -> None:
    settings = {"lr": 0.1, "steps": 2, "batch": 16, "momentum": 0.0}
    plain, larger = (
        Protocol(settings, "digits", 60, "resnet18:norm=batch,width=0.03125", points=10, scale=c) for c in (1.0, 1.5)
    )
    found = [one({"seed": 0, "protocol": vars(p)}).numbers for p in (plain, larger)]
    assert found[0]["complexity"] != found[1]["complexity"]
    assert all(n["complexity"] > 0 and 0 <= n["accuracy"] <= 1 for n in found)
    images, *_ = material("digits", 60, False)
    a, b = (member(p.make(images, 10), 0, 0) for p in (plain, larger))
    for name, p in a.named_parameters():
        torch.testing.assert_close(dict(b.named_parameters())[name], p * (1.5 if p.dim() > 1 else 1.0))


def test_a_unit_that_diverges_or_misses_is_told() -> None:
    unit = {"seed": 0, "protocol": vars(Protocol({"lr": 1e6, "steps": 20, "loss": "mse", "batch": 32}, samples=100))}
    numbers = one(unit).numbers
    assert numbers["diverged"]
    assert numbers["complexity"] is None
    late = {"lr": 0.01, "steps": 20, "batch": 32, "stop_at_loss": 1e-6, "stop_every": 5}
    missed = one({"seed": 0, "protocol": vars(Protocol(late, samples=100))}).numbers
    assert missed["reached"] is False
    curve = curve_of((1.0, 2.0), [numbers, missed], 1)
    assert curve.missed == 2
    assert math.isnan(curve.numbers["complexity"][0][0])


def test_a_scale_says_what_every_training_has() -> None:
    scales = presets(steps=2000)
    small, paper = scales["laptop"], scales["paper"]
    plain = small.protocol({"lr": 0.3}, hidden=(5,), samples=7)
    assert plain.settings == {"momentum": 0.0, "batch": 64, "replacement": True, "steps": 2000, "lr": 0.3}
    assert (plain.hidden, plain.samples) == ((5,), 7)
    large = paper.protocol({}, hidden=(5,), samples=7, scale=1.5)  # the paper's network and all of its data
    assert (large.hidden, large.samples, large.scale) == ((64, 64), 50_000, 1.5)
    assert small.small
    assert not paper.small
    assert scales["smoke"].thinned([1, 2, 3]) == (1, 3)
