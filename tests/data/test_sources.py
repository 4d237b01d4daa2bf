"""What a user brings: files, folders, data sets, tensors; hand-known numbers, and a sentence for what is wrong."""

import os
import pickle
import random
import struct
import warnings
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from netgrain.data import Dataset
from netgrain.data.arrays import read_arrays
from netgrain.data.folders import area_resized
from netgrain.data.sources import from_dataset, from_tensors, normalised, read
from netgrain.runtime.errors import GrainWarning, NetgrainError

TABLE = np.array([[0.0, 1.0], [2.0, 5.0], [1.0, 3.0]])


def npz(folder: Path, **arrays: Any) -> Path:
    np.savez(folder / "own.npz", **arrays)
    return folder / "own.npz"


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


# --- npz and tensors -------------------------------------------------------------------------------------------


def test_words_become_sorted_classes(tmp_path: Path) -> None:
    data = read(npz(tmp_path, X=TABLE, y=np.array(["dog", "dog", "cat"]), features=np.array(["age", "size"])))
    assert data.classes == ("cat", "dog")
    assert data.y.tolist() == [1, 1, 0]
    assert torch.equal(data.X, torch.tensor(TABLE, dtype=torch.float32))
    assert (data.name, data.note, data.features) == ("own.npz", "as given", ("age", "size"))
    assert normalised(data).features == ("age", "size")  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("y", "labels", "classes"),
    [
        ([-1, 1, 1], [0, 1, 1], ("-1", "1")),
        ([3.0, 7.0, 7.0], [0, 1, 1], ("3", "7")),
        ([True, True, False], [1, 1, 0], ("False", "True")),
        ([[0], [1], [1]], [0, 1, 1], ("0", "1")),
        (np.array([b"b", b"b", b"a"]), [1, 1, 0], ("a", "b")),
    ],
)
def test_labels_of_every_kind(y: Any, labels: list[int], classes: tuple[str, ...]) -> None:
    data = from_tensors(TABLE, y)
    assert data.y.tolist() == labels
    assert data.classes == classes


