"""The file formats of the classic image sets, read with every number checked and nothing executed."""

from __future__ import annotations

import gzip
import io
import math
import pickle
import pickletools
import warnings
import zlib
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from netgrain.runtime.errors import NetgrainError

SIDE = 32  # CIFAR images are 3 × 32 × 32
PIXELS = 3 * SIDE * SIDE
RECORD = 1 + PIXELS  # one label, then the red, green and blue plane
LARGEST = 256 * 2**20  # bytes of one decoded file; the largest official one has 47 million

Labelled = tuple[Tensor, Tensor]  # images (samples, channels, height, width) uint8, labels (samples,) int64


class _Bytes(Protocol):
    def read(self, size: int, /) -> bytes: ...


# --- idx: MNIST and its relatives -----------------------------------------------------------------------------


def read_idx(path: str | Path, *, dimensions: int, most: int = LARGEST) -> Tensor:
    """The uint8 array of an idx file, plain or gzip-compressed: magic, dimensions and length must agree.

    Not more than the announced bytes (and never more than `most`) are decompressed.
    """
    path = Path(path)
    try:
        with path.open("rb") as raw:
            if raw.read(2) != b"\x1f\x8b":
                raw.seek(0)
                return _idx(raw, path, dimensions, most)
            raw.seek(0)
            with gzip.GzipFile(fileobj=raw) as unpacked:
                return _idx(unpacked, path, dimensions, most)
    except (EOFError, gzip.BadGzipFile, zlib.error) as e:
        raise NetgrainError(
            f"{path} ({path.stat().st_size} bytes) is a truncated or damaged gzip file ({e}); get it again."
        ) from e
    except OSError as e:
        raise NetgrainError(f"cannot read {path}: {e.strerror}.") from e


def _idx(stream: _Bytes, path: Path, dimensions: int, most: int) -> Tensor:
    head = 4 + 4 * dimensions
    header = stream.read(head)
    if header[:4] != bytes((0, 0, 8, dimensions)):
        raise NetgrainError(
            f"{path} is not an idx file of bytes with {dimensions} dimension{'s' * (dimensions != 1)}: "
            f"expected magic {bytes((0, 0, 8, dimensions)).hex()}, found {header[:4].hex() or 'an empty file'}."
        )
    if len(header) < head:
        raise NetgrainError(f"{path} is truncated: expected {head} bytes of header, found {len(header)}.")
    shape = [int.from_bytes(header[at : at + 4], "big") for at in range(4, head, 4)]
    size = math.prod(shape)
    if size > most or size == 0:
        raise NetgrainError(f"{path} declares shape {tuple(shape)}, {size} bytes; expected between 1 and {most}.")
    content = stream.read(size + 1)
    if len(content) != size:
        found = f"{head + len(content)}" if len(content) < size else "more"
        raise NetgrainError(
            f"{path} has the wrong size: expected {head + size} bytes for {tuple(shape)}, found {found}; get it again."
        )
    return torch.from_numpy(np.frombuffer(content, np.uint8).copy()).reshape(shape)


# --- CIFAR-10, binary layout ----------------------------------------------------------------------------------


def read_cifar_binary(path: str | Path, *, records: int | None = None) -> Labelled:
    """One batch file: records of one label byte and 3,072 pixels; records=None accepts any whole number of them."""
    path = Path(path)
    found = _size(path)
    if (records is not None and found != records * RECORD) or found % RECORD or not 0 < found <= LARGEST:
        expected = f"{records * RECORD} bytes ({records} images)" if records else f"a multiple of {RECORD} bytes"
        raise NetgrainError(f"{path} has the wrong size: expected {expected}, found {found}; get it again.")
    rows = torch.from_numpy(np.frombuffer(path.read_bytes(), np.uint8).copy()).reshape(-1, RECORD)
    return rows[:, 1:].reshape(-1, 3, SIDE, SIDE), _checked_labels(rows[:, 0].long(), path)


# --- CIFAR-10, python layout ----------------------------------------------------------------------------------


