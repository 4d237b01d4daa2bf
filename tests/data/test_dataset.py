"""Labelled samples as values, and what may be done to them."""

import re
from collections.abc import Callable

import pytest
import torch

from netgrain import data
from netgrain.data import Dataset, Split
from netgrain.runtime.errors import NetgrainError


def toy(n: int = 6, shape: tuple[int, ...] = (3, 4, 4), seed: int = 0) -> Dataset:
    generator = torch.Generator().manual_seed(seed)
    return Dataset(torch.rand(n, *shape, generator=generator), torch.arange(n) % 3, "toy", ("a", "b", "c"))


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
        (lambda: Dataset(torch.zeros(3, 2)).labels, "data has no labels, but they are needed here"),
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
