"""Small copies of the files of the image sets."""

import gzip
import struct
from pathlib import Path

import numpy as np

from netgrain.data.set_readers import MNIST_OPENING

BATCHES = ("data_batch_1", "data_batch_2", "data_batch_3", "data_batch_4", "data_batch_5", "test_batch")


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
