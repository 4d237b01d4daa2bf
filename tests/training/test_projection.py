"""Corr with G S G: equal to slow loops over different members, nearly unbiased."""

import itertools
import math

import pytest
import torch
from torch import Tensor

from netgrain.geometry.forms import Factored
from netgrain.runtime.errors import GrainWarning, NetgrainError
from netgrain.training.pairs import SymmetricPairs
from netgrain.training.projection import Projection
from tests import naive
from tests.training.networks import _random


def _slow_projected(A: list[Tensor], G: list[Tensor], S: Tensor) -> float:
    def mean(values: list[Tensor]) -> float:
        return float(torch.stack(values).mean())

    index = range(len(A))
    across = mean([(A[i] * (G[j] @ S @ G[k])).sum() for i, j, k in itertools.permutations(index, 3)])
    own = mean([(A[i] * A[j]).sum() for i, j in itertools.permutations(index, 2)])
    four = itertools.permutations(index, 4)
    norm = mean([((G[i] @ S @ G[j]) * (G[k] @ S @ G[l]).T).sum() for i, j, k, l in four])
    return across / math.sqrt(own * norm)


@pytest.mark.parametrize("samples", [2, 3])  # not more, and more, than the rows of a member
def test_projection_compares_different_members_only(samples: int) -> None:
    left = Factored.of_members(_random(6, 2, 4, seed=1) * torch.tensor([2.0, 1.0, 0.5, 0.1]).double(), 0.7)
    delta = SymmetricPairs(left, left.rows + 0.1 * _random(12, 4, seed=2))
    rows = _random(samples, 4, seed=3)
    projection = Projection(left, rows)
    assert projection._by_rows == (samples == 3)
    parts = [[form.part(i).dense() for i in range(6)] for form in (delta, left)]
    S = rows.T @ rows
    whole = _slow_projected(*parts, S)
    left_out = [_slow_projected(*(naive.without(p, i) for p in parts), S) for i in range(6)]
    found = projection.corr(delta)
    assert found.value == pytest.approx(whole - 5 * (sum(left_out) / 6 - whole))
    GSG = left.dense() @ S @ left.dense()
    assert found.plug_in == pytest.approx(naive.corr(delta.dense(), GSG))
    with pytest.raises(NetgrainError, match="found 5 parts of another ensemble"):
        projection.corr(delta.subset(range(5)))


@pytest.mark.quick
def test_a_projection_that_is_too_noisy_is_nan_and_a_sentence() -> None:
    left = Factored.of_members(torch.eye(8, dtype=torch.float64)[:, None])  # no two members have anything in common
    with pytest.warns(GrainWarning, match="Corr with G S G could not be bias-corrected with 8 members"):
        found = Projection(left, torch.eye(8, dtype=torch.float64)).corr(left)
    assert math.isnan(found)
    assert found.plug_in == pytest.approx(1)
    few = Projection(left.subset(range(5)), torch.eye(8, dtype=torch.float64)).corr(left.subset(range(5)))
    assert few.value == few.plug_in == pytest.approx(1)
    assert math.isnan(few.stderr)


def test_projection_is_nearly_unbiased_where_the_naive_value_is_not() -> None:
    """A = G = diag(λ), S = diag(s): Corr(G, GSG) = Σ λ³s / √(Σλ² Σλ⁴s²)."""
    size, values = 30, torch.linspace(0.5, 2, 30, dtype=torch.float64)
    s = torch.linspace(3, 0.5, size, dtype=torch.float64)
    truth = float((values**3 * s).sum() / (values.square().sum() * (values**4 * s**2).sum()).sqrt())
    found = []
    for seed in range(30):
        sample = Factored.of_members(_random(16, 4, size, seed=seed) * values.sqrt() / 2)
        found.append(Projection(sample, torch.diag(s.sqrt())).corr(sample))
    mean = sum(found) / len(found)
    error = float(torch.tensor(found).std()) / math.sqrt(len(found))
    assert abs(mean - truth) < 4 * error + 0.005
    assert abs(sum(e.plug_in for e in found) / len(found) - truth) > 0.02 > 2 * error
    assert 0.3 < sum(e.stderr for e in found) / float(torch.tensor(found).std()) / len(found) < 3
