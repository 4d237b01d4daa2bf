"""Tensors, arrays and torch data sets."""

import random
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from netgrain.data import standardised
from netgrain.data.in_memory import dataset_from, dataset_of
from netgrain.runtime.errors import GrainWarning, NetgrainError

TABLE = np.array([[0.0, 1.0], [2.0, 5.0], [1.0, 3.0]])


@pytest.mark.parametrize(
    ("y", "labels", "classes"),
    [
        ([-1, 1, 1], [0, 1, 1], ("-1", "1")),
        ([3.0, 7.0, 7.0], [0, 1, 1], ("3", "7")),
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


class Shapes:
    """As torchvision has them: PIL images or tensors, labels, class names; indexing uses randomness."""

    classes = ("zero", "one", "two")

    def __init__(self, pil: bool = True, words: bool = False) -> None:
        self.pil, self.words = pil, words

    def __len__(self) -> int:
        return 6

    def __getitem__(self, i: int) -> tuple[Any, Any]:
        assert 0 <= i < 6
        noise = int(torch.randint(0, 9, ())) + random.randrange(9) + np.random.randint(9)
        image = np.full((2, 3), 20 * i + noise, np.uint8)
        label = 2 * (i % 2)
        x = Image.fromarray(image) if self.pil else torch.tensor(image)[None] / 255
        return x, self.classes[label] if self.words else label


@pytest.mark.parametrize("pil", [True, False])
def test_a_torchvision_style_data_set(pil: bool) -> None:
    torch.manual_seed(0)
    state, python_state, numpy_state = torch.get_rng_state(), random.getstate(), np.random.get_state()[1].tolist()
    data = dataset_from(Shapes(pil), limit=5, seed=3)
    assert torch.equal(torch.get_rng_state(), state)
    assert random.getstate() == python_state
    assert np.random.get_state()[1].tolist() == numpy_state
    assert data.shape == (1, 2, 3)
    assert data.classes == ("zero", "two")  # no sample of class one
    assert len(data) == 5
    assert float(data.X.max()) <= 1
    assert torch.equal(data.X, dataset_from(Shapes(pil), limit=5, seed=3).X)
    assert dataset_from(Shapes(pil, words=True), seed=3).classes == ("two", "zero")


def test_what_is_wrong_with_a_data_set() -> None:
    with pytest.raises(NetgrainError, match="expected a data set with len"):
        dataset_from(iter([1]))
    with pytest.raises(NetgrainError, match="found one of length 0"):
        dataset_from([])
    with pytest.raises(NetgrainError, match=r"sample 0 was expected to be a pair .* found tuple of length 3"):
        dataset_from([(1, 2, 3)])
    with pytest.raises(NetgrainError, match=r"sample 1 has shape \(2,\), the first one read \(3,\)"):
        dataset_from([(torch.zeros(3), 0), (torch.zeros(2), 1)])
