"""Files that a user brings: arrays, classic image sets, folders of images, archives."""

from __future__ import annotations

import gzip
import io
import struct
import tarfile
import zipfile
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from netgrain.runtime.errors import NetgrainError
from tests.fuzzing.rules import Failure, Random, Target, check_sentence, each, untouched
from tests.fuzzing.spoiling import mutated


def _npy(array: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=True)
    return buffer.getvalue()


def _npy_claiming(shape: str, dtype: str, content: bytes) -> bytes:
    header = f"{{'descr': {dtype}, 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + content


SHAPES = (
    "()",
    "(0,)",
    "(4,)",
    "(2, 2)",
    "(4, -1)",
    "(2**40,)",
    "(1099511627776,)",
    "(4294967296, 4294967296)",
    "(4.0,)",
)
DTYPES = (
    *("'<f4'", "'>f4'", "'<f8'", "'<f2'", "'<i8'", "'|u1'", "'|b1'", "'|O'", "'<c16'", "'<M8[ns]'", "'<U9'", "'|S0'"),
    *("'<U2147483647'", "'|V8'", "[('a', '<f4')]", "'<f16'", "'x'", "7", "None", "[" * 200 + "]" * 200),
)


def array_bytes(rng: Random, X: bool) -> bytes:
    """A .npy file: sound, of another kind, with another claim, or spoiled."""
    what = rng.random()
    if what < 0.3:
        return _npy_claiming(rng.choice(SHAPES), rng.choice(DTYPES), rng.randbytes(rng.choice((0, 16, 64))))
    sound = np.arange(24, dtype=np.float32).reshape(6, 4) if X else np.array([0, 1, 0, 1, 2, 2])
    kinds: list[Any] = [
        sound,
        sound.astype(rng.choice((">f8", "u1", "i2", "?", "c8", "f2", "U5", "S3", "M8[s]", "O"))),
        sound.reshape(rng.choice(((-1,), (1, -1), (6, -1, 1), (3, 2, -1), (6, -1, 1, 1)))),
        np.where(sound == 1, np.nan, sound),
        np.full(sound.shape, 1e300),
        np.array([]),
        np.array(rng.choice((3.0, "word"))),
        np.zeros((0, 4)),
        np.array([("a", 1.0)], dtype=[("a", "U3"), ("b", "f8")]),
    ]
    content = _npy(rng.choice(kinds))
    return mutated(content, rng) if what < 0.6 else content


def npz_bytes(rng: Random) -> bytes:
    """An archive of arrays: entries of every kind, missing ones, a bomb, other compressions, spoiled as a whole."""
    names = {"X": True, "y": False}
    if rng.random() < 0.3:
        names["features"] = False
    if rng.random() < 0.1:
        del names[rng.choice(sorted(names))]
    buffer = io.BytesIO()
    method = rng.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA))
    with zipfile.ZipFile(buffer, "w", method) as packed:
        for name, X in names.items():
            suffix = "" if rng.random() < 0.05 else ".npy"
            sound = _npy(np.arange(24, dtype=np.float32).reshape(6, 4) if X else np.array([0, 1, 0, 1, 2, 2]))
            packed.writestr(name + suffix, sound if rng.random() < 0.4 else array_bytes(rng, X))
        if rng.random() > 0.98:  # rare, also where a guided fuzzer has no bytes left and every number is 0
            packed.writestr("bomb.npy", bytes(2**24))
    return mutated(buffer.getvalue(), rng) if rng.random() < 0.5 else buffer.getvalue()


def run_npz(content: bytes, folder: Path) -> bool:
    from netgrain.data import load
    from netgrain.data.arrays import read_tensors

    file = folder / "a.npz"
    file.write_bytes(content)
    with untouched(folder):
        return each(
            lambda: load(file),
            lambda: load(file, limit=3, standardise=False),
            lambda: read_tensors(file, "X", "y"),
        )


def run_npy(content: bytes, folder: Path) -> bool:
    from netgrain.cli.parsing import parse_probe
    from netgrain.data.arrays import read_tensors

    file = folder / "a.npy"
    file.write_bytes(content)
    with untouched(folder):
        return each(lambda: read_tensors(file, "signal"), lambda: parse_probe(f"data:{file}"))


