"""Samples and labels: what every door takes as it is, and what it refuses with the way to convert it."""

import numpy as np
import pytest
import torch

from netgrain import NetgrainError
from netgrain.runtime.samples import check_two_classes, checked_labels, checked_samples, scoring, tensor_of


@pytest.mark.quick
def test_numbers_of_every_kind_become_the_same_tensor() -> None:
    expected = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    for values in (expected, expected.numpy(), expected.tolist(), list(expected), expected.clone().requires_grad_()):
        found = checked_samples(values)
        assert torch.equal(found, expected)
        assert not found.requires_grad
    assert torch.equal(checked_samples(expected.int(), whole_too=True), expected)
    assert checked_labels(np.array([2, 0, 1], np.uint8), 3, outputs=3).dtype == torch.int64
    assert checked_labels([0, 1], 2, outputs=1, logit=True).tolist() == [0, 1]


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ([1.0, 2.0], r"X has shape \(2,\), expected \(samples, …\); one sample alone is X\[None\]"),
        ([[1, 2]], r"X holds whole numbers \(torch.int64\)"),
        (
            [[1.0, float("nan")], [float("inf"), 0.0]],
            r"2 numbers .*1 NaN, 1 Inf.*first in sample 0 at entry 1",
        ),
        (torch.zeros(0, 3), "expected at least one sample"),
        (torch.zeros(1, 2, dtype=torch.complex64), r"pass torch.view_as_real\(X\)"),
        (torch.zeros(2, 2).to_sparse(), r"pass X.to_dense\(\)"),
        (None, "X is missing"),
        ("file.npz", r"netgrain.data.load\(path\)"),
        ([["a", "b"]], "X holds words .'a' is the first."),
    ],
)
def test_samples_that_are_refused(values: object, sentence: str) -> None:
    with pytest.raises(NetgrainError, match=sentence):
        checked_samples(values)


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ([1, 2, 3], "labels run from 1 to 3, but the model has 3 outputs; expected labels 0 to 2: pass y - 1"),
        ([0, 1, 5], "make the model with 6 outputs"),
        ([-1, 0, 1], r"np.unique\(y, return_inverse=True\)\[1\] numbers them from 0"),
        ([0.0, 1.5, 2.0], r"label 1 is 1.5"),
        ([0.0, 1.0, 2.0], r"convert with y.long\(\)"),
        ([[0], [1], [2]], r"pass y\[:, 0\]"),
        ([[1, 0, 0], [0, 0, 1], [0, 1, 0]], r"look one-hot: pass y.argmax\(1\)"),
        ([0, 1], r"y has shape \(2,\), expected \(3,\)"),
    ],
)
def test_labels_that_are_refused(values: object, sentence: str) -> None:
    with pytest.raises(NetgrainError, match=sentence):
        checked_labels(values, 3, outputs=3)


def test_one_class_alone_and_maps_of_classes_are_refused() -> None:
    with pytest.raises(NetgrainError, match="all 2 samples have the class 'cat'"):
        check_two_classes(torch.tensor([1, 1]), ("dog", "cat"))
    check_two_classes(torch.tensor([0, 1]))
    x = torch.zeros(2, 3, 4, 4)
    with pytest.raises(NetgrainError, match=r"one sample into an output of shape \(3, 4, 4\)"):
        scoring(lambda x: x)(x)
    assert scoring(lambda x: x.mean((2, 3)))(x).shape == (2, 3)
    assert tensor_of([1, 2]).tolist() == [1, 2]
