"""Norms from products with a few random vectors, against the matrices themselves."""

import pytest
import torch

from netgrain.geometry.correlation import correlation, effective_rank, fidelity
from netgrain.geometry.forms import Dense, Factored
from netgrain.geometry.probed import probed, test_vectors


def sample(seed: int, members: int = 12, size: int = 600) -> Factored:
    torch.manual_seed(seed)
    shape = 1 + torch.arange(size) / size  # a full-rank truth that is not the identity
    return Factored.of_members(torch.randn(members, 40, size, dtype=torch.float64) * shape)


@pytest.mark.quick
def test_fidelity_and_corr_are_those_of_the_matrices() -> None:
    a, b = sample(0), sample(1)
    assert fidelity(probed(a)) == pytest.approx(fidelity(a), abs=0.01)
    exact, found = correlation(a, b), correlation(probed(a), probed(b))
    assert abs(found.value - exact.value) < 0.02
    assert found.plug_in == pytest.approx(exact.plug_in, abs=0.02)
    assert correlation(probed(a), b).value == pytest.approx(exact.value, abs=0.02)


def test_squared_norms_are_unbiased_over_vectors() -> None:
    a = sample(0)
    whole = a.dense()
    generator = torch.Generator().manual_seed(0)
    signs = torch.randint(2, (400, 109, a.size), generator=generator).double() * 2 - 1
    estimates = (signs @ whole).square().sum((1, 2)) / 109
    error = float(estimates.std()) / 20
    assert abs(float(estimates.mean()) - float(whole.square().sum())) < 4 * error
    ours = probed(a).norm2()
    assert abs(ours - float(whole.square().sum())) < 4 * float(estimates.std())


def test_small_matrices_have_exact_norms() -> None:
    a, b = sample(0, size=60), sample(1, size=60)
    assert probed(a).norm2() == pytest.approx(a.norm2())
    assert fidelity(probed(a)) == pytest.approx(fidelity(a))
    one, other = correlation(probed(a), probed(b)), correlation(a, b)
    assert (one.value, one.stderr) == pytest.approx((other.value, other.stderr))


def test_parts_and_vectors() -> None:
    a = sample(0)
    p = probed(a)
    assert p.vectors == len(test_vectors(600)) == 109
    assert torch.equal(test_vectors(600), test_vectors(600))
    assert p.trace() == pytest.approx(a.trace())
    assert p.subset([1, 4]).trace() == pytest.approx(a.subset([1, 4]).trace())
    assert torch.allclose(p.scaled(3.0).matvec(torch.ones(1, 600)), 3 * a.matvec(torch.ones(1, 600)))
    assert torch.allclose(p.mean_products, a.matvec(test_vectors(600)))
    assert p.scaled(3.0).norm2() == pytest.approx(9 * p.norm2())


def steep(seed: int, rotated_by: int, size: int = 600) -> Factored:
    """A sample of a steep spectrum, in a basis where a few test vectors miss its norm by several per cent."""
    torch.manual_seed(rotated_by)
    basis = torch.linalg.qr(torch.randn(size, 30, dtype=torch.float64))[0].T
    torch.manual_seed(seed)
    scales = torch.linspace(0, -2, 30, dtype=torch.float64).exp()
    return Factored.of_members((torch.randn(12, 20, 30, dtype=torch.float64) * scales) @ basis)


@pytest.fixture
def few_vectors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("netgrain.geometry.probed.ENTRIES", 2**13)  # 13 vectors of 600 entries


@pytest.mark.usefixtures("few_vectors")
def test_the_error_of_an_effective_rank_counts_the_vectors() -> None:
    z = []
    for truth in range(40):
        a = steep(100 + truth, truth)
        exact, found = effective_rank(a), effective_rank(probed(a))
        own = found.value * probed(a).norm_error
        assert found.stderr >= own > exact.stderr  # the vectors dominate
        z.append((found.value - exact.value) / own)
    spread = torch.tensor(z).square().mean().sqrt()
    assert 0.7 < float(spread) < 1.4  # 40 values: 1 ± 0.11


@pytest.mark.usefixtures("few_vectors")
def test_errors_of_the_vectors_cancel_in_corr() -> None:
    for truth in range(3):
        a, b = steep(200 + truth, truth), steep(300 + truth, truth)
        exact = Dense(b.dense())
        for other, same in ((b, b), (probed(b), b), (exact, exact)):
            for one, two, slow in ((probed(a), other, (a, same)), (other, probed(a), (same, a))):
                found = correlation(one, two)
                assert found.value == pytest.approx(correlation(*slow).value, abs=0.01)
                assert found.plug_in == pytest.approx(correlation(*slow).plug_in, abs=0.01)
