"""Conjectures: shares of random subspaces, exchangeable tokens, members in pairs."""

import math
from functools import partial

import pytest
import torch
from torch import Tensor, nn

from netgrain.experiments.theory import conjectures
from netgrain.experiments.theory.statements import (
    ratio,
)


def _random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize("k", [1, 4, 9])
def test_share_of_random_subspaces(k: int) -> None:
    D = torch.diag(torch.linspace(-1, 3, 10, dtype=torch.float64))
    shares = []
    for i in range(2000):
        V = torch.linalg.qr(_random(10, k, seed=i)).Q
        shares.append(float((V.T @ D @ V).square().sum() / D.square().sum()))
    found = torch.tensor(shares)
    expected = conjectures.random_share(k, 10, float(D.trace() ** 2 / D.square().sum()))
    assert abs(float(found.mean()) - expected) < 4 * float(found.std()) / math.sqrt(2000)
    assert abs(float(found.mean()) - (k / 10) ** 2) > 4 * float(found.std()) / math.sqrt(2000)  # not (k/D)² here


def test_share_inside_is_one_inside_and_none_outside() -> None:
    V = torch.eye(6, dtype=torch.float64)[:, :2]
    within = torch.zeros(5, 6, 6, dtype=torch.float64)
    within[:, 0, 0] = torch.arange(1.0, 6.0)
    changes = [(torch.zeros_like(within), within)]
    above, below, _ = conjectures.inside(changes, V)
    assert ratio(above, below).value == pytest.approx(1)
    above, below, _ = conjectures.inside(changes, torch.eye(6, dtype=torch.float64)[:, 2:4])
    assert ratio(above, below).value == 0


def test_exchangeable_tokens() -> None:
    a, b = 2.0, 0.5
    tokens = a * torch.eye(4).double() + b
    G = torch.zeros(16, 16, dtype=torch.float64)  # 4 × 4 image, patches of 2
    place = [(r // 2 * 2 + c // 2, r % 2 * 2 + c % 2) for r in range(4) for c in range(4)]
    for i, (t, p) in enumerate(place):
        for j, (u, q) in enumerate(place):
            G[i, j] = tokens[t, u] * (p == q)
    noise = _random(16, 16)
    torch.testing.assert_close(conjectures.exchangeable(G, 2), G)
    assert not torch.allclose(conjectures.exchangeable(G + noise, 2), G + noise)


def test_members_in_pairs_do_not_see_the_labels_at_first_order() -> None:
    made = partial(nn.Sequential, nn.Flatten(), nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 1))
    one, other = conjectures._pair(lambda: made(), 0, 0)
    x = torch.randn(5, 4, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(one(x), -other(x))
