"""Sums of values that share channels: the maps add up, not the moments."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests import naive
from tests.closed_form.networks import closed


class PoolAndSkip(nn.Module):
    """PoolFormer's mixer around a skip: h + ½ (pool(h) − h), and the same channels once more after a crop and a pad."""

    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Conv1d(1, 2, 2, bias=False)
        self.b = nn.Conv1d(2, 1, 2, bias=False)
        self.c = nn.Linear(3, 1, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        h = torch.tanh(self.a(x))
        h = h + 0.5 * (F.avg_pool1d(h, 3, 1, 1, count_include_pad=False) - h)
        h = h - F.pad(h[..., 1:], (1, 0))
        return self.c(self.b(h).flatten(1))


class Cancelled(nn.Module):
    """Identity parts that cancel: (norm(h) + f(h)) − norm(h) = f(h), as in RepMixer."""

    def __init__(self, whole: bool = True) -> None:
        super().__init__()
        self.whole = whole
        self.a, self.b, self.c = (nn.Conv1d(n, m, 2, bias=False) for n, m in ((1, 2), (2, 2), (2, 1)))
        self.norm = nn.BatchNorm1d(2)

    def forward(self, x: Tensor) -> Tensor:
        h = self.a(x)
        branch = F.pad(self.b(h), (0, 1))
        h = (self.norm(h) + branch) - self.norm(h) if self.whole else branch
        return self.c(torch.tanh(h)).flatten(1)


@pytest.mark.quick
def test_pool_minus_identity_over_every_sign() -> None:
    G = closed(PoolAndSkip, (1, 5))
    expected = naive.every_sign(PoolAndSkip().double(), (1, 5))
    assert G.exact
    assert torch.allclose(G.matrix(), expected, rtol=1e-10, atol=1e-12 * float(expected.max()))


def test_parts_that_cancel() -> None:
    assert torch.allclose(
        closed(Cancelled, (1, 5)).matrix(), closed(lambda: Cancelled(False), (1, 5)).matrix(), rtol=1e-12, atol=1e-15
    )
