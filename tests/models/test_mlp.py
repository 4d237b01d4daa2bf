"""MLP against the same network written out."""

import pytest
import torch

from tests.models.networks import images, small


@pytest.mark.quick
@pytest.mark.parametrize("depth", [0, 1, 2])
def test_mlp_is_matrices_with_an_activation_between_them(depth: int) -> None:
    model = small("mlp", activation="tanh", depth=depth)
    w = list(model.parameters())
    assert len(w) == 2 * (depth + 1)
    x = images().flatten(1)
    for matrix, bias in zip(w[:-2:2], w[1:-2:2], strict=True):
        x = torch.tanh(x @ matrix.T + bias)
    assert torch.allclose(model(images()), x @ w[-2].T + w[-1], atol=1e-6)
