"""Shares of a change inside a subspace, against slow loops, and what random subspaces hold."""

import math

import pytest
import torch
from torch import Tensor

from netgrain.experiments.theory.inclusion import (
    change_inside,
    inside_and_whole,
    leading,
    pooled_share,
    random_share,
)


def _random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def _rows(members: int = 5, times: int = 3, d: int = 6) -> Tensor:
    return _random(members, times, 2, d).float()


def _matrices(rows: Tensor) -> Tensor:
    return rows.double().mT @ rows.double() / rows.shape[2]  # (members, times, d, d)


@pytest.mark.parametrize("k", [1, 4, 9])
def test_share_of_random_subspaces(k: int) -> None:
    D = torch.diag(torch.linspace(-1, 3, 10, dtype=torch.float64))
    shares = []
    for i in range(2000):
        V = torch.linalg.qr(_random(10, k, seed=i)).Q
        shares.append(float((V.T @ D @ V).square().sum() / D.square().sum()))
    found = torch.tensor(shares)
    expected = random_share(k, 10, float(D.trace() ** 2 / D.square().sum()))
    assert abs(float(found.mean()) - expected) < 4 * float(found.std()) / math.sqrt(2000)
    assert abs(float(found.mean()) - (k / 10) ** 2) > 4 * float(found.std()) / math.sqrt(2000)  # not (k/D)² here


def test_share_of_a_change_inside_a_subspace() -> None:
    rows = torch.zeros(4, 2, 1, 4)
    rows[:, 0, 0, 0] = rows[:, 1, 0, 1] = 1.0  # from e₀e₀ᵀ to e₁e₁ᵀ
    axes = torch.eye(4, dtype=torch.float64)
    assert change_inside(rows, [0, 1], axes[:, :2]).share.value == pytest.approx(1)
    assert change_inside(rows, [0, 1], axes[:, 2:]).share.value == pytest.approx(0)
    half = change_inside(rows, [0, 1], axes[:, :1])
    assert half.share.value == pytest.approx(0.5)
    assert half.excess.value == pytest.approx(0.5 - half.chance)
    assert half.chance == pytest.approx(random_share(1, 4, 0.0))  # the change has no trace
    every = change_inside(_rows(), [0, 1, 2], torch.eye(6, dtype=torch.float64))
    assert every.share.value == pytest.approx(1)
    assert every.chance == pytest.approx(1)
    assert every.excess.value == pytest.approx(0, abs=1e-9)


def test_share_against_matrices() -> None:
    rows = _rows()
    G = _matrices(rows)
    V = torch.linalg.qr(torch.randn(6, 2, generator=torch.Generator().manual_seed(1), dtype=torch.float64)).Q
    changes = [G[:, t + 1] - G[:, t] for t in (0, 1)]

    def share(kept: list[int]) -> float:
        above = below = 0.0
        for D in changes:
            for i, j in ((i, j) for i in kept for j in kept if i != j):
                above += float(((V.T @ D[i] @ V) * (V.T @ D[j] @ V)).sum())
                below += float((D[i] * D[j]).sum())
        return above / below

    without = [share([k for k in range(5) if k != i]) for i in range(5)]
    whole = share(list(range(5)))
    assert change_inside(rows, [0, 1, 2], V).share.value == pytest.approx(5 * whole - 4 * sum(without) / 5)


def test_share_over_several_training_sets() -> None:
    """A ratio of sums over sets, so a set that hardly moves hardly counts; the error is over sets."""
    V = torch.eye(6, dtype=torch.float64)[:, :2]
    sets = [_rows(), 0.01 * _rows().flip(3)]
    sums = [tuple(float(p.whole) for p in inside_and_whole(rows, [0, 1, 2], V)) for rows in sets]
    both = pooled_share(sums, [(6, 2)] * 2)
    assert both.share.value == pytest.approx(sums[0][0] / sums[0][1], abs=1e-4)
    assert both.share.n == 2
    assert both.share.stderr > 0
    assert both.chance == pytest.approx(change_inside(sets[0], [0, 1, 2], V).chance, abs=1e-4)
    assert both.excess.value == pytest.approx(both.share.value - both.chance)
    assert math.isnan(pooled_share(sums[:1], [(6, 2)]).share.stderr)


def test_the_whole_space_holds_everything() -> None:
    rows = _rows()
    parts = [tuple(float(p.whole) for p in inside_and_whole(rows, [0, 2], torch.eye(6, dtype=torch.float64)))]
    assert pooled_share(parts * 3, [(6, 6)] * 3).share.value == pytest.approx(1)
    assert pooled_share(parts * 3, [(6, 6)] * 3).excess.value == pytest.approx(0, abs=1e-9)
    values = torch.tensor([4.0, 3.0, 2.0, 1.0])
    assert [leading(values, share) for share in (0.3, 0.4, 0.7, 0.71, 1.0)] == [1, 1, 2, 3, 4]
