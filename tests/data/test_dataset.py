"""Labelled samples as values, and what may be done to them."""

import re
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch

from netgrain import data
from netgrain.data import Dataset, Split, standardised
from netgrain.data.dataset import area_resized, channel_moments, resized
from netgrain.runtime.errors import NetgrainError


def toy(n: int = 6, shape: tuple[int, ...] = (3, 4, 4), seed: int = 0) -> Dataset:
    generator = torch.Generator().manual_seed(seed)
    return Dataset(torch.rand(n, *shape, generator=generator), torch.arange(n) % 3, "toy", ("a", "b", "c"))


def both(split: Split) -> Split:
    train = standardised(split.train, like=split.train)
    return Split(train, standardised(split.test, like=split.train))


def test_a_dataset_is_float32_with_int64_labels_and_tells_what_it_is() -> None:
    d = Dataset(torch.zeros(3, 2, dtype=torch.float64), torch.tensor([0, 1, 1], dtype=torch.uint8), "toy", note="raw")
    assert (d.X.dtype, d.y.dtype, len(d), d.shape, d.classes) == (torch.float32, torch.int64, 3, (2,), ("0", "1"))
    assert repr(d) == "Dataset(toy, 3 samples of shape (2,), 0 1, 1 2, raw)"


def test_the_repr_of_many_classes_stays_short() -> None:
    d = Dataset(torch.zeros(100, 2), torch.arange(100))
    shown = ", ".join(f"{label} 1" for label in range(10))
    assert repr(d) == f"Dataset(data, 100 samples of shape (2,), {shown}, and 90 more classes)"


@pytest.mark.parametrize(
    ("X", "y", "classes", "words"),
    [
        (torch.zeros(3, 2), torch.zeros(2).long(), (), "y has shape (2,), expected (3,)"),
        (torch.zeros(3, 2), torch.zeros(3, 1).long(), (), "y has shape (3, 1), expected (3,)"),
        (torch.zeros(3, 2).long(), torch.zeros(3).long(), (), "expected floating-point samples"),
        (torch.zeros(3), torch.zeros(3).long(), (), "X has shape (3,), expected (samples, …)"),
        (torch.zeros(3, 2), torch.zeros(3), ("a", "b"), "expected whole-number labels, found torch.float32"),
        (torch.zeros(3, 2), torch.zeros(2), (), "y has shape (2,), expected (3,) or (3, outputs)"),
        (
            torch.zeros(2, 2),
            torch.tensor([0.5, float("nan")]),
            (),
            "1 labels that are NaN or Inf, the first at index 1",
        ),
        (torch.zeros(3, 2), None, ("a", "b"), "2 classes came without labels"),
        (torch.tensor([[1.0], [float("nan")]]), torch.zeros(2).long(), (), "1 NaN, 0 Inf), the first in sample 1"),
        (
            torch.tensor([[1e300]], dtype=torch.float64),
            torch.zeros(1).long(),
            (),
            "0 NaN, 1 Inf), the first in sample 0",
        ),
        (torch.zeros(2, 2), torch.tensor([0, 2]), ("a", "b"), "labels run from 0 to 2, expected 0 to 1"),
        (torch.zeros(2, 2), torch.tensor([0, -1]), (), "labels run from -1 to 0"),
        (torch.zeros(0, 2), torch.zeros(0).long(), (), "at least one sample"),
        (torch.zeros(2, 2), torch.tensor([0, 2**40]), (), "labels run up to 1099511627776; expected 0, 1, …"),
    ],
)
def test_what_is_not_a_dataset_is_refused(
    X: torch.Tensor, y: torch.Tensor, classes: tuple[str, ...], words: str
) -> None:
    with pytest.raises(NetgrainError, match=re.escape(words)):
        Dataset(X, y, classes=classes)


def test_labels_may_be_numbers_or_missing() -> None:
    numbers = Dataset(torch.zeros(3, 2), torch.tensor([[0.5], [1.5], [-2.0]], dtype=torch.float64))
    assert (numbers.target, numbers.y.dtype, numbers.y.shape) == ("numbers", torch.float32, (3,))
    assert (numbers.classes, numbers.counts, numbers.outputs) == ((), (), 1)
    assert repr(numbers) == "Dataset(data, 3 samples of shape (2,), numbers from -2 to 1.5)"
    assert numbers.subset([2, 0]).labels.tolist() == [-2.0, 0.5]
    assert Dataset(torch.zeros(3, 2), torch.zeros(3, 4)).outputs == 4
    nothing = Dataset(torch.zeros(3, 2))
    assert (nothing.target, nothing.y, nothing.classes, nothing.counts, nothing.outputs) == ("none", None, (), (), None)
    assert repr(nothing) == "Dataset(data, 3 samples of shape (2,), no labels)"
    assert len(nothing.subset(torch.tensor([True, False, True]))) == 2
    assert toy().target == "classes"
    assert (toy().outputs, Dataset(torch.zeros(2, 2), torch.zeros(2).long()).outputs) == (3, 2)


@pytest.mark.parametrize(
    ("act", "words"),
    [
        (lambda: Dataset(torch.zeros(3, 2)).labels, "data has no labels, and they are needed here"),
        (lambda: data.balanced(Dataset(torch.zeros(3, 2)), 1), "data has no labels"),
        (lambda: data.as_binary(Dataset(torch.zeros(3, 2), torch.rand(3)), {1}), "labels of data are numbers"),
        (lambda: Split(toy(), Dataset(toy().X)), "training part are classes, those of the test part none"),
    ],
)
def test_what_needs_classes_says_so(act: Callable[[], object], words: str) -> None:
    with pytest.raises(NetgrainError, match=words):
        act()


def test_large_finite_samples_whose_sum_overflows_are_accepted() -> None:
    assert len(Dataset(torch.full((2, 4), 3e38), torch.zeros(2).long())) == 2


def test_subset_keeps_the_order_and_everything_else() -> None:
    d = toy()
    part = d.subset([4, 0, -1])
    assert torch.equal(part.X, torch.stack([d.X[4], d.X[0], d.X[5]]))
    assert part.y.tolist() == [1, 0, 2]
    assert (part.name, part.classes, part.note) == (d.name, d.classes, d.note)
    assert torch.equal(d.subset(d.y == 1).X, d.X[[1, 4]])


@pytest.mark.parametrize(
    ("indices", "words"),
    [([6], "index 6"), ([-7], "index -7"), ([], "non-empty"), ([0.5], "indices"), ([True, False], "mask of 6")],
)
def test_subset_refuses_what_is_not_there(indices: list[int], words: str) -> None:
    with pytest.raises(NetgrainError, match=words):
        toy().subset(indices)


def test_a_split_has_one_shape_and_one_list_of_classes() -> None:
    with pytest.raises(NetgrainError, match="expected the same"):
        Split(toy(), toy(shape=(3, 2, 2)))
    with pytest.raises(NetgrainError, match="expected the same"):
        Split(toy(), Dataset(toy().X, toy().y, classes=("x", "y", "z")))


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


def test_area_resizing_keeps_the_mean_and_a_constant() -> None:
    X = torch.rand(2, 3, 7, 5, generator=torch.Generator().manual_seed(0))
    for size in (1, 3, 4, 9):
        assert torch.allclose(area_resized(X, size).mean((2, 3)), X.mean((2, 3)), atol=1e-6)
        assert torch.allclose(area_resized(torch.ones_like(X), size), torch.ones(2, 3, size, size))


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