def _idx(array: np.ndarray) -> bytes:
    return bytes((0, 0, 8, array.ndim)) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


def draw_idx(rng: Random) -> tuple[bytes, bytes]:
    pair = [_idx(np.arange(6 * 16, dtype=np.uint8).reshape(6, 4, 4)), _idx(np.arange(6, dtype=np.uint8))]
    which = rng.randrange(2)
    if rng.random() < 0.7:
        pair[which] = mutated(pair[which], rng)
    if rng.random() < 0.5:
        pair[which] = gzip.compress(pair[which], mtime=0)
        if rng.random() < 0.5:
            pair[which] = mutated(pair[which], rng)
    if rng.random() > 0.99:
        pair[which] = gzip.compress(pair[which][:16] + bytes(2**26), 9, mtime=0)
    return pair[0], pair[1]


def run_idx(pair: tuple[bytes, bytes], folder: Path) -> bool:
    from netgrain.data import load_split
    from netgrain.data.image_files import read_mnist_pair

    inside = folder / "mnist"
    inside.mkdir()
    files = [inside / f"{part}-{kind}-ubyte" for part in ("train", "t10k") for kind in ("images-idx3", "labels-idx1")]
    for file, content in zip(files, pair * 2, strict=True):
        file.write_bytes(content)
    with untouched(folder):
        read_mnist_pair(files[0], files[1])
        load_split("mnist", folder, official=False)
    return True


def _cifar_python() -> bytes:
    import pickle

    X = np.arange(2 * 3072, dtype=np.uint8).reshape(2, 3072)
    return pickle.dumps({b"data": X, b"labels": [3, 9], b"batch_label": b"one"}, protocol=2)


def run_cifar(content: bytes, folder: Path, python: bool) -> bool:
    from netgrain.data.image_files import read_cifar_binary, read_cifar_python

    file = folder / "data_batch_1"
    file.write_bytes(content)
    with untouched(folder):
        (read_cifar_python if python else read_cifar_binary)(file)
    return True


@cache
def picture(kind: str, mode: str) -> bytes:
    from PIL import Image

    buffer = io.BytesIO()
    pixels = np.arange(64, dtype=np.uint8).reshape(8, 8)
    Image.fromarray(pixels).convert(mode).save(buffer, kind)
    return buffer.getvalue()


def draw_picture(rng: Random) -> tuple[bytes, bool, int | None]:
    kinds = [("PNG", "L"), ("PNG", "RGB"), ("PNG", "P"), ("PNG", "1"), ("PNG", "LA"), ("PNG", "RGBA"), ("PNG", "I;16")]
    kinds += [
        ("JPEG", "L"),
        ("JPEG", "RGB"),
        ("JPEG", "CMYK"),
        ("GIF", "P"),
        ("BMP", "RGB"),
        ("TIFF", "F"),
        ("PPM", "L"),
    ]
    content = picture(*rng.choice(kinds))
    content = mutated(content, rng) if rng.random() < 0.85 else content
    return content, rng.random() < 0.3, rng.choice((None, None, 4, 3))


def run_folder(value: tuple[bytes, bool, int | None], folder: Path) -> bool:
    from netgrain.data import load

    content, strict, size = value
    for name, image in (
        ("cat/1.png", picture("PNG", "L")),
        ("dog/1.png", picture("PNG", "L")),
        ("dog/2.png", content),
    ):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(image)
    with untouched(folder):
        load(folder, strict=strict, size=size)
    return True


CELLS = (*("1", "2.5", "-3e9", "1e999", "", "NA", "nan", "inf", "cat", "dog", "True", "none", "é", "9" * 400),)
HEADS = ("a", "b", "label", "y", "", "1", "a", "Target", "class=x", "id")


