"""Eigenlearning against simulated Gaussian features, and shares of the label on planted modes."""

import pytest
import torch
from torch import Tensor

from netgrain.learning.decompositions import decomposed
from netgrain.learning.leave_one_out import leave_one_out
from netgrain.learning.modes import EDGES, eigenlearning, mode_shares
from netgrain.learning.targets import targets_of
from netgrain.runtime.errors import NetgrainError

MODES = 150
EIGENVALUES = torch.arange(1, MODES + 1, dtype=torch.float64) ** -1.5


@pytest.mark.parametrize(("n", "ridge"), [(10, 0.1), (60, 0.01), (500, 3.0), (60, 0.0)])
def test_learnabilities_and_the_ridge_add_up_to_the_samples(n: int, ridge: float) -> None:
    found = eigenlearning(EIGENVALUES, torch.ones(MODES), n, ridge=ridge)
    assert float(found.learnabilities.sum()) + ridge / found.kappa == pytest.approx(n, rel=1e-10)
    assert found.overfitting >= 1
    assert found.train_error == pytest.approx((ridge / (n * found.kappa)) ** 2 * found.test_error)


def test_errors_are_those_of_simulated_gaussian_features() -> None:
    n, ridge, noise = 60, 0.2, 0.05
    powers = torch.arange(1, MODES + 1, dtype=torch.float64) ** -1.2
    theory = eigenlearning(EIGENVALUES, powers, n, ridge=ridge, noise=noise)
    g = torch.Generator().manual_seed(0)
    train, test = [], []
    for _ in range(300):
        phi = torch.randn(n, MODES, generator=g, dtype=torch.float64)
        v = powers.sqrt() * torch.randint(0, 2, (MODES,), generator=g).mul(2).sub(1)
        y = phi @ v + noise**0.5 * torch.randn(n, generator=g, dtype=torch.float64)
        alpha = torch.linalg.solve((phi * EIGENVALUES) @ phi.T + ridge * torch.eye(n), y)
        learnt = EIGENVALUES * (phi.T @ alpha)
        test.append(float((learnt - v).square().sum()) + noise)  # features have variance 1: exact over new samples
        train.append(float((ridge * alpha).square().mean()))
    assert theory.test_error == pytest.approx(sum(test) / 300, rel=0.02)
    assert theory.train_error == pytest.approx(sum(train) / 300, rel=0.03)


def test_kappa_of_a_sample_gives_generalised_cross_validation() -> None:
    """With κ = 1/tr(K + δ)⁻¹ the training error over (δ/(nκ))² is GCV by definition; here the theory's κ is near it."""
    g = torch.Generator().manual_seed(1)
    n, ridge = 200, 0.1
    phi = torch.randn(n, MODES, generator=g, dtype=torch.float64)
    inverse = torch.linalg.inv((phi * EIGENVALUES) @ phi.T + ridge * torch.eye(n))
    theory = eigenlearning(EIGENVALUES, torch.ones(MODES), n, ridge=ridge)
    assert theory.kappa == pytest.approx(float(1 / inverse.trace()), rel=0.05)


def test_impossible_problems_are_refused() -> None:
    with pytest.raises(NetgrainError, match="more modes than samples"):
        eigenlearning(EIGENVALUES, torch.ones(MODES), MODES, ridge=0.0)
    with pytest.raises(NetgrainError, match="positive eigenvalues"):
        eigenlearning(-EIGENVALUES, torch.ones(MODES), 5, ridge=1.0)


def features(n: int, seed: int = 0) -> Tensor:
    g = torch.Generator().manual_seed(seed)
    return torch.randn(n, MODES, generator=g, dtype=torch.float64)


