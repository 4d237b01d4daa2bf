"""Some samples of many, and two classes made of many."""

import pytest
import torch

from netgrain import data
from netgrain.data import Dataset
from netgrain.runtime.errors import NetgrainError


def toy(n: int = 6, shape: tuple[int, ...] = (3, 4, 4), seed: int = 0) -> Dataset:
    generator = torch.Generator().manual_seed(seed)
    return Dataset(torch.rand(n, *shape, generator=generator), torch.arange(n) % 3, "toy", ("a", "b", "c"))


def test_as_binary() -> None:
    two = data.as_binary(toy(), {1, 2}, ("one", "other"))
    assert two.y.tolist() == [0, 1, 1, 0, 1, 1]
    assert two.classes == ("one", "other")
    with pytest.raises(NetgrainError, match=r"from 0 to 2, found \[3\]"):
        data.as_binary(toy(), [3])


def test_balanced_takes_the_same_number_of_each_class() -> None:
    d = Dataset(torch.arange(30.0)[:, None], torch.arange(30) % 10 % 3, "toy")  # 12, 9, 9
    part = data.balanced(d, 9, seed=3)
    assert part.counts == (9, 9, 9)
    assert len(set(part.X.flatten().tolist())) == 27
    assert torch.equal(part.y, part.X.flatten().long() % 10 % 3)
    assert torch.equal(part.X, data.balanced(d, 9, seed=3).X)
    assert not torch.equal(part.X, data.balanced(d, 9, seed=4).X)
    with pytest.raises(NetgrainError, match="1 to 9"):
        data.balanced(d, 10)