def draw_csv(rng: Random) -> tuple[bytes, str | None, str | None]:
    """A table of a few rows: sound or not, with a label column that may be missing."""
    separator = rng.choice((",", ",", ";", "\t"))
    width, sound = rng.choice((3, 3, 2, 1)), rng.random() < 0.7
    lines = [[rng.choice(HEADS) if not sound else f"{'abc'[j]}" for j in range(width)]]
    for i in range(rng.choice((30, 30, 6, 1, 0))):
        lines.append([str(i % (j + 2)) if sound else rng.choice(CELLS) for j in range(width)])
        if rng.random() > 0.98:
            lines[-1].append("1")
    content = "\n".join(separator.join(line) for line in lines).encode()
    content = mutated(content, rng) if rng.random() > 0.7 else content
    target = rng.choice((None, None, "classes", "numbers", "none"))
    return content, rng.choice((None, None, "a", "b", "no")), target


def run_csv(value: tuple[bytes, str | None, str | None], folder: Path) -> bool:
    from netgrain.data import load

    content, label, target = value
    (folder / "own.csv").write_bytes(content)
    with untouched(folder):
        load(folder / "own.csv", label=label, target=target)  # type: ignore[arg-type]
    return True


@cache
def parquet(pictures: bool) -> bytes:
    import pyarrow
    import pyarrow.parquet

    columns: dict[str, list[Any]] = {"a": [1.5, 2.5, 3.5] * 4, "w": ["x", "y", "z"] * 4, "v": [[1, 2]] * 12}
    if pictures:
        columns = {"image": [{"bytes": picture("PNG", "L"), "path": "a.png"}] * 12}
    sink = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.table(columns | {"label": [0, 1, 2] * 4}), sink)
    return sink.getvalue()


def draw_parquet(rng: Random) -> bytes:
    content = parquet(rng.random() < 0.5)
    return content if rng.random() < 0.3 else mutated(content, rng)


def run_parquet(content: bytes, folder: Path) -> bool:
    from netgrain.data import load

    (folder / "own.parquet").write_bytes(content)
    with untouched(folder):
        load(folder / "own.parquet")
    return True


def draw_archive(rng: Random) -> bytes:
    names = rng.sample(("a", "in/b", "c", "é", "in/d"), 3)
    if rng.random() < 0.3:
        names.append(rng.choice(("../up", "/abs", "a", "in", "c\\d", "x" * 300, ".")))
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name in names:
            info = tarfile.TarInfo(name)
            info.type = rng.choice((tarfile.REGTYPE,) * 30 + (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE))
            info.size = 7 if info.isreg() else 0
            tar.addfile(info, io.BytesIO(b"content"))
    content = mutated(buffer.getvalue(), rng) if rng.random() < 0.6 else buffer.getvalue()
    packed_bytes = gzip.compress(content, mtime=0)
    return mutated(packed_bytes, rng) if rng.random() < 0.4 else packed_bytes


def run_archive(content: bytes, folder: Path) -> bool:
    from netgrain.data.download import extract

    (folder / "archive").write_bytes(content)
    try:
        extract(folder / "archive", folder / "deep" / "out", most=2**20)
        accepted = True
    except NetgrainError as e:
        check_sentence(str(e))
        accepted = False
    outside = [p for p in folder.rglob("*") if p.name != "archive" and not p.is_relative_to(folder / "deep" / "out")]
    if [p for p in outside if p != folder / "deep"] or (accepted and any(p.is_symlink() for p in folder.rglob("*"))):
        raise Failure(f"left behind: {outside[:5]}")
    return accepted


def _draw_cifar(rng: Random) -> bytes:
    sound = bytes([3, *bytes(3072), 9, *bytes(3072)])
    return mutated(sound, rng) if rng.random() < 0.9 else sound


TARGETS = (
    Target("cifar binary", _draw_cifar, lambda v, f: run_cifar(v, f, False)),
    Target("cifar python", lambda rng: mutated(_cifar_python(), rng), lambda v, f: run_cifar(v, f, True)),
    Target("idx", draw_idx, run_idx),
    Target("npz", npz_bytes, run_npz),
    Target("npy", lambda rng: array_bytes(rng, True), run_npy),
    Target("image folder", draw_picture, run_folder),
    Target("csv", draw_csv, run_csv),
    Target("parquet", draw_parquet, run_parquet),
    Target("archive", draw_archive, run_archive),
)
