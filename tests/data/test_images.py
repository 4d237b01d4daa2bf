"""The named sets: where they are found and how they are cut down."""

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from netgrain import data
from netgrain.data.image_files import read_mnist_pair
from netgrain.data.set_readers import DIGITS, MNIST_OPENING
from netgrain.runtime.errors import NetgrainError
from tests.data.image_set_files import BATCHES, write_binary, write_idx, write_python


@pytest.mark.parametrize(
    ("write", "folder"),
    [
        (write_binary, "cifar-10-batches-bin"),
        (write_python, "cifar-10-batches-py"),
        (write_binary, ""),
        (write_python, ""),
    ],
)
def test_cifar10_reads_both_layouts_from_the_folder_or_its_parent(
    write: Callable[[Path], dict[str, tuple[np.ndarray, list[int]]]], folder: str, tmp_path: Path
) -> None:
    arrays = write(tmp_path / "here" / folder)
    split = data.cifar10(tmp_path / "here", official=False)
    X = np.concatenate([arrays[name][0] for name in BATCHES[:5]]).reshape(-1, 3, 32, 32)
    np.testing.assert_allclose(split.train.X.numpy(), X / 255, atol=1e-7)
    assert split.train.y.tolist() == [label for name in BATCHES[:5] for label in arrays[name][1]]
    assert split.test.y.tolist() == arrays["test_batch"][1]
    assert split.train.classes[3] == "cat"
    assert split.train.note == "pixels divided by 255"


def test_cifar2_has_animals_and_vehicles(tmp_path: Path) -> None:
    write_binary(tmp_path)
    ten, two = data.cifar10(tmp_path, official=False).train, data.cifar2(tmp_path, official=False).train
    assert two.y.tolist() == [0 if 2 <= label <= 7 else 1 for label in ten.y.tolist()]
    assert (two.classes, two.name) == (("animal", "vehicle"), "CIFAR-2 train")


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize("folder", ["mnist", "MNIST/raw", ""])
def test_mnist_is_read_packed_and_plain(packed: bool, folder: str, tmp_path: Path) -> None:
    X = write_idx(tmp_path / "root" / folder, packed=packed)
    split = data.mnist(tmp_path / "root", official=False)
    np.testing.assert_allclose(split.train.X.numpy()[:, 0], X / 255, atol=1e-7)
    assert tuple(split.test.y.tolist()[:12]) == MNIST_OPENING
    with pytest.raises(NetgrainError, match="expected 60000 images of 28 × 28, found 14 of 28 × 28"):
        data.mnist(tmp_path / "root")


def test_a_set_with_a_missing_file_says_which(tmp_path: Path) -> None:
    write_binary(tmp_path)
    (tmp_path / "data_batch_4.bin").unlink()
    with pytest.raises(NetgrainError, match=r"has a part of it but not data_batch_4.bin"):
        data.cifar10(tmp_path, official=False)


def test_load_limits_resizes_and_standardises(tmp_path: Path) -> None:
    write_binary(tmp_path, n=8)
    split = data.load_split("CIFAR-10", tmp_path, limit=(20, 5), size=8, seed=1, official=False)
    assert (len(split.train), len(split.test), split.train.shape) == (20, 5, (3, 8, 8))
    torch.testing.assert_close(split.train.X.mean((0, 2, 3)), torch.zeros(3), atol=1e-5, rtol=0)
    torch.testing.assert_close(split.train.X.std((0, 2, 3), correction=0), torch.ones(3))
    assert "area-averaged from 32 × 32 to 8 × 8; standardised per channel" in split.train.note
    again = data.load_split("cifar10", tmp_path, limit=(20, 5), size=8, seed=1, official=False)
    other = data.load_split("cifar10", tmp_path, limit=(20, 5), size=8, seed=2, official=False)
    assert torch.equal(split.train.X, again.train.X)
    assert not torch.equal(split.train.y, other.train.y)
    plain = data.load_split("cifar10", tmp_path, limit=7, standardise=False, official=False)
    whole = data.cifar10(tmp_path, official=False)
    rows = {tuple(x.flatten().tolist()): int(y) for x, y in zip(whole.train.X, whole.train.y, strict=True)}
    assert all(rows[tuple(x.flatten().tolist())] == y for x, y in zip(plain.train.X, plain.train.y, strict=True))
    assert (len(plain.train), len(plain.test)) == (7, 7)
    assert data.load_split("cifar2", tmp_path, official=False).train.classes == ("animal", "vehicle")
    with pytest.raises(NetgrainError, match="limit 0"):
        data.load_split("cifar2", tmp_path, limit=0, official=False)


def test_load_suggests_the_nearest_name() -> None:
    with pytest.raises(NetgrainError, match="data set 'cifar20' is not known; did you mean 'cifar2'"):
        data.load_split("cifar20")
    with pytest.raises(NetgrainError, match="'fashionmnits' is not known; did you mean 'fashionmnist'"):
        data.load_split("fashion_mnits")
    with pytest.raises(NetgrainError, match="expected one of digits, mnist"):
        data.load_split("xyz")


def test_digits_come_with_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn", None)  # a base installation has no scikit-learn
    split = data.digits()
    assert (len(split.train), len(split.test), split.train.shape) == (1437, 360, (1, 8, 8))
    assert float(split.train.X.max()) == 1
    assert split.train.note == "pixels divided by 16"
    assert torch.equal(split.test.X, data.load_split("digits", standardise=False).test.X)


def test_digits_are_those_of_scikit_learn_bit_for_bit() -> None:
    from sklearn.datasets import load_digits

    theirs = load_digits()
    X, y = read_mnist_pair(DIGITS / "images.idx3-ubyte.gz", DIGITS / "labels.idx1-ubyte.gz")
    np.testing.assert_array_equal(X.squeeze(1).double().numpy(), theirs.images, strict=True)
    np.testing.assert_array_equal(y.numpy(), theirs.target, strict=True)
