"""Arrays in a user's file, sound and damaged."""

import os
import pickle
import struct
import zipfile
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from netgrain.data import load, load_split, standardised
from netgrain.data.arrays import read_arrays, read_tensors
from netgrain.data.in_memory import dataset_of
from netgrain.runtime.errors import NetgrainError

# what is in the file, before it is standardised
read = partial(load, standardise=False)

TABLE = np.array([[0.0, 1.0], [2.0, 5.0], [1.0, 3.0]])


def npz(folder: Path, **arrays: Any) -> Path:
    np.savez(folder / "own.npz", **arrays)
    return folder / "own.npz"


def test_words_become_sorted_classes(tmp_path: Path) -> None:
    data = read(npz(tmp_path, X=TABLE, y=np.array(["dog", "dog", "cat"]), features=np.array(["age", "size"])))
    assert data.classes == ("cat", "dog")
    assert data.y.tolist() == [1, 1, 0]
    assert torch.equal(data.X, torch.tensor(TABLE, dtype=torch.float32))
    assert (data.name, data.note, data.features) == ("own.npz", "as given", ("age", "size"))
    assert standardised(data).features == ("age", "size")  # type: ignore[attr-defined]


def test_whole_number_images_are_divided(tmp_path: Path) -> None:
    X = np.array([[[0, 51], [102, 255]], [[255, 0], [0, 0]]], np.uint8)
    grey = read(npz(tmp_path, X=X, y=[0, 1]))
    assert grey.shape == (1, 2, 2)
    assert grey.note == "pixels divided by 255"
    assert torch.allclose(grey.X[0, 0], torch.tensor([[0.0, 0.2], [0.4, 1.0]]))
    last = np.arange(2 * 4 * 4 * 3, dtype=np.uint8).reshape(2, 4, 4, 3)
    colour = dataset_of(last, [0, 1])
    assert torch.allclose(colour.X * 255, torch.tensor(last).permute(0, 3, 1, 2).float(), atol=1e-4)
    assert colour.note == "pixels divided by 255; channels moved from last to first"
    assert dataset_of(X // 255, [0, 1]).note == "0 and 1 as given"
    assert dataset_of(np.array([[300, 1], [2, -5]]), [0, 1]).X.tolist() == [[300, 1], [2, -5]]  # a table


@pytest.mark.parametrize(
    ("arrays", "said"),
    [
        ({"X": TABLE, "y": [0, 1]}, r"X has 3 samples, y has shape \(2,\)"),
        ({"data": TABLE}, r"no array X \(arrays found: data\)"),
        ({"X": [[1.0, 2.0], [np.nan, np.inf], [0.0, np.nan]], "y": [0, 1, 1]}, r"3 numbers .* \(2 NaN, 1 Inf\), the"),
        ({"X": [[1.0, 2.0], [0.0, np.inf], [0.0, 1.0]], "y": [0, 1, 1]}, "the first in sample 1 at entry 1;"),
        ({"X": [[[[1.0, np.nan]]], [[[0.0, 1.0]]]], "y": [0, 1]}, r"sample 0 at entry \(0, 0, 1\)"),
        ({"X": np.array([[1, "a"]], object), "y": [0]}, "the array X holds Python objects, and nothing is unpickled"),
        ({"X": TABLE, "y": np.array([0, "a", None], object)}, "the array y holds Python objects"),
        ({"X": TABLE, "y": [0.5, np.nan, 2]}, "1 labels are missing, NaN or Inf, the first of sample 1; drop"),
        ({"X": TABLE[0], "y": [0, 1]}, r"X has shape \(2,\); expected \(samples, …\)"),
        ({"X": np.array([["a"], ["b"]]), "y": [0, 1]}, "encode words as numbers"),
        ({"X": np.full((2, 1, 2, 2), 300), "y": [0, 1]}, "whole numbers from 300 to 300, expected 0 to 255"),
        ({"X": TABLE, "y": [0, 1, 1], "features": ["a"]}, "1 feature names came with samples of 2 entries"),
        ({"X": TABLE, "y": [0, 1, 1], "features": "a"}, "1 feature names came with samples of 2 entries"),
        ({"X": np.repeat(TABLE, 2, 0), "y": [0.5, 1, 2, 1, 2, 1]}, "only 3 different values, .* classes or numbers"),
        ({"X": TABLE, "y": [0, 1, 1e300]}, "1 labels that are NaN or Inf, the first at index 2"),
        ({"X": TABLE * 1e300, "y": [0, 1, 1]}, r"5 numbers that are not finite \(0 NaN, 5 Inf\)"),
    ],
)
def test_what_is_wrong_with_a_file(tmp_path: Path, arrays: dict[str, Any], said: str) -> None:
    with pytest.raises(NetgrainError, match=said):
        read(npz(tmp_path, **arrays))


def test_nothing_is_unpickled(tmp_path: Path) -> None:
    class Bomb:
        def __reduce__(self) -> Any:
            return (os.mkdir, (str(tmp_path / "ran"),))

    bomb = npz(tmp_path, X=np.array([Bomb()], object), y=[0])
    (tmp_path / "plain.npz").write_bytes(pickle.dumps(Bomb()))
    for file in (bomb, tmp_path / "plain.npz"):
        with pytest.raises(NetgrainError, match=r"unpickled|cannot be read"):
            read(file)
    assert not (tmp_path / "ran").exists()


def entry(shape: str, kind: str = "'<f8'") -> bytes:
    """The opening of an array with these claims, and nothing behind it."""
    header = f"{{'descr': {kind}, 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header


@pytest.mark.parametrize(
    "content",
    [
        entry("(1099511627776,)"),
        entry("(4294967296, 4294967296)"),
        entry("(2,)", "'<U2147483647'"),
        entry("(2, ("),
        entry("(2,)", "[" * 200 + "]" * 200),
        entry("(2,)", "7"),
        b"no array at all",
        b"",
    ],
)
def test_an_entry_with_false_claims(content: bytes, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as packed:
        packed.writestr("X.npy", content)
        packed.writestr("y.npy", content)
    (tmp_path / "a.npy").write_bytes(content)
    with pytest.raises(NetgrainError, match=r"a\.npz cannot be read as arrays"):
        read(tmp_path / "a.npz")
    for file, names in (("a.npz", ("X", "y")), ("a.npy", ("signal",))):
        with pytest.raises(NetgrainError, match=rf"{file} cannot be read as arrays"):
            read_arrays(tmp_path / file, *names)


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_damaged_archive(method: int, tmp_path: Path) -> None:
    file = tmp_path / "a.npz"
    with zipfile.ZipFile(file, "w", method) as packed:
        for name in ("X", "y"):
            with packed.open(f"{name}.npy", "w") as target:
                np.save(target, TABLE)
    sound = file.read_bytes()
    said = []
    for at in range(40, 100, 4):
        file.write_bytes(sound[:at] + b"\xff\xff\xff\xff" + sound[at + 4 :])
        try:
            read_arrays(file, "X", "y")  # a few of the changes do no harm
        except NetgrainError as e:
            said.append(str(e))
        with suppress(NetgrainError):
            read(file)
    assert len(said) > 10
    assert all("cannot be read as arrays" in words for words in said)


def test_files_without_the_arrays(tmp_path: Path) -> None:
    (tmp_path / "c.npz").write_bytes(b"PK\x03\x04 not a zip")
    with pytest.raises(NetgrainError, match=r"c\.npz cannot be read as arrays"):
        read(tmp_path / "c.npz")
    np.save(tmp_path / "d.npy", TABLE)
    assert torch.equal(read_tensors(tmp_path / "d.npy", "signal")[0], torch.tensor(TABLE))
    (tmp_path / "d.npy").rename(tmp_path / "d.npz")
    with pytest.raises(NetgrainError, match=r"d\.npz has one array, not X; save it with np\.savez"):
        read(tmp_path / "d.npz")
    with pytest.raises(
        NetgrainError, match=r"no\.npy is not a file; expected a file of np\.savez\(file, X=X\), or \.npy"
    ):
        read_tensors(tmp_path / "no.npy", "X")
    with pytest.raises(NetgrainError, match=r"own\.npz cannot be read as numbers: the array y holds"):
        read_tensors(npz(tmp_path, X=TABLE, y=["a", "b", "c"]), "X", "y")


def test_both_parts_in_one_file(tmp_path: Path) -> None:
    """As in the mnist.npz of Keras."""
    X = np.random.default_rng(0).integers(0, 256, (9, 4, 4), np.uint8)
    file = npz(tmp_path, x_train=X[:6], y_train=[3, 7, 3, 7, 7, 3], x_test=X[6:], y_test=[7, 3, 7])
    train = read(file)
    assert train.note == (
        "training part, x_test is left for testing; pixels divided by 255; labels 3 to 7 renumbered from 0"
    )
    split = load_split(file, standardise=False)
    assert (split.train.classes, split.test.y.tolist()) == (("3", "7"), [1, 0, 1])
    assert torch.equal(split.train.X, train.X)
    np.testing.assert_allclose(split.test.X[:, 0].numpy() * 255, X[6:], atol=1e-4)
    scaled = load_split(file)
    assert abs(float(scaled.train.X.mean())) < 1e-6 < abs(float(scaled.test.X.mean()))
    with pytest.raises(NetgrainError, match=r"own\.npz has no test part; expected X_train and X_test"):
        load_split(npz(tmp_path, X=X, y=np.arange(9) % 2))


def test_labels_by_another_name_and_none(tmp_path: Path) -> None:
    file = npz(tmp_path, X=TABLE, age=[0.5, 1.5, 2.0], labels=["a", "b", "a"])
    assert read(file).classes == ("a", "b")
    assert read(file, label="age").y.tolist() == [0.5, 1.5, 2.0]
    assert read(file, target="none").note == "labels left out"
    with pytest.raises(NetgrainError, match=r"no array size \(arrays found: X, age, labels\)"):
        read(file, label="size")
    assert read(npz(tmp_path, X=TABLE)).target == "none"


def test_numbers_of_another_byte_order(tmp_path: Path) -> None:
    file = npz(tmp_path, X=TABLE.astype(">f4"), y=np.array([0, 1, 1], ">i2"))
    assert read_tensors(file, "X")[0].tolist() == TABLE.tolist()
    assert read(file).y.tolist() == [0, 1, 1]
