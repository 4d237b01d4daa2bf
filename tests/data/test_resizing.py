"""Images of another size: means of squares, areas that are shared."""

import pytest
import torch

from netgrain import data
from netgrain.data import Dataset
from netgrain.data.resizing import area_resized
from netgrain.runtime.errors import NetgrainError


def toy(n: int = 6, shape: tuple[int, ...] = (3, 4, 4), seed: int = 0) -> Dataset:
    generator = torch.Generator().manual_seed(seed)
    return Dataset(torch.rand(n, *shape, generator=generator), torch.arange(n) % 3, "toy", ("a", "b", "c"))


def test_resized_is_the_mean_of_every_square() -> None:
    d = toy(2, (3, 6, 6))
    small = data.resized(d, 2)
    for i in range(2):
        for c in range(3):
            for r in range(2):
                for s in range(2):
                    square = d.X[i, c, 3 * r : 3 * r + 3, 3 * s : 3 * s + 3]
                    assert float(small.X[i, c, r, s]) == pytest.approx(float(square.mean()), abs=1e-6)
    assert data.resized(d, 6) is d


def test_resized_shares_what_does_not_divide_and_refuses_what_is_no_size() -> None:
    d = toy(2, (3, 6, 6))
    torch.testing.assert_close(data.resized(d, 4).X.mean((2, 3)), d.X.mean((2, 3)))
    with pytest.raises(NetgrainError, match="size must be at least 1, found 0; the images are 6 × 6"):
        data.resized(d, 0)
    with pytest.raises(NetgrainError, match="expects images of shape"):
        data.resized(toy(2, (5,)), 1)


def test_area_resizing_keeps_the_mean_and_a_constant() -> None:
    X = torch.rand(2, 3, 7, 5, generator=torch.Generator().manual_seed(0))
    for size in (1, 3, 4, 9):
        assert torch.allclose(area_resized(X, size).mean((2, 3)), X.mean((2, 3)), atol=1e-6)
        assert torch.allclose(area_resized(torch.ones_like(X), size), torch.ones(2, 3, size, size))