def read_cifar_python(path: str | Path, *, records: int | None = None) -> Labelled:
    """One batch file of the python layout: a pickle, of which only a dictionary with bytes and numbers is accepted.

    No object of the pickle's choosing is made: the few names that a NumPy array needs are replaced by stand-ins
    that keep the bytes, every other name is refused.
    """
    path = Path(path)
    size = _size(path)
    if not 0 < size <= LARGEST:
        raise NetgrainError(f"{path} has the wrong size: expected 1 to {LARGEST} bytes, found {size}.")
    try:
        content = path.read_bytes()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about odd escapes in damaged text
            _check_memo(content)
            batch = _PlainUnpickler(io.BytesIO(content), encoding="bytes").load()
    except _Refused as e:
        raise NetgrainError(
            f"{path} asks for {e}, which no CIFAR-10 file needs; it was not executed. Download it from its authors."
        ) from e
    except (
        *(pickle.UnpicklingError, EOFError, ValueError, TypeError, AttributeError, LookupError, ImportError),
        *(MemoryError, OverflowError, RecursionError),
    ) as e:
        raise NetgrainError(
            f"{path} ({size} bytes) is a truncated or damaged CIFAR-10 batch ({type(e).__name__}); get it again."
        ) from e
    if not isinstance(batch, dict):
        raise NetgrainError(f"{path} holds a {type(batch).__name__}, expected a dictionary with data and labels.")
    data = batch.get(b"data", batch.get("data"))
    labels = batch.get(b"labels", batch.get("labels"))
    if not isinstance(data, _Array) or not isinstance(labels, list):
        raise NetgrainError(f"{path} is not a CIFAR-10 batch: expected an array 'data' and a list 'labels'.")
    rows = data.rows(path)
    if records is not None and len(rows) != records:
        raise NetgrainError(f"{path} has the wrong size: expected {records} images, found {len(rows)}; get it again.")
    if len(labels) != len(rows) or not all(type(label) is int and 0 <= label < 256 for label in labels):
        raise NetgrainError(
            f"{path} is not a CIFAR-10 batch: expected {len(rows)} whole-number labels from 0 to 9, found {len(labels)}"
            " entries that are something else."
        )
    return rows.reshape(-1, 3, SIDE, SIDE), _checked_labels(torch.tensor(labels), path)


class _Refused(Exception):
    """A name that the pickle may not have."""


# Each stand-in has a __setstate__, so that a pickle's BUILD instruction cannot set attributes on the class itself.


class _Dtype:
    """Stands for numpy.dtype: remembers which one was meant."""

    def __init__(self, code: object = None, *flags: object) -> None:
        self.code = code

    def __setstate__(self, state: object) -> None:
        """Byte order and field tables do not matter for bytes."""


class _Array:
    """Stands for numpy.ndarray: keeps what the array would be built from."""

    state: object = None

    def __setstate__(self, state: object) -> None:
        self.state = state

    def rows(self, path: Path) -> Tensor:
        """The array, if it is (images, 3072) of uint8 in C order."""
        state = self.state
        if isinstance(state, tuple) and len(state) == 5:
            _, shape, dtype, fortran, content = state
            if (
                (isinstance(dtype, _Dtype) and dtype.code in ("u1", b"u1", "uint8", b"uint8"))
                and (isinstance(shape, tuple) and len(shape) == 2 and shape[1] == PIXELS)
                and (type(shape[0]) is int and shape[0] > 0 and not fortran)
                and (isinstance(content, bytes) and len(content) == shape[0] * PIXELS)
            ):
                return torch.from_numpy(np.frombuffer(content, np.uint8).copy()).reshape(shape[0], PIXELS)
        raise NetgrainError(f"{path} is not a CIFAR-10 batch: expected an array of bytes of shape (images, {PIXELS}).")


class _Reconstruct:
    """Stands for numpy's function that makes an empty array, to be filled later."""

    def __new__(cls, *arguments: object) -> Any:
        return _Array()

    def __setstate__(self, state: object) -> None:
        """Nothing to set."""


class _Encode:
    """Stands for _codecs.encode, with which Python 2 and 3 exchange bytes."""

    def __new__(cls, text: object, encoding: object = "latin1") -> Any:
        if not isinstance(text, str) or encoding not in ("latin1", b"latin1"):
            raise _Refused(f"an encoding {encoding!r}")
        return text.encode("latin1")

    def __setstate__(self, state: object) -> None:
        """Nothing to set."""


_STAND_INS: dict[tuple[str, str], type] = {
    ("numpy.core.multiarray", "_reconstruct"): _Reconstruct,
    ("numpy._core.multiarray", "_reconstruct"): _Reconstruct,
    ("numpy", "ndarray"): _Array,
    ("numpy", "dtype"): _Dtype,
    ("_codecs", "encode"): _Encode,
}


def _check_memo(content: bytes) -> None:
    """Refuse a pickle that numbers what it remembers beyond its own length: memory would be set aside for all of it."""
    for opcode, argument, _ in pickletools.genops(content):
        if "PUT" in opcode.name and isinstance(argument, int) and argument > len(content):
            raise ValueError("memo")


class _PlainUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> type:
        try:
            return _STAND_INS[module, name]
        except KeyError:
            raise _Refused(f"'{module}.{name}'") from None


# --- shared ---------------------------------------------------------------------------------------------------


def _checked_labels(labels: Tensor, path: Path) -> Tensor:
    if int(labels.max()) > 9:
        raise NetgrainError(f"{path} has a label {int(labels.max())}; expected 0 to 9.")
    return labels


def read_mnist_pair(images: Path, labels: Path) -> Labelled:
    """An idx file of images with its idx file of labels."""
    X, y = read_idx(images, dimensions=3), read_idx(labels, dimensions=1)
    if len(X) != len(y):
        raise NetgrainError(f"labels of the wrong length: {images} has {len(X)} images, {labels} has {len(y)} labels.")
    return X.unsqueeze(1), _checked_labels(y.long(), labels)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError as e:
        raise NetgrainError(f"cannot read {path}: {e.strerror}.") from e
