"""Images by class."""

import struct
import zlib
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from netgrain.data import load, load_split
from netgrain.runtime.errors import GrainWarning, NetgrainError

# what is in the file, before it is standardised
read = partial(load, standardise=False)


def picture(path: Path, values: Any, mode: str | None = None) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    image = Image.fromarray(np.asarray(values, np.uint8))
    (image if mode is None else image.convert(mode)).save(path)
    return path


@pytest.fixture
def pets(tmp_path: Path) -> Path:
    """Two classes of two 2 × 2 grey images."""
    for i, kind in enumerate(("dog", "cat")):
        for j in range(2):
            picture(tmp_path / "pets" / kind / f"{j}.png", [[0, 51], [102, 100 * i + 50 * j]])
    return tmp_path / "pets"


def test_a_folder_by_class(pets: Path) -> None:
    data = read(pets)
    assert data.classes == ("cat", "dog")
    assert data.shape == (1, 2, 2)
    assert data.y.tolist() == [0, 0, 1, 1]
    assert torch.allclose(data.X[:, 0, 1, 1] * 255, torch.tensor([100.0, 150.0, 0.0, 50.0]))
    assert data.note == "pixels divided by 255"


def test_hidden_files_and_links_out_are_not_read(pets: Path, tmp_path: Path) -> None:
    picture(tmp_path / "secret" / "x.png", [[9, 9], [9, 9]])
    (pets / "cat" / ".DS_Store").write_text("hidden")
    (pets / ".cache").mkdir()
    (pets / "cat" / "out.png").symlink_to(tmp_path / "secret" / "x.png")
    (pets / "all").symlink_to(tmp_path / "secret")
    (pets / "cat" / "deep").symlink_to(tmp_path / "secret")
    (pets / "dog" / "same.png").symlink_to(pets / "cat" / "0.png")  # a link that stays inside is followed
    data = read(pets)
    assert data.classes == ("cat", "dog")
    assert data.counts == (2, 3)
    assert "2 links out of the folder not followed" in data.note


