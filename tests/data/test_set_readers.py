"""What is read from the files of a named set, and sets that look like each other."""

from pathlib import Path

import pytest

from netgrain import data
from netgrain.data.image_files import read_mnist_pair
from netgrain.runtime.errors import NetgrainError
from tests.data.image_set_files import write_idx


def test_mnist_and_fashion_mnist_are_not_taken_for_each_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_idx(tmp_path / "mnist")
    with pytest.raises(NetgrainError, match="holds the labels of MNIST, expected those of Fashion-MNIST"):
        data.fashion_mnist(tmp_path / "mnist", official=False)
    write_idx(tmp_path / "fashion-mnist", opening=(9, 0, 0))
    assert data.fashion_mnist(tmp_path, official=False).train.classes[9] == "Ankle boot"
    with pytest.raises(NetgrainError, match="MNIST was not found"):
        data.mnist(tmp_path / "fashion-mnist", official=False)
    write_idx(tmp_path / "debian" / "fashion-mnist", opening=(9, 9, 9))
    assert data.fashion_mnist(official=False).train.y[:3].tolist() == [9, 9, 9]
    monkeypatch.setattr("netgrain.data.set_readers._idx_raw", _ignore_size)
    (tmp_path / "fashion-mnist").rename(tmp_path / "other")
    with pytest.raises(NetgrainError, match="does not begin with MNIST's labels"):
        data.mnist(tmp_path / "other")


def _ignore_size(files: list[Path], name: str, classes: tuple[str, ...], official: bool) -> object:
    from netgrain.data.set_readers import Raw

    return Raw(read_mnist_pair(files[0], files[1]), read_mnist_pair(files[2], files[3]), name, classes)
