"""Pairs of rows equal the dense matrix that they stand for, kept or condensed."""

from functools import partial

import pytest
import torch

from netgrain.geometry.forms import Dense, Factored
from netgrain.runtime.errors import NetgrainError
from netgrain.training.pairs import PairRows, SymmetricPairs
from tests.training.networks import _random


def _pairs(members: int = 7, rows: int = 2, size: int = 6, seed: int = 0) -> SymmetricPairs:
    left = Factored.of_members(_random(members, rows, size, seed=seed), 0.7)
    return SymmetricPairs(left, _random(members * rows, size, seed=seed + 1))


@pytest.mark.parametrize(
    "form", [_pairs(), _pairs().batched(3), _pairs(5, 1), _pairs(4, 9), _pairs().subset([0, 2, 5])]
)
def test_pairs_equal_their_dense_matrix(form: SymmetricPairs) -> None:
    close = partial(torch.testing.assert_close, rtol=1e-10, atol=1e-12)
    D = form.dense()
    parts = [form.part(i).dense() for i in range(form.parts)]
    close(D, sum(w * p for w, p in zip(form.counts.double() / form.counts.sum(), parts, strict=True)))
    close(D, D.T)
    assert float(torch.linalg.eigvalsh(D)[0]) < 0 < float(torch.linalg.eigvalsh(D)[-1])
    V = _random(3, 6, seed=9)
    close(form.matvec(V), V @ D)
    assert form.trace() == pytest.approx(float(D.trace()))
    assert form.norm2() == pytest.approx(float(D.square().sum()))
    close(form.part_traces(), torch.stack([p.trace() for p in parts]))
    close(form.part_norms2(), torch.stack([p.square().sum() for p in parts]))
    for other in (_pairs(5, 3, seed=4), Factored.of_members(_random(4, 2, 6, seed=5)), Dense(torch.eye(6).double())):
        H = other.dense()
        assert form.inner(other) == pytest.approx(float((D * H).sum()))
        close(form.part_inner(other), torch.stack([(p * H).sum() for p in parts]))
        if other.parts:
            theirs = [other.part(j).dense() for j in range(other.parts)]
            close(form.pairwise(other), torch.stack([torch.stack([(p * q).sum() for q in theirs]) for p in parts]))


def test_rows_whose_products_cost_too_much_are_condensed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("netgrain.training.pairs.PRODUCTS", 1.0)
    rows = PairRows(6, 1.0)
    rows.add(_random(3, 6), _random(3, 6))
    assert isinstance(rows.forms()[1], Dense)


@pytest.mark.quick
def test_rows_that_do_not_fit_are_condensed() -> None:
    a, b = _random(100, 3, 6, seed=1), _random(100, 3, 6, seed=2)
    kept, condensed = PairRows(6, 0.5), PairRows(6, 0.5, memory=1000)
    for rows in (kept, condensed):
        for i in range(100):
            rows.add(a[i], b[i])
    (G, delta, _), (few_G, few_delta, M) = kept.forms(), condensed.forms()
    assert isinstance(few_delta, Dense)
    assert isinstance(delta, SymmetricPairs)
    assert int(few_delta.counts.sum()) == 100
    torch.testing.assert_close(few_delta.dense(), delta.dense())
    torch.testing.assert_close(few_G.dense(), G.dense())
    torch.testing.assert_close(M, delta.half())
    assert few_delta.parts == 64
    assert few_delta.counts.tolist() == [2] * 36 + [1] * 28
    with pytest.raises(NetgrainError, match=r"take 0\.3 GiB \(the limit is 0\.0\); take at most 1 members"):
        PairRows(5000, 1.0, memory=1000).expect(1000, torch.zeros(8, 5000))
