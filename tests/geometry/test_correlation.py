"""Corr of sampled matrices: equal to slow loops, unbiased, with error bars that mean something."""

import math

import pytest
import torch

import netgrain as ng
from netgrain.geometry.correlation import correlation, effective_rank, fidelity, trace
from netgrain.geometry.forms import Dense, Factored
from netgrain.geometry.probed import probed, test_vectors
from netgrain.geometry.structured_forms import Kronecker
from tests import naive

D, MEMBERS, REPETITIONS = 1024, 25, 200
INDEX = torch.arange(1, D + 1, dtype=torch.float64)
SPECTRA = {
    "identity": torch.ones(D, dtype=torch.float64),
    "ResNet-like": torch.exp(-INDEX / 40) + 1e-6,
    "heavy-tailed": 1 / INDEX,
    "near rank one": torch.cat([torch.ones(1, dtype=torch.float64), torch.full((D - 1,), 1e-5, dtype=torch.float64)]),
}


def _members(n: int, values: torch.Tensor, generator: torch.Generator) -> Factored:
    rows = torch.randn(n, 1, len(values), generator=generator, dtype=torch.float64) * values.sqrt()
    return Factored.of_members(rows)


@pytest.mark.quick
@pytest.mark.parametrize("name", SPECTRA)
def test_two_estimates_of_one_matrix_correlate_to_one(name: str) -> None:
    generator = torch.Generator().manual_seed(1)
    estimates = [
        correlation(*(_members(MEMBERS, SPECTRA[name], generator) for _ in range(2))) for _ in range(REPETITIONS)
    ]
    values = torch.tensor(estimates, dtype=torch.float64)
    bars = torch.tensor([e.stderr for e in estimates], dtype=torch.float64)
    covered = sum(lo <= 1 <= hi for lo, hi in (e.interval(0.95) for e in estimates)) / REPETITIONS
    assert abs(float(values.mean()) - 1) <= 0.02
    assert covered >= 0.90
    assert float(bars.mean()) <= 2 * float(values.std())
    assert all(e.plug_in is not None and e.plug_in <= 1 for e in estimates)
    if name == "identity":  # what the correction is for: the naive value is nowhere near
        assert max(e.plug_in for e in estimates) < 0.1


def test_equals_the_slow_loops() -> None:
    generator = torch.Generator().manual_seed(2)
    values = torch.tensor([3.0, 1.0, 1.0, 0.5, 0.1], dtype=torch.float64)
    a, b = _members(6, values, generator), _members(5, values.flip(0), generator)
    listed_a, listed_b = ([f.part(i).dense() for i in range(f.parts)] for f in (a, b))
    found = correlation(a, b)
    assert found.value == pytest.approx(naive.jackknifed_corr(listed_a, listed_b), rel=1e-9)
    assert found.stderr == pytest.approx(naive.jackknifed_corr_error(listed_a, listed_b), rel=1e-9)
    assert found.plug_in == pytest.approx(naive.corr(a.dense(), b.dense()))
    assert found.n == 5


def test_the_same_members_are_perfectly_correlated_when_paired() -> None:
    a = _members(10, SPECTRA["heavy-tailed"], torch.Generator().manual_seed(3))
    assert correlation(a, a, paired=True).value == pytest.approx(1)
    assert correlation(a, a).value > 1.01  # shared members counted as independent inflate it: why paired exists


def test_against_an_exact_matrix() -> None:
    values = torch.linspace(1, 2, 30, dtype=torch.float64)
    exact = Dense(torch.diag(values.flip(0)))
    truth = naive.corr(torch.diag(values), exact.matrix)
    generator = torch.Generator().manual_seed(4)
    estimates = [correlation(_members(40, values, generator), exact) for _ in range(100)]
    mean = sum(estimates) / 100
    spread = torch.tensor(estimates, dtype=torch.float64).std()
    assert abs(mean - truth) < 4 * float(spread) / 10
    assert 0.5 * float(spread) < sum(e.stderr for e in estimates) / 100 < 2 * float(spread)
    assert correlation(exact, exact).stderr == 0


def test_too_noisy_is_nan_and_a_sentence() -> None:
    rows = torch.eye(40, dtype=torch.float64)[:8, None]  # orthogonal members: every product of two of them is zero
    with pytest.warns(ng.GrainWarning, match="use more members"):
        found = correlation(Factored.of_members(rows), Factored.of_members(rows))
    assert math.isnan(found.value)
    assert found.plug_in == pytest.approx(1)


def test_effective_rank_is_unbiased_and_its_bar_covers() -> None:
    values = torch.exp(-INDEX[:200] / 20)
    truth = float(values.sum() ** 2 / values.square().sum())
    generator = torch.Generator().manual_seed(5)
    found = [effective_rank(_members(60, values, generator)) for _ in range(100)]
    mean, spread = sum(found) / 100, float(torch.tensor(found, dtype=torch.float64).std())
    assert abs(mean - truth) < 4 * spread / 10
    assert sum(lo <= truth <= hi for lo, hi in (e.interval() for e in found)) >= 88
    assert abs(sum(e.plug_in for e in found) / 100 - truth) > 10 * spread / 10  # the naive one is biased


def test_trace_and_fidelity() -> None:
    values = torch.exp(-INDEX[:200] / 20)
    generator = torch.Generator().manual_seed(6)
    truth = Dense(torch.diag(values))
    samples = [_members(50, values, generator) for _ in range(60)]
    traces = [trace(s) for s in samples]
    inside = sum(abs(t - float(values.sum())) < 2 * t.stderr for t in traces)
    assert 52 <= inside <= 60
    real = sum(naive.corr(s.dense(), truth.matrix) for s in samples) / 60
    assert sum(fidelity(s) for s in samples) / 60 == pytest.approx(real, abs=0.01)
    assert fidelity(truth) == 1


def test_a_block_against_a_whole_matrix_without_dense_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sample with an integrated first layer and one without, above the size of whole matrices."""
    generator = torch.Generator().manual_seed(3)
    copies, size = 3, 200
    values = torch.exp(-torch.arange(size, dtype=torch.float64) / 20) + 0.01
    rows = torch.randn(24, 2, size, generator=generator, dtype=torch.float64) * values.sqrt()
    others = torch.randn(30, 4, copies, size, generator=generator, dtype=torch.float64) * values.roll(5).sqrt()
    block = Kronecker(Factored.of_members(rows), copies, torch.randperm(copies * size, generator=generator))
    whole = Factored.of_members(block.from_copies(others.reshape(-1, size)).reshape(30, 4, -1))
    want = [correlation(block, whole), correlation(whole, block)]
    monkeypatch.setattr("netgrain.geometry.correlation.DENSE_LIMIT", 512)
    monkeypatch.setattr("netgrain.geometry.forms.DENSE_LIMIT", 512)
    with pytest.raises(ng.NetgrainError, match="dense"):
        block.pairwise(whole)
    found = [correlation(block, whole), correlation(whole, block)]
    for exact, estimate in zip(want, found, strict=True):
        assert estimate.value == pytest.approx(exact.value, abs=0.01)
        assert estimate.stderr == pytest.approx(exact.stderr, rel=0.25)
    held = probed(whole, test_vectors(copies * size))
    assert correlation(block, held).value == pytest.approx(want[0].value, abs=0.01)