def test_whole_number_images_are_divided(tmp_path: Path) -> None:
    X = np.array([[[0, 51], [102, 255]], [[255, 0], [0, 0]]], np.uint8)
    grey = read(npz(tmp_path, X=X, y=[0, 1]))
    assert grey.shape == (1, 2, 2)
    assert grey.note == "pixels divided by 255"
    assert torch.allclose(grey.X[0, 0], torch.tensor([[0.0, 0.2], [0.4, 1.0]]))
    last = np.arange(2 * 4 * 4 * 3, dtype=np.uint8).reshape(2, 4, 4, 3)
    colour = from_tensors(last, [0, 1])
    assert torch.allclose(colour.X * 255, torch.tensor(last).permute(0, 3, 1, 2).float(), atol=1e-4)
    assert colour.note == "pixels divided by 255; channels moved from last to first"
    assert from_tensors(X // 255, [0, 1]).note == "0 and 1 as given"
    assert from_tensors(np.array([[300, 1], [2, -5]]), [0, 1]).X.tolist() == [[300, 1], [2, -5]]  # a table


def test_limit_and_size(tmp_path: Path) -> None:
    X = np.random.default_rng(0).random((20, 1, 4, 4))
    file = npz(tmp_path, X=X, y=np.arange(20) % 2)
    data = read(file, limit=8, seed=1, size=2)
    assert len(data) == 8
    assert data.shape == (1, 2, 2)
    assert data.note == "area-averaged from 4 × 4 to 2 × 2"
    assert torch.equal(data.X, read(file, limit=8, seed=1, size=2).X)
    assert not torch.equal(data.X, read(file, limit=8, seed=2, size=2).X)
    blocks = torch.tensor(X).float().reshape(20, 1, 2, 2, 2, 2).mean((3, 5))
    assert torch.allclose(read(file, size=2).X, blocks, atol=1e-6)


def test_area_resizing_keeps_the_mean_and_a_constant() -> None:
    X = torch.rand(2, 3, 7, 5, generator=torch.Generator().manual_seed(0))
    for size in (1, 3, 4, 9):
        assert torch.allclose(area_resized(X, size).mean((2, 3)), X.mean((2, 3)), atol=1e-6)
        assert torch.allclose(area_resized(torch.ones_like(X), size), torch.ones(2, 3, size, size))


@pytest.mark.parametrize(
    ("arrays", "said"),
    [
        ({"X": TABLE, "y": [0, 1]}, r"X has 3 samples, y has shape \(2,\)"),
        ({"X": TABLE}, r"no array y \(arrays found: X\)"),
        ({"X": TABLE, "y": [4, 4, 4]}, "all 3 samples have the class '4'; expected at least two"),
        ({"X": [[1.0, 2.0], [np.nan, np.inf], [0.0, np.nan]], "y": [0, 1, 1]}, r"3 numbers .* \(2 NaN, 1 Inf\), the"),
        ({"X": [[1.0, 2.0], [0.0, np.inf], [0.0, 1.0]], "y": [0, 1, 1]}, "the first in sample 1 at entry 1;"),
        ({"X": [[[[1.0, np.nan]]], [[[0.0, 1.0]]]], "y": [0, 1]}, r"sample 0 at entry \(0, 0, 1\)"),
        ({"X": np.array([[1, "a"]], object), "y": [0]}, "the array X holds Python objects, and nothing is unpickled"),
        ({"X": TABLE, "y": np.array([0, "a", None], object)}, "the array y holds Python objects"),
        ({"X": TABLE, "y": [0.5, 1, 2]}, "label 0 is 0.5; expected classes"),
        ({"X": TABLE[0], "y": [0, 1]}, r"X has shape \(2,\); expected \(samples, …\)"),
        ({"X": np.array([["a"], ["b"]]), "y": [0, 1]}, "encode words as numbers"),
        ({"X": np.full((2, 1, 2, 2), 300), "y": [0, 1]}, "whole numbers from 300 to 300, expected 0 to 255"),
        ({"X": TABLE, "y": [0, 1, 1], "features": ["a"]}, "1 feature names came with samples of 2 entries"),
        ({"X": TABLE, "y": [0, 1, 1], "features": "a"}, "1 feature names came with samples of 2 entries"),
        ({"X": TABLE, "y": np.array([0, 1, 0.5], np.float16)}, "label 2 is 0.5; expected classes"),
        ({"X": TABLE, "y": [0, 1, 1e300]}, "label 2 is 1e[+]300; expected classes"),
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


def test_other_sources_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("1,2")
    for name, said in (("a.csv", "is neither"), ("b.npz", "is not there")):
        with pytest.raises(NetgrainError, match=rf"expected FILE.npz .*{name} {said}"):
            read(tmp_path / name)
    (tmp_path / "c.npz").write_bytes(b"PK\x03\x04 not a zip")
    with pytest.raises(NetgrainError, match=r"c.npz cannot be read"):
        read(tmp_path / "c.npz")
    np.save(tmp_path / "d.npy", TABLE)
    (tmp_path / "d.npy").rename(tmp_path / "d.npz")
    with pytest.raises(NetgrainError, match=r"d.npz cannot be read \(it is no archive of arrays\)"):
        read(tmp_path / "d.npz")
    with pytest.raises(NetgrainError, match="limit as a positive whole number, found 0"):
        read(tmp_path, limit=0)
    for name in ("n" * 300 + ".npz", "~nobody-here/a.npz", "a\0b.npz"):
        with pytest.raises(NetgrainError, match=r"expected FILE.npz .* is not there"):
            read(name)


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
    with pytest.raises(NetgrainError, match=r"a\.npz cannot be read"):
        read(tmp_path / "a.npz")
    for file, names in (("a.npz", ("X", "y")), ("a.npy", ("signal",))):
        with pytest.raises(NetgrainError, match=rf"{file} cannot be read as numbers"):
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
        with pytest.raises(NetgrainError, match=r"cannot be read|y has shape"):
            read(file)
    assert len(said) > 10
    assert all("cannot be read as numbers" in words for words in said)


def test_constant_features_are_a_warning() -> None:
    X = torch.tensor([[1.0, 2.0, 5.0], [1.0, 3.0, 5.0]])
    with pytest.warns(GrainWarning, match=r"2 of 3 features are constant .* \(the first is 'age'\)"):
        from_tensors(X, [0, 1], features=["age", "b", "c"])


def test_classes_by_name() -> None:
    assert from_tensors(TABLE, [0, 1, 1], classes=["cat", "dog"]).classes == ("cat", "dog")
    with pytest.raises(NetgrainError, match="class 'owl' has no samples"):
        from_tensors(TABLE, [0, 1, 1], classes=["cat", "dog", "owl"])
    with pytest.raises(NetgrainError, match="labels are 0 to 2; expected 0 to 1 for the 2 classes"):
        from_tensors(TABLE, [0, 1, 2], classes=["cat", "dog"])


def test_tensors_are_left_as_found() -> None:
    X = torch.tensor(TABLE, requires_grad=True)
    before = X.detach().clone()
    normalised(from_tensors(X, [0, 1, 1]))
    assert torch.equal(X.detach(), before)
    assert X.requires_grad


# --- folders ---------------------------------------------------------------------------------------------------


def test_a_folder_by_class(pets: Path) -> None:
    data = read(pets)
    assert data.classes == ("cat", "dog")
    assert data.shape == (1, 2, 2)
    assert data.y.tolist() == [0, 0, 1, 1]
    assert torch.allclose(data.X[:, 0, 1, 1] * 255, torch.tensor([100.0, 150.0, 0.0, 50.0]))
    assert data.note == "pixels divided by 255"


@pytest.fixture(autouse=True)
def constant_pixels_are_fine() -> Any:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*features are constant.*", GrainWarning)
        yield


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


def test_sizes_must_agree_or_are_averaged(pets: Path) -> None:
    picture(pets / "dog" / "wide.png", [[0, 0, 30, 90], [0, 0, 30, 90]])
    with pytest.raises(NetgrainError, match=r"wide.png is 2 × 4 pixels, .*0.png is 2 × 2; .*size=N"):
        read(pets)
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
    assert data.note.endswith("4 grey images made colour")


def test_sixteen_bit_grey_is_scaled_not_clipped(tmp_path: Path) -> None:
    for kind, value in (("a", 65535), ("b", 32896)):
        (tmp_path / kind).mkdir()
        Image.fromarray(np.full((2, 2), value, np.uint16)).save(tmp_path / kind / "1.png")
    assert (read(tmp_path).X[:, 0, 0, 0] * 255).round().tolist() == [255.0, 128.0]


def test_folders_without_images(tmp_path: Path) -> None:
    with pytest.raises(NetgrainError, match="holds nothing; expected one folder for each class"):
        read(tmp_path)
    picture(tmp_path / "1.png", [[1, 2]])
    with pytest.raises(NetgrainError, match="holds 1 files and no folders"):
        read(tmp_path)
    picture(tmp_path / "cat" / "1.png", [[1, 2]])
    with pytest.raises(NetgrainError, match="all 1 samples have the class 'cat'"):
        read(tmp_path)
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


# --- data sets ------------------------------------------------------------------------------------------------


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
    data = from_dataset(Shapes(pil), limit=5, seed=3)
    assert torch.equal(torch.get_rng_state(), state)
    assert random.getstate() == python_state
    assert np.random.get_state()[1].tolist() == numpy_state
    assert data.shape == (1, 2, 3)
    assert data.classes == ("zero", "two")  # no sample of class one
    assert len(data) == 5
    assert float(data.X.max()) <= 1
    assert torch.equal(data.X, from_dataset(Shapes(pil), limit=5, seed=3).X)
    assert from_dataset(Shapes(pil, words=True), seed=3).classes == ("two", "zero")


def test_what_is_wrong_with_a_data_set() -> None:
    with pytest.raises(NetgrainError, match="expected a data set with len"):
        from_dataset(iter([1]))
    with pytest.raises(NetgrainError, match="found one of length 0"):
        from_dataset([])
    with pytest.raises(NetgrainError, match=r"sample 0 was expected to be a pair .* found tuple of length 3"):
        from_dataset([(1, 2, 3)])
    with pytest.raises(NetgrainError, match=r"sample 1 has shape \(2,\), the first one read \(3,\)"):
        from_dataset([(torch.zeros(3), 0), (torch.zeros(2), 1)])


# --- normalisation --------------------------------------------------------------------------------------------


def test_normalised_images_have_standard_channels() -> None:
    X = torch.rand(8, 2, 3, 3, generator=torch.Generator().manual_seed(0)) * torch.tensor([1.0, 9.0])[:, None, None]
    data = normalised(Dataset(X + 5, torch.arange(8) % 2, note="pixels divided by 255"))
    assert torch.allclose(data.X.mean((0, 2, 3)), torch.zeros(2), atol=1e-6)
    assert torch.allclose(data.X.std((0, 2, 3), unbiased=False), torch.ones(2), atol=1e-6)
    assert data.note.startswith("pixels divided by 255; standardised per channel: mean 5.")
    # one scale for each channel: pixels keep their relations
    ratio = (data.X[:, 0] - data.X[0, 0, 0, 0]) / (X[:, 0] - X[0, 0, 0, 0])
    assert float(ratio.nan_to_num(0).max()) == pytest.approx(float(ratio.flatten()[1]), rel=1e-3)


def test_normalised_tables_and_a_constant_third() -> None:
    X = torch.tensor([[1.0, 0.1], [2.0, 0.1], [6.0, 0.1]])
    data = normalised(Dataset(X, torch.tensor([0, 1, 1])))
    expected = torch.tensor([-2.0, -1.0, 3.0]) / (14 / 3) ** 0.5
    assert torch.allclose(data.X[:, 0], expected)
    assert data.X[:, 1].tolist() == [0.0, 0.0, 0.0]
    assert normalised(data).X.allclose(data.X, atol=1e-6)  # standardising twice is standardising once