def test_planted_shares_are_found_in_their_bands() -> None:
    """Half of the variance in mode 1, a quarter in mode 6, a quarter is noise."""
    phi = features(600)
    # the first modes stand apart, so that sampled ones are theirs
    values = torch.cat([torch.tensor([40.0, 20, 16, 12, 10, 8, 1]).double(), 0.1 * EIGENVALUES[7:]])
    noise = torch.randn(600, generator=torch.Generator().manual_seed(9), dtype=torch.float64)
    y = 0.5**0.5 * phi[:, 0] + 0.5 * phi[:, 5] + 0.5 * noise
    K = (phi * values) @ phi.T
    targets = targets_of(y)
    shares = mode_shares(K, targets, ridge=leave_one_out(K, targets.columns).ridge)
    bands = {band.name: band for band in shares.bands}
    for name, planted in (("1", 0.5), ("4–10", 0.25)):
        assert abs(bands[name].share - planted) < 2 * bands[name].share.stderr < 0.1
        assert bands[name].learnt == pytest.approx(float(bands[name].share), rel=0.1)
    assert float(shares.now + shares.later + shares.never) == pytest.approx(1)
    assert abs(shares.never - 0.25) < 2 * shares.never.stderr
    assert shares.now > 0.65
    assert [band.name for band in shares.shown] == ["1", "4–10"]
    assert shares.bands[-1].last == 299
    assert [band.last for band in shares.bands[:3]] == list(EDGES[:3])


def test_few_samples_leave_a_weak_mode_for_later() -> None:
    """Half of the label in mode 1, half in mode 6, and a ridge that lets through a third and a tenth of them."""
    phi = features(400)
    values = torch.cat([torch.tensor([40.0, 20, 16, 12, 10, 8, 1]).double(), 0.1 * EIGENVALUES[7:]])
    targets = targets_of(phi[:, 0] + phi[:, 5])
    shares = mode_shares((phi * values) @ phi.T, targets, ridge=300.0)
    assert shares.never < 0.1
    assert shares.later > 0.7
    L = [value / 106 / (value / 106 + shares.kappa) for value in (40.0, 8.0)]
    assert shares.now == pytest.approx(0.5 * sum(L), abs=2 * shares.now.stderr)


def test_shuffled_labels_have_no_share() -> None:
    phi = features(400)
    K = (phi * EIGENVALUES) @ phi.T
    y = torch.arange(400) % 2
    for seed in range(5):
        shuffled = targets_of(y[torch.randperm(400, generator=torch.Generator().manual_seed(seed))])
        shares = mode_shares(K, shuffled, ridge=1.0, seed=seed)
        assert all(abs(band.share) < 0.1 for band in shares.bands)
        assert shares.never > 0.85
    # the sample's own eigenvectors hold all of it
    U = decomposed(K).vectors
    own = (U.T @ (shuffled.columns - shuffled.columns.mean(0))).square().sum() / 400 / shuffled.variance
    assert float(own) == pytest.approx(1)


def test_many_samples_give_what_a_thousand_of_them_give() -> None:
    phi = features(1200)
    targets = targets_of(phi[:, 0] + 0.5 * phi[:, 140])
    K = (phi * torch.cat([EIGENVALUES[:1] * 20, EIGENVALUES[1:]])) @ phi.T
    shares = mode_shares(K, targets, ridge=1.0, groups=torch.arange(1200) // 2)
    assert abs(shares.bands[0].share - 0.8) < 2 * shares.bands[0].share.stderr
    assert shares.bands[-1].last < 500


def test_shares_of_scaled_kernels_and_grouped_samples() -> None:
    phi = features(200)
    phi[1::2] = phi[::2]
    K = (phi * EIGENVALUES) @ phi.T
    groups = torch.arange(200) // 2
    targets = targets_of(torch.arange(100).repeat_interleave(2) % 2)  # twins share a label that means nothing
    shares = mode_shares(K, targets, ridge=1.0, groups=groups)
    again = mode_shares(1e3 * K, targets, ridge=1.0, groups=groups)
    assert float(shares.now) == pytest.approx(float(again.now), rel=1e-6, abs=1e-9)
    assert shares.never > 0.8
    assert mode_shares(K, targets, ridge=1.0).never < 0.6  # without groups twins answer for each other
