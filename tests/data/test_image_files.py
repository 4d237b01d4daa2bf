"""The files of image sets: both layouts, damage, and pickles that ask for something."""

import gzip
import os
import pickle
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from netgrain import data
from netgrain.data.image_files import read_cifar_binary, read_cifar_python, read_idx
from netgrain.runtime.errors import NetgrainError
from tests.data.image_set_files import cifar_arrays, idx_bytes, python2_pickle, write_binary, write_idx, write_python


def test_a_cifar_file_of_the_wrong_size_is_refused(tmp_path: Path) -> None:
    write_binary(tmp_path)
    file = tmp_path / "data_batch_2.bin"
    with pytest.raises(
        NetgrainError, match=r"data_batch_1.bin has the wrong size: expected 30730000 bytes .* found 9219"
    ):
        data.cifar10(tmp_path)  # whole records, but not the official number
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(
        NetgrainError, match=r"data_batch_2.bin has the wrong size: expected a multiple of 3073 .* 9218"
    ):
        data.cifar10(tmp_path, official=False)
    file.write_bytes(b"\x0a" + bytes(3072))
    with pytest.raises(NetgrainError, match="label 10; expected 0 to 9"):
        data.cifar10(tmp_path, official=False)


@pytest.mark.parametrize("module", ["numpy.core.multiarray", "numpy._core.multiarray"])
def test_the_python_layout_is_read_like_numpy_s_own_pickles(module: str, tmp_path: Path) -> None:
    X, y = cifar_arrays()["test_batch"]
    (tmp_path / "old").write_bytes(python2_pickle(X, y, module))
    (tmp_path / "new").write_bytes(pickle.dumps({"data": X, "labels": y}, protocol=2))
    for name in ("old", "new"):
        images, labels = read_cifar_python(tmp_path / name)
        assert np.array_equal(images.numpy().reshape(-1, 3072), X)
        assert labels.tolist() == y


class _Evil:
    def __init__(self, call: object, *arguments: object) -> None:
        self.call, self.arguments = call, arguments

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        return self.call, self.arguments


@pytest.mark.parametrize(
    ("call", "arguments"), [(os.mkdir, ("MARK",)), (eval, ("1",)), (np.frombuffer, (b"1",)), (getattr, (1, "real"))]
)
def test_a_pickle_that_asks_for_anything_else_is_refused_and_nothing_happens(
    call: object, arguments: tuple[object, ...], tmp_path: Path
) -> None:
    mark = tmp_path / "mark"
    arguments = tuple(str(mark) if a == "MARK" else a for a in arguments)
    file = tmp_path / "data_batch_1"
    file.write_bytes(pickle.dumps({"data": _Evil(call, *arguments), "labels": [1]}, protocol=2))
    with pytest.raises(NetgrainError, match=r"data_batch_1 asks for .*it was not executed"):
        read_cifar_python(file)
    assert not mark.exists()


def test_a_pickle_cannot_change_the_stand_ins(tmp_path: Path) -> None:
    file = tmp_path / "batch"
    for name in (
        b"cnumpy\nndarray\n",
        b"cnumpy\ndtype\n",
        b"c_codecs\nencode\n",
        b"cnumpy.core.multiarray\n_reconstruct\n",
    ):
        file.write_bytes(b"\x80\x02" + name + b"N}X\x05\0\0\0stateK\x01s\x86b.")  # BUILD with (None, {"state": 1})
        with pytest.raises(NetgrainError, match=r"damaged CIFAR-10 batch \(TypeError\)"):
            read_cifar_python(file)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (python2_pickle(*cifar_arrays()["test_batch"])[:-2000], r"\(\d+ bytes\) is a truncated or damaged"),
        (b"hello", "truncated or damaged"),
        (
            python2_pickle(*cifar_arrays()["test_batch"]).replace(b"J\3\0\0\0J\0\x0c", b"J\4\0\0\0J\0\x0c"),
            "expected an array of bytes",  # four images announced, three there
        ),
        (b"\x80\x02\x8a\x04\xff\xff\xff\x7fr\xff\xff\xff\xff.", "truncated or damaged|holds a int"),
        (pickle.dumps([1]), "holds a list, expected a dictionary"),
        (pickle.dumps({"data": 1, "labels": [1]}), "expected an array 'data'"),
        (pickle.dumps({"data": np.zeros((2, 3072), np.float32), "labels": [1, 2]}, 2), "expected an array of bytes"),
        (pickle.dumps({"data": np.zeros((2, 3071), np.uint8), "labels": [1, 2]}, 2), "expected an array of bytes"),
        (pickle.dumps({"data": np.zeros((2, 3072), np.uint8), "labels": [1]}, 2), "expected 2 whole-number labels"),
        (pickle.dumps({"data": np.zeros((1, 3072), np.uint8), "labels": [1.5]}, 2), "whole-number labels"),
        (pickle.dumps({"data": np.zeros((1, 3072), np.uint8), "labels": [11]}, 2), "label 11; expected 0 to 9"),
        (b"", "expected 1 to .* found 0"),
    ],
)
def test_damaged_batches_of_the_python_layout(content: bytes, words: str, tmp_path: Path) -> None:
    (tmp_path / "batch").write_bytes(content)
    with pytest.raises(NetgrainError, match=words):
        read_cifar_python(tmp_path / "batch")


