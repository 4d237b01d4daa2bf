"""Scores and features: pruning follows the samples, the basis is scipy's, elimination removes what was asked."""

import numpy as np
import pytest
import scipy.linalg
import torch
from torch import Tensor

from netgrain.geometry.covariance import data_covariance
from netgrain.geometry.scores import (
    eliminate,
    eliminate_variance,
    explained_variance,
    feature_basis,
    prune,
    random_baseline,
    score,
)
from netgrain.geometry.value import Geometry
from netgrain.runtime.errors import NetgrainError

SHAPE = (2, 3, 3)
D = 18


def draw(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.fixture
def G() -> Geometry:
    A = draw(7, D, seed=1)  # rank 7: singular, so that epsilon matters
    return Geometry.from_matrix(A.T @ A, SHAPE)


@pytest.fixture
def X() -> Tensor:
    return draw(60, *SHAPE, seed=2) * torch.linspace(0.2, 3, D, dtype=torch.float64).reshape(SHAPE)


@pytest.fixture
def y() -> Tensor:
    return torch.randint(3, (60,), generator=torch.Generator().manual_seed(3))


@pytest.mark.quick
def test_score_is_the_quotient(G: Geometry, X: Tensor) -> None:
    matrix = G.matrix()
    for x, s in zip(X, score(G, X), strict=True):
        v = x.flatten()
        assert float(s) == pytest.approx(float(v @ matrix @ v / (v @ v)), rel=1e-12)


def test_pruned_samples_are_those_with_the_lowest_scores(G: Geometry, X: Tensor, y: Tensor) -> None:
    matrix = G.matrix().numpy()
    scores = [float(v @ matrix @ v / (v @ v)) for v in X.flatten(1).numpy()]
    for keep in (0.1, 0.5, 0.7, 1.0):
        expected = []
        for label in range(3):
            members = [i for i in range(60) if int(y[i]) == label]
            members.sort(key=lambda i: -scores[i])
            expected += members[: max(1, round(keep * len(members)))]
        assert prune(G, X, y, keep=keep).tolist() == sorted(expected)
    whole = sorted(range(60), key=lambda i: -scores[i])
    assert prune(G, X, keep=0.25).tolist() == sorted(whole[:15])
    assert prune(G, X, y, keep=0.25, per_class=False).tolist() == sorted(whole[:15])
    assert prune(G, X, keep=0.25, lowest=False).tolist() == sorted(whole[-15:])


def test_scores_stay_with_their_samples_when_the_data_are_shuffled(G: Geometry, X: Tensor, y: Tensor) -> None:
    """The kept samples, not their places, are the same: scoring one order and indexing another fails here."""
    shuffle = torch.randperm(60, generator=torch.Generator().manual_seed(4))
    kept, moved = prune(G, X, y, keep=0.4), prune(G, X[shuffle], y[shuffle], keep=0.4)
    assert sorted(shuffle[moved].tolist()) == kept.tolist()
    assert moved.tolist() != kept.tolist()


def test_counts_per_class_and_ties() -> None:
    same = Geometry.from_matrix(torch.eye(2))
    X = torch.ones(10, 2)
    y = torch.tensor([0, 1, 1, 1, 1, 1, 1, 1, 1, 1])
    assert prune(same, X, y, keep=0.3).tolist() == [0, 1, 2, 3]  # max(1, round(0.3)) and round(2.7), the earliest
    assert prune(same, X, keep=0.3, lowest=False).tolist() == [0, 1, 2]


def test_basis_is_that_of_scipy(G: Geometry, X: Tensor) -> None:
    S = data_covariance(X)
    epsilon = 1e-2
    regular = G.matrix() + epsilon * G.matrix().trace() / D * torch.eye(D, dtype=torch.float64)
    _, v = scipy.linalg.eigh(S.matrix().numpy(), regular.numpy())
    q, _ = np.linalg.qr(v[:, ::-1])
    basis = feature_basis(G, S, epsilon=epsilon)
    assert basis.shape == (D, *SHAPE)
    flat = basis.flatten(1)
    assert torch.allclose(flat @ flat.T, torch.eye(D, dtype=torch.float64), atol=1e-12)
    cosines = (flat.numpy() * q.T).sum(1)
    assert np.abs(np.abs(cosines) - 1).max() < 1e-8
    assert bool((flat.gather(1, flat.abs().argmax(1, keepdim=True)) > 0).all())


def test_basis_order_and_null_space_of_G() -> None:
    """Where G is zero, λ is as large as 1/ε: those directions come first, ordered by their variance."""
    G = Geometry.from_matrix(torch.diag(torch.tensor([4.0, 0.0, 1.0, 0.0])))
    S = Geometry.from_matrix(torch.diag(torch.tensor([9.0, 1.0, 3.0, 2.0])))
    assert feature_basis(G, S).argmax(1).tolist() == [3, 1, 2, 0]


def test_elimination_is_the_projection(G: Geometry, X: Tensor) -> None:
    basis = feature_basis(G, data_covariance(X))
    for k in (0, 1, 5, D):
        Q = torch.eye(D, dtype=torch.float64)
        for v in basis[:k].flatten(1):
            Q = Q - torch.outer(v, v)
        assert torch.allclose(eliminate(X, basis, k).flatten(1), X.flatten(1) @ Q, atol=1e-12)
    single = eliminate(X.float(), basis, 5)
    assert single.dtype == torch.float32
    assert single.shape == X.shape
    assert torch.allclose(single.double(), eliminate(X, basis, 5), atol=1e-5)


def test_explained_variance_is_what_elimination_takes(G: Geometry, X: Tensor) -> None:
    S = data_covariance(X)
    basis = feature_basis(G, S)
    for k in (1, 4, D):
        lost = 1 - float(eliminate(X, basis, k).square().sum() / X.square().sum())
        assert explained_variance(S, basis, k) == pytest.approx(lost, abs=1e-10)
    assert explained_variance(S, basis[:1]) == pytest.approx(explained_variance(S, basis, 1), rel=1e-12)


def test_random_baseline_is_seeded_orthonormal_and_minimal(X: Tensor) -> None:
    S = data_covariance(X)
    basis, k = random_baseline(S, 0.4, seed=0)
    again, _ = random_baseline(S, 0.4, seed=0)
    other, _ = random_baseline(S, 0.4, seed=1)
    assert torch.equal(basis, again)
    assert not torch.allclose(basis, other)
    flat = basis.flatten(1)
    assert torch.allclose(flat @ flat.T, torch.eye(D, dtype=torch.float64), atol=1e-12)
    assert explained_variance(S, basis, k - 1) < 0.4 <= explained_variance(S, basis, k)


@pytest.mark.parametrize("variance", [0.01, 0.3, 0.77, 1.0])
def test_elimination_removes_exactly_the_asked_variance(G: Geometry, X: Tensor, variance: float) -> None:
    S = data_covariance(X)
    for basis in (feature_basis(G, S), random_baseline(S, variance, seed=5)[0]):
        left = float(eliminate_variance(X, basis, S, variance).square().sum() / X.square().sum())
        assert abs(1 - left - variance) < 1e-8


def test_partial_elimination_lies_between_whole_ones(X: Tensor) -> None:
    S = data_covariance(X)
    basis, k = random_baseline(S, 0.4, seed=0)
    between = eliminate_variance(X, basis, S, 0.4)
    less, more = eliminate(X, basis, k - 1), eliminate(X, basis, k)
    c = float(((less - between) * (less - more)).sum() / (less - more).square().sum())
    assert 0 < c < 1
    assert torch.allclose(between, less + c * (more - less), atol=1e-12)
    exact = explained_variance(S, basis, 3)
    assert torch.allclose(eliminate_variance(X, basis, S, exact), eliminate(X, basis, 3), atol=1e-6)


def test_nothing_given_is_changed(G: Geometry, X: Tensor, y: Tensor) -> None:
    S = data_covariance(X)
    before = [t.clone() for t in (X, y, G.matrix(), S.matrix())]
    torch.manual_seed(0)
    state = torch.get_rng_state()
    basis, k = random_baseline(S, 0.5, seed=0)
    feature_basis(G, S)
    eliminate(X, basis, k)
    prune(G, X, y)
    assert torch.equal(state, torch.get_rng_state())
    for old, new in zip(before, (X, y, G.matrix(), S.matrix()), strict=True):
        assert torch.equal(old, new)


I2 = Geometry.from_matrix(torch.eye(2))
I3 = Geometry.from_matrix(torch.eye(3))
TWO = torch.ones(4, 2)
BAD = {
    "keep 0": (lambda: prune(I2, TWO, keep=0.0), "keep as a share"),
    "keep above 1": (lambda: prune(I2, TWO, keep=1.5), "keep as a share .* found 1.5"),
    "labels": (lambda: prune(I2, TWO, torch.zeros(3)), r"y has shape \(3,\), expected \(4,\)"),
    "zero sample": (lambda: prune(I2, torch.tensor([[1.0, 0.0], [0.0, 0.0]])), "sample 1 has no score"),
    "sizes": (lambda: feature_basis(I2, I3), "G is 2-dimensional, S is 3-dimensional"),
    "epsilon": (lambda: feature_basis(I2, I2, epsilon=0.0), "epsilon"),
    "zero G": (lambda: feature_basis(Geometry.from_matrix(torch.zeros(2, 2)), I2), "positive trace"),
    "negative G": (
        lambda: feature_basis(Geometry.from_matrix(torch.diag(torch.tensor([2.0, -1.0]))), I2),
        "not positive definite",
    ),
    "k": (lambda: eliminate(TWO, torch.eye(2), 3), "between 0 and 2 directions"),
    "k of variance": (lambda: explained_variance(I2, torch.eye(2), -1), "between 0 and 2 directions"),
    "not orthonormal": (lambda: eliminate(TWO, 2 * torch.eye(2), 1), "orthonormal"),
    "one vector": (lambda: eliminate(TWO, torch.ones(2), 1), "shape \\(directions"),
    "other data": (lambda: eliminate(torch.ones(4, 3), torch.eye(2), 1), "2 coordinates"),
    "whole numbers": (lambda: eliminate(TWO.long(), torch.eye(2), 1), "floating-point samples"),
    "other S": (lambda: explained_variance(I3, torch.eye(2)), "2 coordinates, S has 3"),
    "zero S": (lambda: explained_variance(Geometry.from_matrix(torch.zeros(2, 2)), torch.eye(2)), "positive variance"),
    "share": (lambda: random_baseline(I2, 0.0, seed=0), "variance as a share"),
    "too much": (lambda: eliminate_variance(TWO, torch.eye(2)[:1], I2, 0.9), "1 directions explain 0.5"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_gets_a_sentence(case: str) -> None:
    call, message = BAD[case]
    with pytest.raises(NetgrainError, match=message):
        call()


def test_scores_about_the_mean_do_not_reward_faint_samples() -> None:
    """A common background along which G is large, and noise of varying contrast."""
    generator = torch.Generator().manual_seed(11)
    d, n = 64, 2000
    background = torch.ones(d) / d**0.5
    G = Geometry.from_matrix(torch.eye(d, dtype=torch.float64) + 20 * torch.outer(background, background).double())
    contrast = torch.rand(n, generator=generator) + 0.2
    X = 8 * background + contrast[:, None] * torch.randn(n, d, generator=generator)
    plain, about_mean = score(G, X), score(G, X, centre=True)

    def correlated(scores: torch.Tensor) -> float:
        return float(torch.corrcoef(torch.stack([scores, contrast.double()]))[0, 1])

    assert correlated(plain) < -0.8
    assert abs(correlated(about_mean)) < 4 / n**0.5
    mean = X.mean(0)
    assert torch.allclose(score(G, X[:7], centre=mean), about_mean[:7], rtol=1e-4)
    assert torch.equal(score(G, X), G.score(X))
    assert torch.equal(
        prune(G, X, keep=0.5, centre=True), about_mean.argsort(descending=True, stable=True)[:1000].sort().values
    )
    with pytest.raises(NetgrainError, match=r"centre has shape \(3,\), the samples have \(64,\)"):
        score(G, X, centre=mean[:3])
