"""Sets of features added up, against products written out."""

from __future__ import annotations

import pytest
import torch

from netgrain.learning import layer_grams
from netgrain.learning.layer_grams import layer_gram, products
from tests import naive

SETS = [torch.randn(9, f, generator=torch.Generator().manual_seed(f)) * f + 3 for f in (2, 40)]


@pytest.mark.quick
def test_each_set_is_centred_and_divided_by_its_mean_diagonal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layer_grams, "BLOCK", 4)
    found, count = layer_gram(SETS, 9)
    torch.testing.assert_close(found, naive.centred_gram(SETS))
    assert count == 2
    assert torch.equal(found, found.T)
    scaled, _ = layer_gram([5 * SETS[0], SETS[1] - 8], 9)
    torch.testing.assert_close(scaled, found, rtol=1e-5, atol=1e-5)


def test_other_samples_are_centred_and_scaled_as_the_first_ones() -> None:
    found, _ = layer_gram([s[[*range(9), 2, 4]] for s in SETS], 9)
    torch.testing.assert_close(found, naive.centred_gram(SETS)[:, [2, 4]])


def test_constant_sets_do_not_count() -> None:
    found, count = layer_gram([torch.full((9, 3), 0.1), SETS[0]], 9)
    torch.testing.assert_close(found, naive.centred_gram(SETS[:1]))
    assert count == 1
    assert layer_gram([torch.ones(9, 3)], 9)[1] == 0


@pytest.mark.parametrize("n", [1, 4, 9])
def test_products(n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layer_grams, "BLOCK", 4)
    rows = SETS[1].double()
    torch.testing.assert_close(products(SETS[1], n), rows[:n] @ (rows if n == 9 else rows[n:]).T)