def test_the_official_number_of_images_holds_in_the_python_layout(tmp_path: Path) -> None:
    write_python(tmp_path)
    with pytest.raises(NetgrainError, match="expected 10000 images, found 3"):
        data.cifar10(tmp_path)


IMAGES = np.arange(2 * 3 * 3, dtype=np.uint8).reshape(2, 3, 3)


@pytest.mark.parametrize("pack", [gzip.compress, bytes], ids=["gz", "plain"])
@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "found an empty file"),
        (idx_bytes(IMAGES[0]), "expected magic 00000803, found 00000802"),
        (b"\0\0\x0d\x03" + idx_bytes(IMAGES)[4:], "expected magic 00000803, found 00000d03"),
        (idx_bytes(IMAGES)[:10], "expected 16 bytes of header, found 10"),
        (idx_bytes(IMAGES)[:-1], "expected 34 bytes .* found 33"),
        (idx_bytes(IMAGES) + b"x", "expected 34 bytes .* found more"),
        (bytes((0, 0, 8, 3)) + struct.pack(">3I", 2**31, 2**31, 4), "declares shape"),
        (bytes((0, 0, 8, 3)) + struct.pack(">3I", 0, 3, 3), "declares shape"),
    ],
)
def test_damaged_idx_files(content: bytes, words: str, pack: Callable[[bytes], bytes], tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(pack(content))
    with pytest.raises(NetgrainError, match=words):
        read_idx(tmp_path / "file", dimensions=3)


def test_idx_round_trip_and_damaged_gzip(tmp_path: Path) -> None:
    file = tmp_path / "x.gz"
    file.write_bytes(gzip.compress(idx_bytes(IMAGES)))
    assert np.array_equal(read_idx(file, dimensions=3).numpy(), IMAGES)
    file.write_bytes(file.read_bytes()[:-12])
    with pytest.raises(NetgrainError, match="truncated or damaged gzip"):
        read_idx(file, dimensions=3)
    with pytest.raises(NetgrainError, match="cannot read"):
        read_idx(tmp_path / "nothing", dimensions=3)


def test_an_idx_bomb_is_not_decompressed(tmp_path: Path) -> None:
    header = bytes((0, 0, 8, 3)) + struct.pack(">3I", 1, 2, 2)
    (tmp_path / "bomb").write_bytes(gzip.compress(header + bytes(10_000_000)))
    with pytest.raises(NetgrainError, match=r"expected 20 bytes .* found more"):
        read_idx(tmp_path / "bomb", dimensions=3)
    with pytest.raises(NetgrainError, match="expected between 1 and 3"):
        read_idx(tmp_path / "bomb", dimensions=3, most=3)


def test_labels_of_another_length_than_the_images(tmp_path: Path) -> None:
    write_idx(tmp_path)
    (tmp_path / "train-labels-idx1-ubyte.gz").write_bytes(idx_bytes(np.zeros(5, np.uint8)))
    with pytest.raises(NetgrainError, match=r"labels of the wrong length: .* 14 images, .* 5 labels"):
        data.mnist(tmp_path, official=False)


def test_the_reader_of_one_binary_file(tmp_path: Path) -> None:
    (tmp_path / "b.bin").write_bytes(b"\x07" + bytes(1024) + b"\x01" * 1024 + b"\x02" * 1024)
    images, labels = read_cifar_binary(tmp_path / "b.bin", records=1)
    assert labels.tolist() == [7]
    assert images[0].float().mean((1, 2)).tolist() == [0, 1, 2]  # red, green, blue plane
