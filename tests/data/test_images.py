"""Data sets: what they accept, how files are read, and how files come from the network."""

import contextlib
import gzip
import hashlib
import io
import os
import pickle
import re
import socket
import stat
import struct
import sys
import tarfile
import threading
import zipfile
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest
import torch

from netgrain import data
from netgrain.data import Dataset, Split
from netgrain.data import download as downloads
from netgrain.data.dataset import channel_moments
from netgrain.data.download import Source, download, extract
from netgrain.data.image_files import read_cifar_binary, read_cifar_python, read_idx, read_mnist_pair
from netgrain.data.images import DIGITS, MNIST_OPENING
from netgrain.runtime.errors import NetgrainError

BATCHES = ("data_batch_1", "data_batch_2", "data_batch_3", "data_batch_4", "data_batch_5", "test_batch")


@pytest.fixture(autouse=True)
def nobody_s_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No data of this machine, no proxy, a cache of the test's own."""
    monkeypatch.delenv("NETGRAIN_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.setattr("netgrain.data.images.DEBIAN", tmp_path / "debian")


def toy(n: int = 6, shape: tuple[int, ...] = (3, 4, 4), seed: int = 0) -> Dataset:
    generator = torch.Generator().manual_seed(seed)
    return Dataset(torch.rand(n, *shape, generator=generator), torch.arange(n) % 3, "toy", ("a", "b", "c"))


# --- Dataset and Split ----------------------------------------------------------------------------------------


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
        (torch.zeros(3, 2), torch.zeros(3), (), "expected whole-number labels, found torch.float32"),
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


@pytest.mark.parametrize("shape", [(3, 4, 4), (5,)])
def test_standardised_is_numpy_s_answer_with_training_statistics(shape: tuple[int, ...]) -> None:
    split = Split(toy(40, shape, seed=1), toy(30, shape, seed=2))
    done = data.standardised(split)
    X, T = split.train.X.double().numpy(), split.test.X.double().numpy()
    axes = (0, 2, 3) if len(shape) == 3 else None
    mean, std = X.mean(axes, keepdims=True), X.std(axes, keepdims=True)
    np.testing.assert_allclose(done.train.X.numpy(), (X - mean) / std, atol=1e-6)
    np.testing.assert_allclose(done.test.X.numpy(), (T - mean) / std, atol=1e-6)
    assert f"training statistics: mean {mean.flat[0]:.4g}" in done.test.note


def test_standardising_leaves_its_argument_alone_and_survives_a_constant_channel() -> None:
    d = toy(8)
    X = d.X.clone()
    X[:, 1] = 0.1
    split = Split(Dataset(X, d.y), Dataset(X + 1, d.y))
    before = X.clone()
    done = data.standardised(split)
    assert torch.equal(split.train.X, before)
    assert float(done.train.X[:, 1].abs().max()) < 1e-7
    torch.testing.assert_close(done.test.X[:, 1], torch.ones(8, 4, 4))


def test_rounding_does_not_give_a_constant_channel_a_spread() -> None:
    X = torch.full((100, 1, 3, 3), 0.1, dtype=torch.float64)
    assert float(X.flatten(2).sum((0, 2)) / X.numel()) != 0.1  # the mean of equal numbers is not that number
    assert channel_moments(X)[1].tolist() == [0.0]


def test_resized_is_the_mean_of_every_square() -> None:
    d = toy(2, (3, 6, 6))
    small = data.resized(d, 2)
    for i in range(2):
        for c in range(3):
            for r in range(2):
                for s in range(2):
                    square = d.X[i, c, 3 * r : 3 * r + 3, 3 * s : 3 * s + 3]
                    assert float(small.X[i, c, r, s]) == pytest.approx(float(square.mean()), abs=1e-6)
    assert data.resized(d, 6) is d


@pytest.mark.parametrize("size", [0, 4, 12])
def test_resized_refuses_what_does_not_divide(size: int) -> None:
    with pytest.raises(NetgrainError, match="a divisor of the image size 6 × 6"):
        data.resized(toy(2, (3, 6, 6)), size)
    with pytest.raises(NetgrainError, match="expected images"):
        data.resized(toy(2, (5,)), 1)


def test_as_binary() -> None:
    two = data.as_binary(toy(), {1, 2}, ("one", "other"))
    assert two.y.tolist() == [0, 1, 1, 0, 1, 1]
    assert two.classes == ("one", "other")
    with pytest.raises(NetgrainError, match=r"from 0 to 2, found \[3\]"):
        data.as_binary(toy(), [3])


def test_balanced_takes_the_same_number_of_each_class() -> None:
    d = Dataset(torch.arange(30.0)[:, None], torch.arange(30) % 10 % 3, "toy")  # 12, 9, 9
    part = data.balanced(d, 9, seed=3)
    assert part.counts == (9, 9, 9)
    assert len(set(part.X.flatten().tolist())) == 27
    assert torch.equal(part.y, part.X.flatten().long() % 10 % 3)
    assert torch.equal(part.X, data.balanced(d, 9, seed=3).X)
    assert not torch.equal(part.X, data.balanced(d, 9, seed=4).X)
    with pytest.raises(NetgrainError, match="1 to 9"):
        data.balanced(d, 10)


# --- files of image sets --------------------------------------------------------------------------------------


def cifar_arrays(n: int = 3) -> dict[str, tuple[np.ndarray, list[int]]]:
    rng = np.random.default_rng(0)
    return {name: (rng.integers(0, 256, (n, 3072), np.uint8), rng.integers(0, 10, n).tolist()) for name in BATCHES}


def write_binary(folder: Path, n: int = 3) -> dict[str, tuple[np.ndarray, list[int]]]:
    folder.mkdir(parents=True, exist_ok=True)
    arrays = cifar_arrays(n)
    for name, (X, y) in arrays.items():
        rows = b"".join(bytes([label]) + row.tobytes() for row, label in zip(X, y, strict=True))
        (folder / f"{name}.bin").write_bytes(rows)
    return arrays


def python2_pickle(X: np.ndarray, y: list[int], module: str = "numpy.core.multiarray") -> bytes:
    """The batch as Python 2 wrote it: protocol 2, byte strings for keys, an array rebuilt by NumPy."""

    def text(value: bytes) -> bytes:
        return b"T" + struct.pack("<I", len(value)) + value  # BINSTRING

    def number(value: int) -> bytes:
        return b"J" + struct.pack("<i", value)

    dtype = b"cnumpy\ndtype\n(" + text(b"u1") + number(0) + number(1) + b"tR"
    dtype += b"(" + number(3) + text(b"|") + b"NNN" + number(-1) + number(-1) + number(0) + b"tb"
    array = f"c{module}\n_reconstruct\n".encode() + b"(cnumpy\nndarray\n(" + number(0) + b"t" + text(b"b") + b"tR"
    shape = b"(" + number(X.shape[0]) + number(X.shape[1]) + b"t"
    array += b"(" + number(1) + shape + dtype + b"\x89" + text(X.tobytes()) + b"tb"
    labels = b"](" + b"".join(map(number, y)) + b"e"
    return b"\x80\x02}(" + text(b"data") + array + text(b"labels") + labels + b"u."


def write_python(folder: Path, n: int = 3) -> dict[str, tuple[np.ndarray, list[int]]]:
    folder.mkdir(parents=True, exist_ok=True)
    arrays = cifar_arrays(n)
    for name, (X, y) in arrays.items():
        (folder / name).write_bytes(python2_pickle(X, y))
    return arrays


def idx_bytes(array: np.ndarray) -> bytes:
    return bytes((0, 0, 8, array.ndim)) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


def write_idx(folder: Path, n: int = 14, packed: bool = True, opening: tuple[int, ...] = MNIST_OPENING) -> np.ndarray:
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(1)
    X = rng.integers(0, 256, (n, 28, 28), np.uint8)
    y = np.array([*opening, *([0] * n)], np.uint8)[:n]
    for part in ("train", "t10k"):
        for name, array in ((f"{part}-images-idx3-ubyte", X), (f"{part}-labels-idx1-ubyte", y)):
            content = idx_bytes(array)
            (folder / (name + ".gz" * packed)).write_bytes(gzip.compress(content) if packed else content)
    return X


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


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize("folder", ["mnist", "MNIST/raw", ""])
def test_mnist_is_read_packed_and_plain(packed: bool, folder: str, tmp_path: Path) -> None:
    X = write_idx(tmp_path / "root" / folder, packed=packed)
    split = data.mnist(tmp_path / "root", official=False)
    np.testing.assert_allclose(split.train.X.numpy()[:, 0], X / 255, atol=1e-7)
    assert tuple(split.test.y.tolist()[:12]) == MNIST_OPENING
    with pytest.raises(NetgrainError, match="expected 60000 images of 28 × 28, found 14 of 28 × 28"):
        data.mnist(tmp_path / "root")


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
    monkeypatch.setattr("netgrain.data.images._idx_raw", _ignore_size)
    (tmp_path / "fashion-mnist").rename(tmp_path / "other")
    with pytest.raises(NetgrainError, match="does not begin with MNIST's labels"):
        data.mnist(tmp_path / "other")


def _ignore_size(files: list[Path], name: str, classes: tuple[str, ...], official: bool) -> object:
    from netgrain.data.image_files import read_mnist_pair
    from netgrain.data.images import Raw

    return Raw(read_mnist_pair(files[0], files[1]), read_mnist_pair(files[2], files[3]), name, classes)


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
        (bytes((0, 0, 8, 3)) + struct.pack(">3I", 2**31, 2**31, 4), "announces"),
        (bytes((0, 0, 8, 3)) + struct.pack(">3I", 0, 3, 3), "announces"),
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


# --- finding and loading --------------------------------------------------------------------------------------


def test_the_search_goes_argument_variable_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def count(data_dir: Path | None = None) -> int:
        return len(data.cifar10(data_dir, official=False).test)

    with pytest.raises(
        NetgrainError,
        match=r"pass data_dir= .*, set NETGRAIN_DATA to it, or fetch it with python -c .*load\('cifar10', .*\"\.$",
    ):
        count()
    write_binary(tmp_path / "cache" / "netgrain" / "cifar-10-batches-bin", n=1)
    assert count() == 1
    write_binary(tmp_path / "variable" / "cifar-10-batches-bin", n=2)
    monkeypatch.setenv("NETGRAIN_DATA", str(tmp_path / "variable"))
    assert count() == 2
    write_binary(tmp_path / "argument", n=3)
    assert count(data_dir=tmp_path / "argument") == 3
    (tmp_path / "empty").mkdir()
    assert count(data_dir=tmp_path / "empty") == 2
    with pytest.raises(NetgrainError, match="is not a folder"):
        count(data_dir=tmp_path / "nowhere")


def test_a_set_with_a_missing_file_says_which(tmp_path: Path) -> None:
    write_binary(tmp_path)
    (tmp_path / "data_batch_4.bin").unlink()
    with pytest.raises(NetgrainError, match=r"has a part of it but not data_batch_4.bin"):
        data.cifar10(tmp_path, official=False)


def test_load_limits_resizes_and_standardises(tmp_path: Path) -> None:
    write_binary(tmp_path, n=8)
    split = data.load("CIFAR-10", tmp_path, limit=(20, 5), size=8, seed=1, official=False)
    assert (len(split.train), len(split.test), split.train.shape) == (20, 5, (3, 8, 8))
    torch.testing.assert_close(split.train.X.mean((0, 2, 3)), torch.zeros(3), atol=1e-5, rtol=0)
    torch.testing.assert_close(split.train.X.std((0, 2, 3), correction=0), torch.ones(3))
    assert "area-averaged from 32 × 32 to 8 × 8; standardised per channel" in split.train.note
    again = data.load("cifar10", tmp_path, limit=(20, 5), size=8, seed=1, official=False)
    other = data.load("cifar10", tmp_path, limit=(20, 5), size=8, seed=2, official=False)
    assert torch.equal(split.train.X, again.train.X)
    assert not torch.equal(split.train.y, other.train.y)
    plain = data.load("cifar10", tmp_path, limit=7, standardise=False, official=False)
    whole = data.cifar10(tmp_path, official=False)
    rows = {tuple(x.flatten().tolist()): int(y) for x, y in zip(whole.train.X, whole.train.y, strict=True)}
    assert all(rows[tuple(x.flatten().tolist())] == y for x, y in zip(plain.train.X, plain.train.y, strict=True))
    assert (len(plain.train), len(plain.test)) == (7, 7)
    assert data.load("cifar2", tmp_path, official=False).train.classes == ("animal", "vehicle")
    with pytest.raises(NetgrainError, match="limit 0"):
        data.load("cifar2", tmp_path, limit=0, official=False)


def test_load_suggests_the_nearest_name() -> None:
    with pytest.raises(NetgrainError, match="data set 'cifar20' is not known; did you mean 'cifar2'"):
        data.load("cifar20")
    with pytest.raises(NetgrainError, match="'fashion_mnits'; did you mean 'fashionmnist'"):
        data.load("fashion_mnits")
    with pytest.raises(NetgrainError, match="expected one of digits, mnist"):
        data.load("xyz")


def test_digits_come_with_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn", None)  # a base installation has no scikit-learn
    split = data.digits()
    assert (len(split.train), len(split.test), split.train.shape) == (1437, 360, (1, 8, 8))
    assert float(split.train.X.max()) == 1
    assert split.train.note == "pixels divided by 16"
    assert torch.equal(split.test.X, data.load("digits", standardise=False).test.X)


def test_digits_are_those_of_scikit_learn_bit_for_bit() -> None:
    from sklearn.datasets import load_digits

    theirs = load_digits()
    X, y = read_mnist_pair(DIGITS / "images.idx3-ubyte.gz", DIGITS / "labels.idx1-ubyte.gz")
    np.testing.assert_array_equal(X.squeeze(1).double().numpy(), theirs.images, strict=True)
    np.testing.assert_array_equal(y.numpy(), theirs.target, strict=True)


# --- download -------------------------------------------------------------------------------------------------

CONTENT = bytes(range(256)) * 4096  # a million bytes
SHA = hashlib.sha256(CONTENT).hexdigest()


class Server:
    """A web server of our own; what it saw is in `ranges`, how it misbehaves in the address."""

    def __init__(self) -> None:
        self.files = {"file": CONTENT}
        self.ranges: list[str | None] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                mode, _, name = self.path.strip("/").partition("/")
                wanted = self.headers.get("Range")
                outer.ranges.append(wanted)
                if name not in outer.files:
                    self.send_error(404)
                    return
                content = outer.files[name]
                start = int(wanted.removeprefix("bytes=").removesuffix("-")) if wanted and mode != "norange" else 0
                if start >= len(content):
                    self.send_response(416)
                    self.send_header("Content-Range", f"bytes */{len(content)}")
                    self.send_header("Content-Length", "0")
                    self.end_headers()
                    return
                self.send_response(206 if start else 200)
                if start:
                    shown = start + 1 if mode == "shifted" else start
                    self.send_header("Content-Range", f"bytes {shown}-{len(content) - 1}/{len(content)}")
                if mode != "nolength":
                    self.send_header("Content-Length", str(len(content) - start))
                self.end_headers()
                body = content[start:]
                with contextlib.suppress(ConnectionError):  # a client that has seen enough
                    self.wfile.write(body[: len(body) // 2] if mode == "cut" else body)

            def log_message(self, format: str, *args: object) -> None:
                """Silence."""

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http.daemon_threads = True
        self.thread = threading.Thread(target=self.http.serve_forever, kwargs={"poll_interval": 0.01})
        self.thread.start()

    def url(self, mode: str = "plain", name: str = "file") -> str:
        return f"http://127.0.0.1:{self.http.server_address[1]}/{mode}/{name}"

    def close(self) -> None:
        self.http.shutdown()
        self.thread.join()
        self.http.server_close()


@pytest.fixture
def server() -> Iterator[Server]:
    running = Server()
    yield running
    running.close()


@pytest.mark.parametrize("mode", ["plain", "nolength"])
def test_a_download_arrives_whole(mode: str, server: Server, tmp_path: Path) -> None:
    target = tmp_path / "new" / "file"
    assert download(server.url(mode), target, sha256=SHA, size=len(CONTENT)) == target
    assert target.read_bytes() == CONTENT
    assert [p.name for p in target.parent.iterdir()] == ["file"]
    download(server.url(mode), target, sha256=SHA)
    assert server.ranges == [None]  # the second call found it there


@pytest.mark.parametrize(("mode", "ranges"), [("plain", ["bytes=1000-"]), ("norange", ["bytes=1000-"])])
def test_an_interrupted_download_goes_on(mode: str, ranges: list[str], server: Server, tmp_path: Path) -> None:
    (tmp_path / "file.part").write_bytes(CONTENT[:1000])
    download(server.url(mode), tmp_path / "file", md5=hashlib.md5(CONTENT).hexdigest())
    assert (tmp_path / "file").read_bytes() == CONTENT
    assert server.ranges == ranges


def test_a_cut_connection_keeps_the_part_and_the_next_call_resumes(server: Server, tmp_path: Path) -> None:
    half = len(CONTENT) // 2
    with pytest.raises(NetgrainError, match=f"ended after {half} of {len(CONTENT)} bytes; run it again"):
        download(server.url("cut"), tmp_path / "file", sha256=SHA)
    assert (tmp_path / "file.part").stat().st_size == half
    assert not (tmp_path / "file").exists()
    download(server.url(), tmp_path / "file", sha256=SHA)
    assert (tmp_path / "file").read_bytes() == CONTENT
    assert server.ranges == [None, f"bytes={half}-"]


def test_without_a_checksum_nothing_is_resumed(server: Server, tmp_path: Path) -> None:
    (tmp_path / "file.part").write_bytes(b"something else")
    download(server.url(), tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == CONTENT
    assert server.ranges == [None]


def test_a_part_that_is_whole_or_too_long(server: Server, tmp_path: Path) -> None:
    (tmp_path / "a.part").write_bytes(CONTENT)
    download(server.url(), tmp_path / "a", sha256=SHA)
    (tmp_path / "b.part").write_bytes(CONTENT + b"x")
    download(server.url(), tmp_path / "b", sha256=SHA)
    (tmp_path / "c.part").write_bytes(CONTENT + b"x")
    download(server.url(), tmp_path / "c", sha256=SHA, size=len(CONTENT))
    (tmp_path / "d.part").write_bytes(CONTENT)
    download(server.url(), tmp_path / "d", sha256=SHA, size=len(CONTENT))
    assert all((tmp_path / name).read_bytes() == CONTENT for name in "abcd")
    size = len(CONTENT)
    assert server.ranges == [f"bytes={size}-", f"bytes={size + 1}-", None, None]


def test_a_wrong_range_is_refused(server: Server, tmp_path: Path) -> None:
    (tmp_path / "file.part").write_bytes(CONTENT[:1000])
    with pytest.raises(NetgrainError, match="the server sent another range"):
        download(server.url("shifted"), tmp_path / "file", sha256=SHA)


@pytest.mark.parametrize("start", [0, 1000])
def test_a_wrong_checksum_leaves_nothing(start: int, server: Server, tmp_path: Path) -> None:
    if start:
        (tmp_path / "file.part").write_bytes(b"?" * start)
    with pytest.raises(NetgrainError, match=r"wrong sha256: expected .*, found .*; it was removed"):
        download(server.url(), tmp_path / "file", sha256=SHA if start else "0" * 64)
    assert list(tmp_path.iterdir()) == []


def test_an_old_file_with_another_checksum_is_replaced(server: Server, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"old")
    download(server.url(), tmp_path / "file", sha256=SHA)
    assert (tmp_path / "file").read_bytes() == CONTENT


@pytest.mark.parametrize("mode", ["plain", "nolength"])
@pytest.mark.parametrize("limit", [{"most": 1000}, {"size": 1000}, {"size": 10**12}])
def test_too_large_is_refused(mode: str, limit: dict[str, int], server: Server, tmp_path: Path) -> None:
    words = "at most 1073741824 are allowed" if limit.get("size") == 10**12 else "expected at most 1000 bytes"
    with pytest.raises(NetgrainError, match=words):
        download(server.url(mode), tmp_path / "file", sha256=SHA, **limit)
    assert list(tmp_path.iterdir()) == []


def test_too_short_is_refused(server: Server, tmp_path: Path) -> None:
    with pytest.raises(NetgrainError, match="wrong size: expected 2000000 bytes, found 1048576"):
        download(server.url(), tmp_path / "file", size=2_000_000)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(NetgrainError, match="ended after 1048576 of 2000000 bytes"):
        download(server.url("nolength"), tmp_path / "file", size=2_000_000)


def test_errors_of_the_network_are_sentences(server: Server, tmp_path: Path) -> None:
    with pytest.raises(NetgrainError, match=r"the server answered 404 \(Not Found\)"):
        download(server.url(name="other"), tmp_path / "file")
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}/file"  # bound, but nobody listens
        with pytest.raises(NetgrainError, match=r"could not be reached .*refused.* check the connection"):
            download(url, tmp_path / "file")
    with pytest.raises(NetgrainError, match="expected an https address, found 'file:///etc/passwd'"):
        download("file:///etc/passwd", tmp_path / "file")
    (tmp_path / "blocked").write_bytes(b"")
    with pytest.raises(NetgrainError, match="cannot write"):
        download(url, tmp_path / "blocked" / "file")


def test_download_true_brings_cifar_and_mnist(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_binary(tmp_path / "pack" / "cifar-10-batches-bin", n=2)
    with tarfile.open(tmp_path / "cifar.tar.gz", "w:gz") as tar:
        tar.add(tmp_path / "pack" / "cifar-10-batches-bin", "cifar-10-batches-bin")
    write_idx(tmp_path / "pack" / "mnist")
    files = {p.name: p.read_bytes() for p in (tmp_path / "pack" / "mnist").iterdir()}
    files["cifar.tar.gz"] = (tmp_path / "cifar.tar.gz").read_bytes()
    server.files |= files

    def source(name: str) -> Source:
        return Source(server.url(name=name), hashlib.md5(files[name]).hexdigest(), len(files[name]))

    sources = {"cifar-10-batches-bin": ("cifar.tar.gz",), "mnist": sorted(n for n in files if "ubyte" in n)}
    monkeypatch.setattr(downloads, "SOURCES", {k: tuple(map(source, names)) for k, names in sources.items()})
    assert len(data.cifar10(download=True, official=False).test) == 2
    assert len(data.cifar10(download=True, official=False).test) == 2
    assert len(data.mnist(tmp_path / "chosen", download=True, official=False).train) == 14
    assert len(server.ranges) == 5
    assert [p.name for p in (tmp_path / "cache" / "netgrain").iterdir()] == ["cifar-10-batches-bin"]
    (tmp_path / "chosen" / "mnist" / "t10k-labels-idx1-ubyte.gz").unlink()
    data.mnist(tmp_path / "chosen", download=True, official=False)
    assert len(server.ranges) == 6  # only what was missing
    broken = tmp_path / "cache" / "netgrain" / "cifar-10-batches-bin"
    (broken / "test_batch.bin").unlink()
    with pytest.raises(NetgrainError, match="cifar-10-batches-bin exists but files are missing in it; remove it"):
        data.cifar10(download=True, official=False)
    assert len(server.ranges) == 6


def test_the_table_of_sources_is_complete() -> None:
    for name, sources in downloads.SOURCES.items():
        for source in sources:
            assert source.url.startswith("https://"), name
            assert re.fullmatch("[0-9a-f]{32}", source.md5), name
            assert 1000 < source.size < 2**28, name


# --- archives -------------------------------------------------------------------------------------------------

Entry = tuple[str, bytes | str]  # content, or the kind of something that is not a file


def make_tar(path: Path, *entries: Entry) -> Path:
    with tarfile.open(path, "w:gz") as tar:
        for name, content in entries:
            info = tarfile.TarInfo(name)
            if isinstance(content, bytes):
                info.size, info.mode = len(content), 0o4777
                tar.addfile(info, io.BytesIO(content))
                continue
            kinds = {"link": tarfile.SYMTYPE, "hard": tarfile.LNKTYPE, "fifo": tarfile.FIFOTYPE, "dir": tarfile.DIRTYPE}
            info.type, info.linkname = kinds[content], "/etc/passwd"
            tar.addfile(info)
    return path


def make_zip(path: Path, *entries: Entry) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, content in entries:
            info = zipfile.ZipInfo(name + "/" * (content == "dir"))
            kinds = {"link": stat.S_IFLNK, "hard": stat.S_IFLNK, "fifo": stat.S_IFIFO, "dir": stat.S_IFDIR}
            kind = stat.S_IFREG if isinstance(content, bytes) else kinds[content]
            info.external_attr = (kind | 0o755) << 16
            info.compress_type = zipfile.ZIP_DEFLATED
            packed.writestr(info, content if isinstance(content, bytes) else b"")
    return path


both = pytest.mark.parametrize("make", [make_tar, make_zip], ids=["tar.gz", "zip"])


@both
def test_extract_unpacks_files_and_folders(make: Callable[..., Path], tmp_path: Path) -> None:
    archive = make(tmp_path / "a", ("top", "dir"), ("top/x", b"one"), ("top/in/y", b"two" * 10**6), ("z", b""))
    folder = extract(archive, tmp_path / "out" / "here")
    found = {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}
    assert found == {"top/x": b"one", "top/in/y": b"two" * 10**6, "z": b""}
    assert not (folder / "top" / "x").stat().st_mode & 0o4000
    inner = extract(archive, tmp_path / "inner", inside="top")
    assert sorted(p.name for p in inner.iterdir()) == ["in", "x"]
    with pytest.raises(NetgrainError, match="exists already"):
        extract(archive, folder)
    with pytest.raises(NetgrainError, match="holds no folder 'other'"):
        extract(archive, tmp_path / "missing", inside="other")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a", "inner", "out"]


@both
@pytest.mark.parametrize(
    ("entry", "words"),
    [
        (("/absolute", b"x"), "'/absolute' that leaves its folder"),
        (("../up", b"x"), "leaves its folder"),
        (("a/../../up", b"x"), "leaves its folder"),
        (("..", "dir"), "leaves its folder"),
        (("c:\\windows", b"x"), "leaves its folder"),
        (("link", "link"), "'link' that is a link or a device"),
        (("hard", "hard"), "is a link or a device"),
        (("fifo", "fifo"), "is a link or a device"),
        (("good", b"again"), "cannot unpack"),
        (("n" * 300, b"x"), "cannot unpack"),
    ],
)
def test_members_that_could_do_harm_are_refused(
    make: Callable[..., Path], entry: Entry, words: str, tmp_path: Path
) -> None:
    if entry[0] == "good" and make is make_zip:
        with pytest.warns(UserWarning, match="Duplicate"):
            archive = make(tmp_path / "archive", ("good", b"x"), entry)
    else:
        archive = make(tmp_path / "archive", ("good", b"x"), entry)
    with pytest.raises(NetgrainError, match=re.escape(words)):
        extract(archive, tmp_path / "deep" / "out")
    assert [str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*")] in (["archive", "deep"], ["deep", "archive"])


@both
def test_bombs_are_refused(make: Callable[..., Path], tmp_path: Path) -> None:
    archive = make(tmp_path / "archive", *((f"f{i}", bytes(10**6)) for i in range(5)))
    assert archive.stat().st_size < 10**5
    with pytest.raises(NetgrainError, match="expected at most 4000000 bytes unpacked, found 5000000"):
        extract(archive, tmp_path / "out", most=4_000_000)
    with pytest.raises(NetgrainError, match="too many members: expected at most 4"):
        extract(archive, tmp_path / "out", most_members=4)
    assert [p.name for p in tmp_path.iterdir()] == ["archive"]
    extract(archive, tmp_path / "out", most=5_000_000, most_members=5)


def test_a_bomb_in_the_headers_of_a_tar_file_is_refused(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "archive", "w:gz", format=tarfile.PAX_FORMAT) as tar:
        info = tarfile.TarInfo("x")
        info.pax_headers = {"comment": "a" * 80_000_000}
        tar.addfile(info)
    with pytest.raises(NetgrainError, match="unpacks to more than is allowed"):
        extract(tmp_path / "archive", tmp_path / "out", most=1000)


@both
def test_damaged_archives_leave_nothing(make: Callable[..., Path], tmp_path: Path) -> None:
    noise = np.random.default_rng(0).bytes(200_000)
    whole = make(tmp_path / "archive", ("x", noise), ("y", noise)).read_bytes()
    (tmp_path / "archive").write_bytes(whole[: len(whole) // 3])
    with pytest.raises(NetgrainError, match=r"truncated|damaged"):
        extract(tmp_path / "archive", tmp_path / "out")
    (tmp_path / "archive").write_bytes(b"hello")
    with pytest.raises(NetgrainError, match=r"neither a \.tar\.gz nor a \.zip"):
        extract(tmp_path / "archive", tmp_path / "out")
    assert [p.name for p in tmp_path.iterdir()] == ["archive"]


def test_the_reader_of_one_binary_file(tmp_path: Path) -> None:
    (tmp_path / "b.bin").write_bytes(b"\x07" + bytes(1024) + b"\x01" * 1024 + b"\x02" * 1024)
    images, labels = read_cifar_binary(tmp_path / "b.bin", records=1)
    assert labels.tolist() == [7]
    assert images[0].float().mean((1, 2)).tolist() == [0, 1, 2]  # red, green, blue plane
