"""MLP against the same network written out."""

import pytest
import torch

from netgrain.models.mlp import MLP
from netgrain.runtime.errors import NetgrainError
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


def test_features_of_a_table_take_the_place_of_pixels() -> None:
    model = MLP(features=5, outputs=2, depth=1)
    assert [tuple(p.shape) for p in model.parameters()] == [(100, 5), (100,), (2, 100), (2,)]
    assert model(torch.zeros(3, 5)).shape == (3, 2)
    with pytest.raises(NetgrainError, match="MLP expects features to be a positive whole number, found 0"):
        MLP(features=0)
