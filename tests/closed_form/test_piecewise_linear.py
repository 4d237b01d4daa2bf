"""Activations made of straight pieces: which are homogeneous."""

import pytest
import torch

from netgrain.closed_form.gaussian_expectations import Activation
from tests.closed_form.gaussians import ALL, known, psd


@pytest.mark.quick
@pytest.mark.parametrize("activation", [a for a in ALL if a.homogeneous], ids=lambda a: a.name)
@pytest.mark.parametrize("scale", [1e-12, 7.0, 1e6])
def test_homogeneous(activation: Activation, scale: float) -> None:
    K, z = psd(6, 9), torch.randn(50, dtype=torch.float64)
    assert torch.allclose(activation(scale * z), scale * activation(z), rtol=1e-14, atol=0)
    for scaled, matrix, factor in zip(activation.moments(scale * K), activation.moments(K), (scale, 1.0), strict=True):
        assert torch.allclose(scaled, factor * matrix, rtol=1e-9, atol=1e-14 * factor)


def test_homogeneous_ones_are_named() -> None:
    assert {a.name for a in ALL if a.homogeneous} == {"relu", "leaky_relu", "abs", "pow"}
    assert known(torch.clamp, min=0).homogeneous
    assert not known(torch.clamp, min=0.1).homogeneous
