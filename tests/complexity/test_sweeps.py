"""Sweeps: rank correlations within seeds, runs that missed their loss, and what a sweep of trainings gives."""

import math
from functools import partial
from pathlib import Path

import pytest
import scipy.stats
import torch
import torch.nn.functional as F
from torch import nn

from netgrain.complexity.sweeps import SweepCurve, curve_of, measured, median_margin, spearman, sweep
from netgrain.experiments.equivariance import eq_all
from netgrain.experiments.heuristics import gc_all, gc_double_descent, gc_regression
from netgrain.experiments.heuristics.orders import monotone, pooled
from netgrain.experiments.heuristics.protocol import Perceptron, Protocol, corrupted, material, one
from netgrain.experiments.heuristics.starts import _fresh, expected_at_start
from netgrain.experiments.registry import preset, run_experiment
from netgrain.families.members import member
from netgrain.runtime.errors import NetgrainError
from netgrain.runtime.local import Local
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


def test_runs_that_missed_are_left_out_and_told() -> None:
    bad = SweepCurve((1.0, 2.0, 3.0, 4.0), {"complexity": [[9, 8, 100, 6]]}, [[True, True, False, True]])
    assert bad.missed == 1
    assert bad.per_seed() == [-1.0]
    found = monotone(bad, "x", -1)
    assert found.note == "1 of 4 runs missed the target loss and are left out"
    none = SweepCurve((1.0, 2.0, 3.0), {"complexity": [[1, 2, 3]]}, [[False] * 3])
    assert monotone(none, "x", 1).verdict == "undecided"
    assert math.isnan(none.rho().value)


def test_claims_can_come_out_either_way() -> None:
    steep = SweepCurve((1.0, 2.0, 3.0), {"complexity": [[3, 2, 1], [6, 5, 4], [9, 8, 7]]}, [[True] * 3] * 3)
    assert monotone(steep, "x", -1).verdict == "holds"
    assert monotone(steep, "x", 1).verdict == "fails"
    assert pooled(steep, "x", -1).verdict == "fails"
    assert pooled(FALLING, "x", -1).verdict in ("fails", "undecided")


# --- one training -----------------------------------------------------------------------------------------------


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


@pytest.mark.parametrize("scheme", ["he", "lecun", "glorot", "torch"])
def test_complexity_at_the_start_is_the_closed_form(scheme: str) -> None:
    sizes = (8, 20, 20, 5)
    unit = {"fresh": {"sizes": sizes, "scheme": scheme, "scale": 1.0, "seed": 0, "count": 300}}
    found = torch.tensor(_fresh(unit).numbers["complexity"], dtype=torch.float64)
    error = (found.mean() - expected_at_start(scheme, sizes)) / (found.std() / math.sqrt(len(found)))
    assert abs(float(error)) < 4


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


# --- the closed-form experiments --------------------------------------------------------------------------------


def test_double_descent_slopes_are_those_of_the_fit() -> None:
    """Finite differences of the fitted function, rebuilt here from the same random numbers."""
    from netgrain.runtime.randomness import derived_seed

    unit = {"seed": 0, "samples": 12, "features": [5, 12, 30]}
    found = gc_double_descent._fit(unit).numbers
    generator = torch.Generator().manual_seed(derived_seed(0, "double descent"))
    d = gc_double_descent.DIMENSION

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    truth, X, X_test, W = normal(d) / d**0.5, normal(12, d), normal(gc_double_descent.TESTS, d), normal(30, d) / d**0.5
    y = X @ truth + gc_double_descent.NOISE * normal(12)
    for p, complexity, error in zip(unit["features"], found["complexity"], found["error"], strict=True):
        a = torch.linalg.lstsq((X @ W[:p].T).relu(), y, driver="gelsd").solution

        def f(x: torch.Tensor, p: int = p, a: torch.Tensor = a) -> torch.Tensor:
            return (x @ W[:p].T).relu() @ a

        steps = 1e-6 * torch.eye(d, dtype=torch.float64)
        slopes = torch.stack([(f(X + e) - f(X - e)) / 2e-6 for e in steps], 1)
        assert complexity == pytest.approx(float(slopes.square().sum(1).mean()), rel=1e-6)
        assert error == pytest.approx(float((f(X_test) - X_test @ truth).square().mean()), rel=1e-6)


def test_sharpness_is_that_of_the_hessian_at_a_perfect_fit() -> None:
    """Where all residuals are zero the Gauss–Newton matrix is the Hessian of the loss."""
    net = member(partial(gc_regression._network, 1.0), 0, 0).double()
    x = torch.linspace(-1, 1, 7, dtype=torch.float64)[:, None]
    y = net(x).detach()
    names = [n for n, _ in net.named_parameters()]
    sizes = [p.numel() for p in net.parameters()]
    shapes = [p.shape for p in net.parameters()]

    def loss(theta: torch.Tensor) -> torch.Tensor:
        parts = [t.reshape(s) for t, s in zip(theta.split(sizes), shapes, strict=True)]
        return (torch.func.functional_call(net, dict(zip(names, parts, strict=True)), (x,)) - y).square().mean() / 2

    theta = torch.cat([p.detach().flatten() for p in net.parameters()])
    H = torch.autograd.functional.hessian(loss, theta)
    assert gc_regression._sharpness(net, x) == pytest.approx(float(torch.linalg.eigvalsh(H)[-1]), rel=1e-8)


def test_the_summary_has_every_heuristic_of_the_folder(tmp_path: Path) -> None:
    here = Path(gc_all.__file__).parent
    for kind, whole in (("gc", gc_all), ("eq", eq_all)):
        parts = {m.__name__.split(".")[-1] for m in whole.PARTS}
        assert {p.stem for p in here.glob(f"{kind}_*.py")} - {f"{kind}_all"} == parts
    assert preset("gc-all", "laptop").scale == "laptop"
    assert run_experiment("gc_l2", "smoke", tmp_path / "run", engine=Local()).computed > 0  # underscores, too
