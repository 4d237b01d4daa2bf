"""Torch data sets and loaders."""

import random
from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

from netgrain.data import load
from netgrain.data.torch_sets import dataset_from
from netgrain.data.wanted import Wanted
from netgrain.runtime.errors import NetgrainError

FEW = Wanted(limits=(5, None), seed=3)
X = torch.rand(12, 1, 2, 3, generator=torch.Generator().manual_seed(0))
Y = torch.arange(12) % 3
PAIRS = TensorDataset(X, Y)


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
    data = dataset_from(Shapes(pil), wanted=FEW)
    assert torch.equal(torch.get_rng_state(), state)
    assert random.getstate() == python_state
    assert np.random.get_state()[1].tolist() == numpy_state
    assert data.shape == (1, 2, 3)
    assert data.classes == ("zero", "two")  # no sample of class one
    assert len(data) == 5
    assert float(data.X.max()) <= 1
    assert torch.equal(data.X, dataset_from(Shapes(pil), wanted=FEW).X)
    assert dataset_from(Shapes(pil, words=True)).classes == ("two", "zero")


def test_what_is_wrong_with_a_data_set() -> None:
    with pytest.raises(NetgrainError, match="expected samples, or a data set with len"):
        dataset_from(iter([1]))
    with pytest.raises(NetgrainError, match="found one of length 0"):
        dataset_from([])
    with pytest.raises(NetgrainError, match=r"sample 0 was expected to be a pair .* found tuple of length 3"):
        dataset_from([(1, 2, 3)])
    with pytest.raises(NetgrainError, match=r"sample 1 has shape \(2,\), the first one read \(3,\)"):
        dataset_from([(torch.zeros(3), 0), (torch.zeros(2), 1)])


def by_value(data: Any) -> list[tuple[float, int]]:
    """Samples in any order."""
    return sorted(zip(data.X[:, 0, 0, 0].tolist(), data.y.tolist(), strict=True))


class Named:
    """Samples in dictionaries, as of `datasets`."""

    features: ClassVar = {"label": type("ClassLabel", (), {"names": ["cat", "dog", "owl"]})()}

    def __len__(self) -> int:
        return 12

    def __getitem__(self, i: int) -> dict[str, Any]:
        return {"Image": X[i], "label": int(Y[i]), "id": f"no. {i}"}


class Stream(IterableDataset[Any]):
    """Samples without an end."""

    def __iter__(self) -> Iterator[Any]:
        i = 0
        while True:
            yield X[i % 12], Y[i % 12]
            i += 1


@pytest.mark.parametrize(
    "loader",
    [
        DataLoader(PAIRS, batch_size=5),
        DataLoader(PAIRS, batch_size=5, shuffle=True),
        DataLoader(PAIRS, batch_size=None),
        DataLoader(Named(), batch_size=5),
        DataLoader(
            PAIRS,
            batch_size=5,
            collate_fn=lambda rows: {
                "x": torch.stack([r[0] for r in rows]),
                "target": torch.stack([r[1] for r in rows]),
            },
        ),
    ],
    ids=["plain", "shuffled", "unbatched", "dictionaries", "own collate_fn"],
)
def test_a_loader_gives_all_its_samples(loader: DataLoader[Any]) -> None:
    state = torch.get_rng_state()
    data = dataset_from(loader)
    assert torch.equal(torch.get_rng_state(), state)
    assert by_value(data) == by_value(dataset_from(PAIRS))
    assert len(dataset_from(loader, wanted=FEW)) == 5


def test_a_loader_keeps_to_its_sampler() -> None:
    loader = DataLoader(PAIRS, batch_size=2, sampler=torch.utils.data.SubsetRandomSampler([1, 4, 7]))
    assert by_value(dataset_from(loader)) == by_value(dataset_from(torch.utils.data.Subset(PAIRS, [1, 4, 7])))
    assert len(dataset_from(DataLoader(PAIRS, batch_size=5, drop_last=True))) == 10


def test_samples_in_dictionaries_and_alone() -> None:
    assert dataset_from(Named()).classes == ("cat", "dog", "owl")
    alone = dataset_from(TensorDataset(X))
    assert (alone.target, len(alone)) == ("none", 12)
    assert dataset_from(DataLoader(list(X), batch_size=4)).target == "none"
    assert load(X, standardise=False).target == "none"
    assert torch.equal(load(X, standardise=False).X, X)
    assert dataset_from(Named(), wanted=Wanted(label="id", target="none")).y is None


def test_a_stream_needs_a_limit() -> None:
    for source in (Stream(), DataLoader(Stream(), batch_size=4)):
        assert dataset_from(source, wanted=Wanted(limits=(6, None))).y.tolist() == [0, 1, 2, 0, 1, 2]
        with pytest.raises(NetgrainError, match="no length, so it may never end; pass limit="):
            dataset_from(source)


def test_labels_of_a_set_may_be_numbers_or_rows() -> None:
    numbers = dataset_from(TensorDataset(X, torch.rand(12)))
    assert (numbers.target, numbers.outputs) == ("numbers", 1)
    hot = dataset_from(TensorDataset(X, torch.eye(3)[Y]))
    assert hot.y.tolist() == Y.tolist()


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ([{"a": 1, "b": 2}], "samples are dictionaries with a, b; expected one of x, image"),
        ([(X[0], 1), (X[1], None)], "sample 1 has no label, others have one"),
        (DataLoader(PAIRS, sampler=[]), "found one that gives none"),
        (DataLoader(PAIRS, batch_size=2, collate_fn=lambda rows: "words"), "a batch of the loader holds str"),
        (7, "expected samples, or a data set with len"),
    ],
)
def test_what_is_no_data_set(source: Any, said: str) -> None:
    with pytest.raises(NetgrainError, match=said):
        dataset_from(source)
    with pytest.raises(NetgrainError, match="there is no 'lable' in the samples; they have Image, label, id"):
        dataset_from(Named(), wanted=Wanted(label="lable"))
