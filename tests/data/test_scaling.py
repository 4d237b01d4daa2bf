"""Standardisation: by hand, against NumPy, constants, memory orders."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from netgrain.data import Dataset, Split, standardised
from netgrain.data.resizing import resized
from netgrain.data.scaling import channel_moments


def toy(n: int = 6, shape: tuple[int, ...] = (3, 4, 4), seed: int = 0) -> Dataset:
    generator = torch.Generator().manual_seed(seed)
    return Dataset(torch.rand(n, *shape, generator=generator), torch.arange(n) % 3, "toy", ("a", "b", "c"))


def both(split: Split) -> Split:
    train = standardised(split.train, like=split.train)
    return Split(train, standardised(split.test, like=split.train))


@pytest.mark.parametrize("shape", [(3, 4, 4), (5,)])
def test_standardised_is_numpy_s_answer_with_training_statistics(shape: tuple[int, ...]) -> None:
    split = Split(toy(40, shape, seed=1), toy(30, shape, seed=2))
    done = both(split)
    X, T = split.train.X.double().numpy(), split.test.X.double().numpy()
    axes = (0, 2, 3) if len(shape) == 3 else 0
    mean, std = X.mean(axes, keepdims=True), X.std(axes, keepdims=True)
    np.testing.assert_allclose(done.train.X.numpy(), (X - mean) / std, atol=1e-6)
    np.testing.assert_allclose(done.test.X.numpy(), (T - mean) / std, atol=1e-6)
    numbers = f": mean {mean.flat[0]:.4g}" if len(shape) == 3 else ""
    assert f"with training statistics{numbers}" in done.test.note


def test_standardising_leaves_its_argument_alone_and_survives_a_constant_channel() -> None:
    d = toy(8)
    X = d.X.clone()
    X[:, 1] = 0.1
    split = Split(Dataset(X, d.y), Dataset(X + 1, d.y))
    before = X.clone()
    done = both(split)
    assert torch.equal(split.train.X, before)
    assert float(done.train.X[:, 1].abs().max()) < 1e-7
    torch.testing.assert_close(done.test.X[:, 1], torch.ones(8, 4, 4))


def test_rounding_does_not_give_a_constant_channel_a_spread() -> None:
    X = torch.full((100, 1, 3, 3), 0.1, dtype=torch.float64)
    assert float(X.flatten(2).sum((0, 2)) / X.numel()) != 0.1  # the mean of equal numbers is not that number
    assert channel_moments(X)[1].tolist() == [0.0]


def test_normalised_images_have_standard_channels() -> None:
    X = torch.rand(8, 2, 3, 3, generator=torch.Generator().manual_seed(0)) * torch.tensor([1.0, 9.0])[:, None, None]
    data = standardised(Dataset(X + 5, torch.arange(8) % 2, note="pixels divided by 255"))
    assert torch.allclose(data.X.mean((0, 2, 3)), torch.zeros(2), atol=1e-6)
    assert torch.allclose(data.X.std((0, 2, 3), unbiased=False), torch.ones(2), atol=1e-6)
    assert data.note.startswith("pixels divided by 255; standardised per channel: mean 5.")
    # one scale for each channel: pixels keep their relations
    ratio = (data.X[:, 0] - data.X[0, 0, 0, 0]) / (X[:, 0] - X[0, 0, 0, 0])
    assert float(ratio.nan_to_num(0).max()) == pytest.approx(float(ratio.flatten()[1]), rel=1e-3)


def test_normalised_tables_and_a_constant_third() -> None:
    X = torch.tensor([[1.0, 0.1], [2.0, 0.1], [6.0, 0.1]])
    data = standardised(Dataset(X, torch.tensor([0, 1, 1])))
    expected = torch.tensor([-2.0, -1.0, 3.0]) / (14 / 3) ** 0.5
    assert torch.allclose(data.X[:, 0], expected)
    assert data.X[:, 1].tolist() == [0.0, 0.0, 0.0]
    assert standardised(data).X.allclose(data.X, atol=1e-6)  # standardising twice is standardising once


@pytest.mark.quick
@pytest.mark.parametrize("size", [5, 12])
def test_resized_images_are_standardised_whatever_their_order_in_memory(size: int) -> None:
    """What was averaged to a size that does not divide comes with its axes in another order in memory."""
    X = torch.rand(6, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    small = resized(Dataset(X, torch.arange(6) % 2), size)
    turned = replace(small, X=small.X.mT.contiguous().mT)  # the same images, columns first
    assert not turned.X.is_contiguous()
    for images in (small, turned):
        found = standardised(images).X.double()
        wanted = (small.X.double() - small.X.double().mean((0, 2, 3), keepdim=True)) / small.X.double().std(
            (0, 2, 3), keepdim=True, correction=0
        )
        assert torch.allclose(found, wanted, atol=1e-5)
