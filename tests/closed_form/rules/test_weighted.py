"""Layers with random weights, by hand and against sampled networks."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from torch import nn

import netgrain as ng
from netgrain.models import MLP
from tests.closed_form.networks import S, closed, normal, sequence, thorough


@pytest.mark.quick
def test_theorem_on_pooled_convolutions() -> None:
    """Theorem A.3: a convolution, then the mean over all positions: G ∝ Σ_{j1,j2} M_{j1} M_{j2}ᵀ."""
    n, k = 7, 3
    make = normal(sequence(lambda: nn.Conv1d(1, 5, k, bias=False), lambda: nn.AdaptiveAvgPool1d(1), nn.Flatten), 0.7)
    windows = [torch.eye(n, dtype=torch.float64)[:, j : j + k] for j in range(n - k + 1)]  # (input, kernel)
    M = sum(windows[1:], windows[0]) / len(windows)
    assert torch.allclose(closed(make, (1, n)).matrix(), 5 * 0.7**2 * M @ M.T, rtol=1e-12, atol=1e-15)


def test_an_mlp_has_no_grain() -> None:
    G = closed(partial(MLP, channels=1, activation="gelu", image_size=6), (1, 6, 6))
    assert torch.allclose(G.matrix(), torch.eye(36).double() * G.trace.value / 36, rtol=1e-12, atol=0)
    assert [b.size for b in G.blocks()] == [36]


def test_the_check_rejects_a_wrong_border() -> None:
    around = closed(lambda: S(nn.Conv2d(1, 4, 3, padding=1, padding_mode="circular", bias=False), *head()), (1, 8, 8))
    zeros = partial(lambda: S(nn.Conv2d(1, 4, 3, padding=1, bias=False), *head()))
    judged = ng.check(zeros, (1, 8, 8), members=thorough(1000), closed=around, workers=1, progress=False)
    assert not judged.agrees


def head() -> list[nn.Module]:
    return [nn.GELU(), nn.Conv2d(4, 4, 3, padding=1, bias=False), nn.GELU(), nn.Flatten(), nn.Linear(256, 1)]
