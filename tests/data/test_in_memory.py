"""Tensors and arrays."""

from typing import Any

import numpy as np
import pytest
import torch

from netgrain.data import standardised
from netgrain.data.in_memory import Part, dataset_of, datasets_of
from netgrain.data.wanted import Wanted
from netgrain.runtime.errors import GrainWarning, NetgrainError

TABLE = np.array([[0.0, 1.0], [2.0, 5.0], [1.0, 3.0]])


@pytest.mark.parametrize(
    ("y", "labels", "classes"),
    [
        ([-1, 1, 1], [0, 1, 1], ("-1", "1")),
        ([True, True, False], [1, 1, 0], ("False", "True")),
        ([[0], [1], [1]], [0, 1, 1], ("0", "1")),
        (np.array([b"b", b"b", b"a"]), [1, 1, 0], ("a", "b")),
    ],
)
def test_labels_of_every_kind(y: Any, labels: list[int], classes: tuple[str, ...]) -> None:
    data = dataset_of(TABLE, y)
    assert data.y.tolist() == labels
    assert data.classes == classes


def test_constant_features_are_a_warning() -> None:
    X = torch.tensor([[1.0, 2.0, 5.0], [1.0, 3.0, 5.0]])
    with pytest.warns(GrainWarning, match=r"2 of 3 features are constant .* \(the first is 'age'\)"):
        dataset_of(X, [0, 1], features=["age", "b", "c"])


def test_classes_by_name() -> None:
    assert dataset_of(TABLE, [0, 1, 1], classes=["cat", "dog"]).classes == ("cat", "dog")
    with pytest.raises(NetgrainError, match="class 'owl' has no samples"):
        dataset_of(TABLE, [0, 1, 1], classes=["cat", "dog", "owl"])
    with pytest.raises(NetgrainError, match="labels are 0 to 2; expected 0 to 1 for the 2 classes"):
        dataset_of(TABLE, [0, 1, 2], classes=["cat", "dog"])


def test_tensors_are_left_as_found() -> None:
    X = torch.tensor(TABLE, requires_grad=True)
    before = X.detach().clone()
    standardised(dataset_of(X, [0, 1, 1]))
    assert torch.equal(X.detach(), before)
    assert X.requires_grad


def test_numbers_several_numbers_and_none() -> None:
    assert dataset_of(TABLE, [0.5, 2.0, 1.0]).target == "numbers"
    assert dataset_of(TABLE, [[0.5, 1.0], [2.0, 1.0], [1.0, 0.1]]).outputs == 2
    assert dataset_of(TABLE).target == "none"
    assert dataset_of(TABLE, [0, 1, 1], wanted=Wanted(target="none")).note == "labels left out"


def test_two_parts_are_converted_alike() -> None:
    """Byte images of one part that are 0 and 1 alone are pixels where the other part has more; so are classes."""
    dark, light = np.eye(4, dtype=np.uint8).reshape(1, 4, 4).repeat(2, 0), np.full((3, 4, 4), 255, np.uint8)
    light[0, 0, 0] = 0
    train, test = datasets_of(
        [Part(light, ["b", "a", "b"]), Part(dark, ["b", "b"])], name="own", wanted=Wanted(limits=(2, None), seed=1)
    )
    assert (train.name, test.name, len(train), len(test)) == ("own train", "own test", 2, 2)
    assert train.classes == test.classes == ("a", "b")
    assert test.y.tolist() == [1, 1]
    assert float(test.X.max()) == pytest.approx(1 / 255)
    with pytest.raises(NetgrainError, match="one part of own has labels and the other has none"):
        datasets_of([Part(light, [0, 1, 0]), Part(dark)], name="own", wanted=Wanted())
    with pytest.raises(NetgrainError, match=r"samples of the two parts differ: .*\(4, 4\) and .*\(2, 2\)"):
        datasets_of([Part(light), Part(dark[:, :2, :2])], name="own", wanted=Wanted())


def test_channels_that_are_last_are_moved_in_float_too() -> None:
    X = np.random.default_rng(0).random((2, 5, 4, 3))
    data = dataset_of(X, [0, 1])
    assert data.shape == (3, 5, 4)
    assert data.note == "channels moved from last to first"
    np.testing.assert_allclose(data.X.numpy(), X.transpose(0, 3, 1, 2), rtol=1e-6)
