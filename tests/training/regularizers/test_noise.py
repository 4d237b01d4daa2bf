"""Noise on inputs and labels."""

import math

import pytest
import torch
from torch import Tensor, nn

from netgrain.training.regularizers.noise import InputNoise, LabelNoise


def batch(n: int = 16) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    return torch.randn(n, 5, generator=generator, dtype=torch.float64), torch.arange(n) % 3


def test_input_noise_is_tikhonov_for_affine_maps() -> None:
    """E ½‖f(x + ε) − y‖² = ½‖f(x) − y‖² + (σ²/2)·‖W‖², an identity for f(x) = Wx + b."""
    model = nn.Linear(5, 2).double()
    x, _ = batch(400)
    y = torch.zeros(400, 2, dtype=torch.float64)

    def half(f: Tensor, t: Tensor) -> Tensor:
        return (f - t).square().sum() / 2 / len(f)

    regularizer = InputNoise(0.6, seed=2)
    losses = torch.stack([regularizer.backward(half, model, x, y) for _ in range(400)])
    plain = half(model(x), y).detach()
    want = plain + 0.18 * model.weight.detach().square().sum()
    assert abs(float((losses.mean() - want) / (losses.std() / 20))) < 4
    assert float(want - plain) > 20 * float(losses.std() / 20)


@pytest.mark.quick
def test_label_noise_hits_the_asked_share_with_every_class() -> None:
    y = torch.zeros(40_000, dtype=torch.int64)
    noisy = LabelNoise(0.3, seed=1).targets(y, torch.zeros(len(y), 4))
    assert abs(float((noisy > 0).double().mean()) - 0.3 * 3 / 4) < 4 * math.sqrt(0.225 * 0.775 / len(y))
    assert noisy.unique().tolist() == [0, 1, 2, 3]
    assert not y.any()  # the caller's labels are not written to


def test_real_targets_get_gaussian_noise() -> None:
    y = torch.zeros(10_000, dtype=torch.float64)
    assert float(LabelNoise(2.0).targets(y, y).std()) == pytest.approx(2.0, rel=0.05)
