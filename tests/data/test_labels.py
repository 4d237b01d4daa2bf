"""Labels as people have them."""

from typing import Any

import numpy as np
import pytest

from netgrain.data.labels import checked_target, labels_of, with_names
from netgrain.runtime.errors import NetgrainError


@pytest.mark.parametrize(
    ("y", "target", "labels", "classes", "note"),
    [
        ([0, 1, 1], None, [0, 1, 1], ("0", "1"), ""),
        ([1, 2, 2], None, [0, 1, 1], ("1", "2"), "labels 1 to 2 renumbered from 0"),
        ([-1, 5], None, [0, 1], ("-1", "5"), "labels -1 to 5 renumbered from 0"),
        (["b", "a"], None, [1, 0], ("a", "b"), ""),
        ([True, False], None, [1, 0], ("False", "True"), ""),
        ([[1], [0]], None, [1, 0], ("0", "1"), ""),
        ([[0, 1, 0], [1, 0, 0]], None, [1, 0], ("0", "1"), "one-hot labels"),
        (
            [[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]],
            None,
            [1, 0],
            ("0", "2"),
            "one-hot labels; labels 0 to 2 renumbered from 0",
        ),
        ([0.5, 2.5, 0.5], "classes", [0, 1, 0], ("0.5", "2.5"), "labels 0.5 to 2.5 renumbered from 0"),
        ([0.5, 2.5, 1.0], None, [0.5, 2.5, 1.0], (), "labels are numbers"),
        ([3, 1], "numbers", [3.0, 1.0], (), "labels are numbers"),
        ([[0.5, 1.0], [2.0, 0.0]], None, [[0.5, 1.0], [2.0, 0.0]], (), "labels are numbers"),
        ([[0, 1], [1, 0]], "numbers", [[0, 1], [1, 0]], (), "labels are numbers"),
    ],
)
def test_labels_of_every_kind(y: Any, target: Any, labels: Any, classes: tuple[str, ...], note: str) -> None:
    found = labels_of(np.array(y), target=target)
    assert found.y is not None
    assert (found.y.tolist(), found.classes, "; ".join(found.notes)) == (labels, classes, note)
    assert found.y.is_floating_point() == (not classes)


def test_no_labels_and_labels_left_out() -> None:
    assert labels_of(None).y is None
    assert labels_of(np.array([0, 1]), target="none").notes == ("labels left out",)


@pytest.mark.parametrize(
    ("y", "target", "said"),
    [
        ([0.0, 1.0, 0.0, 1.0], None, r"only 2 different values, which may be classes or numbers .*--target"),
        (list(range(30)), None, r"labels of 30 samples are 30 different whole numbers, which may be .*--target"),
        ([1.0, np.nan, np.inf], None, "2 labels are missing, NaN or Inf, the first of sample 1; drop .*--no-label"),
        (["a", "b"], "numbers", r"labels hold words \('a' is the first\)"),
        ([[1, 1], [0, 1]], None, r"shape \(2, 2\) and rows that are not one-hot; .* target='numbers'"),
        ([[0.5, 1], [0, 1]], "classes", "rows that are not one-hot"),
    ],
)
def test_what_may_be_meant_in_two_ways_is_asked_for(y: Any, target: Any, said: str) -> None:
    with pytest.raises(NetgrainError, match=said):
        labels_of(np.array(y), target=target)


def test_many_whole_numbers_with_enough_samples_are_classes() -> None:
    assert len(labels_of(np.arange(500) % 100).classes) == 100
    assert len(labels_of(np.arange(20)).classes) == 20
    assert len(labels_of(np.arange(30), names=list(map(str, range(30)))).classes) == 30


def test_names_of_classes() -> None:
    y, names = with_names(np.array([2, 0]), ["a", "b", "c"])
    assert (y.tolist(), names) == ([1, 0], ["a", "c"])
    for other in (np.array([-1, 0]), np.array([0.5, 1.0]), np.array([[0], [1]])):
        assert with_names(other, ["a", "b"])[1] is None


def test_a_kind_that_is_none() -> None:
    with pytest.raises(NetgrainError, match="target 'regression' is not known; expected one of classes, numbers, none"):
        checked_target("regression")