def test_unreadable_files_are_counted_or_an_error(pets: Path) -> None:
    (pets / "cat" / "notes.txt").write_text("not an image")
    whole = (pets / "cat" / "1.png").read_bytes()
    (pets / "dog" / "half.png").write_bytes(whole[: len(whole) // 2])
    with pytest.warns(GrainWarning, match=r"2 of 6 files could not be read .* the first is cat/notes.txt"):
        data = read(pets)
    assert len(data) == 4
    assert data.note.endswith("2 of 6 files could not be read and were skipped")
    with pytest.raises(NetgrainError, match=r"cat/notes.txt cannot be read as an image \("):
        read(pets, strict=True)


def test_a_decompression_bomb_is_not_decoded(pets: Path) -> None:
    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    for side in (8200, 12_000, 60_000):  # above our limit; where Pillow warns; where Pillow refuses
        header = chunk(b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0))
        (pets / "cat" / "bomb.png").write_bytes(b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", zlib.compress(b"\0")))
        with pytest.raises(NetgrainError, match=r"bomb.png cannot be read .*(more than 67,108,864|exceeds limit)"):
            read(pets, strict=True, size=2)


def test_sizes_become_the_most_common_one_or_that_asked_for(pets: Path) -> None:
    picture(pets / "dog" / "wide.png", [[0, 0, 30, 90], [0, 0, 30, 90]])
    data = read(pets)
    assert data.shape == (1, 2, 2)
    assert (data.X[-1, 0] * 255).round().tolist() == [[0.0, 60.0], [0.0, 60.0]]
    assert data.note == "pixels divided by 255; 1 of 5 images resized to 2 × 2, the most common size"
    data = read(pets, size=1)
    assert data.shape == (1, 1, 1)
    assert float(data.X[-1]) * 255 == pytest.approx(30.0)
    assert data.note == "pixels divided by 255; area-averaged to 1 × 1"


def test_grey_or_colour_goes_by_the_majority(pets: Path) -> None:
    red = np.zeros((2, 2, 3), np.uint8)
    red[..., 0] = 200
    picture(pets / "cat" / "red.png", red)
    data = read(pets)
    assert data.shape == (1, 2, 2)
    assert float(data.X[2, 0, 0, 0]) * 255 == pytest.approx(0.299 * 200, rel=1e-4)
    assert data.note.endswith("1 colour image made grey")
    for i in range(4):
        picture(pets / "dog" / f"red{i}.png", red, "RGBA" if i else None)
    data = read(pets)
    assert data.shape == (3, 2, 2)
    assert data.note.endswith("4 grey images made colour; transparency of 3 images ignored")


def test_sixteen_bit_grey_is_scaled_not_clipped(tmp_path: Path) -> None:
    for kind, value in (("a", 65535), ("b", 32896)):
        (tmp_path / kind).mkdir()
        Image.fromarray(np.full((2, 2), value, np.uint16)).save(tmp_path / kind / "1.png")
    assert (read(tmp_path).X[:, 0, 0, 0] * 255).round().tolist() == [255.0, 128.0]


def test_folders_without_images(tmp_path: Path) -> None:
    with pytest.raises(NetgrainError, match="holds nothing; expected one folder for each class"):
        read(tmp_path)
    (tmp_path / "notes.txt").write_text("x")
    with pytest.raises(NetgrainError, match=r"holds 1 files and no image; expected one folder for each class"):
        read(tmp_path)
    picture(tmp_path / "cat" / "1.png", [[1, 2]])
    assert read(tmp_path).classes == ("cat",)
    (tmp_path / "dog").mkdir()
    with pytest.raises(NetgrainError, match=r"class folder .*dog has no images"):
        read(tmp_path)
    (tmp_path / "dog" / "x").write_text("x")
    with pytest.raises(NetgrainError, match=r"no image of the class 'dog' in .* could be read \(.*dog/x"):
        read(tmp_path)


def test_limit_of_a_folder(pets: Path) -> None:
    state = torch.get_rng_state()
    data = read(pets, limit=3)
    assert len(data) == 3
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.equal(data.X, read(pets, limit=3).X)


def test_images_without_classes(pets: Path) -> None:
    data = read(pets / "cat")
    assert (data.target, data.shape, len(data)) == ("none", (1, 2, 2), 2)
    assert torch.equal(data.X, read(pets).X[:2])
    left_out = read(pets, target="none")
    assert (left_out.y, left_out.note) == (None, "pixels divided by 255; labels left out")
    with pytest.raises(NetgrainError, match=r"cat has no test part; expected X_train"):
        load_split(pets / "cat")


def test_classes_that_are_numbers(pets: Path) -> None:
    for old, new in (("cat", "0.5"), ("dog", "20")):
        (pets / old).rename(pets / new)
    assert read(pets, target="numbers").y.tolist() == [0.5, 0.5, 20, 20]
    (pets / "20").rename(pets / "old")
    with pytest.raises(NetgrainError, match=r"labels of pets are words .'0.5' is the first., which cannot be numbers"):
        read(pets, target="numbers")


@pytest.mark.parametrize(("train", "test", "left"), [("train", "val", ""), ("Training", "test", "validation")])
def test_training_and_test_folders(pets: Path, tmp_path: Path, train: str, test: str, left: str) -> None:
    """The test part takes colour and size from the training part; val/ is used where there is no test/."""
    root = tmp_path / "both"
    root.mkdir()
    pets.rename(root / train)
    for kind in ("cat", "dog"):
        picture(root / test / kind / "1.png", np.full((4, 4, 3), 90))
        if left:
            picture(root / left / kind / "1.png", [[0]])
    data = read(root)
    assert data.classes == ("cat", "dog")
    assert data.note == f"training part, {test}/ is left for testing; pixels divided by 255"
    split = load_split(root, standardise=False)
    assert torch.equal(split.train.X, data.X)
    assert (len(split.test), split.test.shape, split.test.y.tolist()) == (2, (1, 2, 2), [0, 1])
    picture(root / test / "owl" / "1.png", [[0]])
    with pytest.raises(NetgrainError, match=r"has the classes cat, dog and .* has cat, dog, owl; expected the same"):
        load_split(root)


def test_a_class_called_train_is_a_class(pets: Path) -> None:
    picture(pets / "train" / "1.png", [[0, 1], [2, 3]])
    assert read(pets).classes == ("cat", "dog", "train")
