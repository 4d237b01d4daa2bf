"""Sweeps: rank correlations within seeds, runs that missed their loss, and what a sweep of trainings gives."""

import math
from functools import partial

import pytest
import scipy.stats
import torch
import torch.nn.functional as F
from torch import nn

from netgrain.complexity.sweeps import SweepCurve, measured, median_margin, spearman, sweep
from netgrain.experiments.heuristics.protocol import Perceptron, material
from netgrain.runtime.errors import NetgrainError
from netgrain.training import Settings, train_member
from netgrain.training.regularizers.noise import InputNoise
from netgrain.training.regularizers.norms import L2

FALLING = SweepCurve((1.0, 2.0, 3.0, 4.0), {"complexity": [[9, 8, 7, 6], [5, 4, 3, 3.5]]}, [[True] * 4] * 2)


@pytest.mark.parametrize("seed", range(5))
def test_spearman_is_that_of_scipy(seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randint(0, 6, (12,), generator=generator).tolist()  # with ties
    y = torch.randint(0, 6, (12,), generator=generator).tolist()
    assert spearman(x, y) == pytest.approx(scipy.stats.spearmanr(x, y).statistic, abs=1e-12)


def test_spearman_of_too_little_is_not_a_number() -> None:
    assert math.isnan(spearman([1, 2], [2, 1]))
    assert math.isnan(spearman([1, 2, 3], [5, 5, 5]))


def test_seeds_are_compared_within() -> None:
    assert FALLING.per_seed() == pytest.approx([-1, -0.8])
    assert FALLING.rho().value == pytest.approx(-0.9)
    assert FALLING.rho().stderr == pytest.approx(0.1)
    # levels of seeds differ more than settings do: all runs together say less
    assert FALLING.pooled().value == pytest.approx(
        scipy.stats.spearmanr([1, 2, 3, 4] * 2, [9, 8, 7, 6, 5, 4, 3, 3.5]).statistic
    )
    assert abs(FALLING.pooled().value) < 0.6
    assert [m.value for m in FALLING.means()] == [7, 6, 5, 4.75]
    assert "9" not in repr(FALLING).split("rho")[0]
    assert "7 → 6 → 5 → 4.75" in repr(FALLING)


# --- one training -----------------------------------------------------------------------------------------------


def test_the_numbers_of_a_training() -> None:
    X, y, X_test, y_test = material("digits", 200, True)
    make = partial(Perceptron, (64, 16, 10))
    settings = Settings(steps=30, batch=32, lr=0.1, momentum=0.0)
    trained = train_member(make, X, y, settings, seed=3, i=0)
    found = measured(trained, make, (X, y), (X_test, y_test), settings, None)
    net = trained.model(make)
    J = torch.func.vmap(torch.func.jacrev(net))(X)
    assert found["complexity"] == pytest.approx(float(J.double().square().sum() / len(X)), rel=1e-5)
    logits = net(X)
    margins = [float(f[t] - max(f[j] for j in range(10) if j != t)) for f, t in zip(logits, y, strict=True)]
    assert median_margin(net, X, y) == pytest.approx(sorted(margins)[99], rel=1e-5)
    assert found["train_loss"] == pytest.approx(float(F.cross_entropy(logits, y)), rel=1e-5)
    assert found["accuracy"] == pytest.approx(float((net(X_test).argmax(1) == y_test).double().mean()))
    one_tenth = measured(trained, make, (X, y), None, settings, 20)
    assert one_tenth["complexity"] != found["complexity"]
    assert one_tenth["accuracy"] is None


# --- a user's own sweep -----------------------------------------------------------------------------------------


def test_sweep_of_a_setting() -> None:
    X, y, *test = material("digits", 200, True)
    settings = Settings(steps=300, batch=50, momentum=0.0, stop_at_loss=1.5, stop_every=5)
    make = partial(Perceptron, (64, 16, 10))
    curve = sweep(make, X, y, [0.05, 0.1, 1e-6], settings, field="lr", test=(test[0], test[1]), seeds=2, workers=2)
    assert curve.seeds == 2
    assert [row[2] for row in curve.good] == [False, False]  # too slow to get there
    assert all(row[0] and row[1] for row in curve.good)
    assert all(a > b for a, b, _ in curve.numbers["steps"])
    assert all(loss <= 1.5 for row in curve.numbers["train_loss"] for loss in row[:2])
    again = sweep(make, X, y, [0.05, 0.1], settings, field="lr", seeds=2, workers=1)
    assert [row[:2] for row in curve.numbers["complexity"]] == again.numbers["complexity"]  # for any number of workers


def test_sweep_starts_every_value_alike() -> None:
    X, y = material("digits", 100, True)[:2]
    settings = Settings(steps=5, batch=20, momentum=0.0)
    make = partial(Perceptron, (64, 8, 10))
    curve = sweep(make, X, y, [0.0, 1e-9, 1e-8], settings, regularizer=lambda v: L2(v) + InputNoise(0.1), workers=1)
    for row in curve.numbers["complexity"]:
        assert row == pytest.approx([row[0]] * 3, rel=1e-4)
    a, b, *_ = (row[0] for row in curve.numbers["complexity"])
    assert a != pytest.approx(b, rel=1e-3)


def test_sweep_refuses() -> None:
    X, y = torch.randn(8, 3), torch.arange(8) % 2
    make, settings = partial(nn.Linear, 3, 2), Settings(steps=2)
    with pytest.raises(NetgrainError, match=r"one of regularizer= \(such as L2\) and field="):
        sweep(make, X, y, [1.0, 2.0], settings)
    with pytest.raises(NetgrainError, match="Settings has no field 'learning_rate'"):
        sweep(make, X, y, [1.0, 2.0], settings, field="learning_rate")
    with pytest.raises(NetgrainError, match="L2 expects a number ≥ 0 as its strength, found -1"):
        sweep(make, X, y, [1.0, -1.0], settings, regularizer=L2)
    with pytest.raises(NetgrainError, match="at least two different values"):
        sweep(make, X, y, [1.0], settings, field="lr")
