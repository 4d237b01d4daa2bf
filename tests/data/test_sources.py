"""The one door to data."""

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from netgrain.data import load, load_split
from netgrain.data.dataset import Dataset
from netgrain.data.sources import load_with_test
from netgrain.runtime.errors import GrainWarning, NetgrainError

# what is in the file, before it is standardised
read = partial(load, standardise=False)

TABLE = np.array([[0.0, 1.0], [2.0, 5.0], [1.0, 3.0]])


def npz(folder: Path, **arrays: Any) -> Path:
    np.savez(folder / "own.npz", **arrays)
    return folder / "own.npz"


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


def test_the_one_standardisation_unless_asked_otherwise(tmp_path: Path) -> None:
    table = npz(tmp_path, X=TABLE, y=[0, 1, 1])
    for data in (load(table), load(TABLE, [0, 1, 1]), load([(x, i % 2) for i, x in enumerate(TABLE)])):
        assert torch.allclose(data.X.mean(0), torch.zeros(2), atol=1e-6)
        assert torch.allclose(data.X.std(0, correction=0), torch.ones(2))
        assert data.note.endswith("standardised per feature")
    assert torch.equal(load(table, standardise=False).X, torch.tensor(TABLE, dtype=torch.float32))


def test_a_name_is_the_training_part() -> None:
    data, split = load("digits", limit=30, seed=1), load_split("digits", limit=30, seed=1)
    assert torch.equal(data.X, split.train.X)
    assert data.name == "digits train"


def test_one_class_is_data_too() -> None:
    assert load(TABLE, [4, 4, 4]).classes == ("4",)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("a.npy", r"\.npy files are not read: save your data with np\.savez"),
        ("b.npz", r"b\.npz is not a file; save your data"),
        ("b.csv", r"b\.csv is not a file; save your data"),
        ("nowhere/", r"there is no folder .*nowhere; expected digits, .* FILE\.npz .* or FOLDER/"),
        ("n" * 300 + ".npz", "is not a file"),
        ("a\0b.npz", "is not a file"),
        ("digitz", "data set 'digitz' is not known; did you mean 'digits'"),
    ],
)
def test_other_sources_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, said: str) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.npy").write_text("1,2")
    with pytest.raises(NetgrainError, match=said):
        load(name)


def test_nobody_s_home_is_no_folder() -> None:
    with pytest.raises(NetgrainError, match="is not a file"):
        load("~nobody-here/a.npz")


@pytest.mark.parametrize("count", [0, -1, True, 2.0])
def test_counts_are_positive_whole_numbers(count: Any) -> None:
    for name in ("limit", "size"):
        with pytest.raises(NetgrainError, match=f"{name} expects a whole number from 1 upwards, found {count}"):
            load("digits", **{name: count})


def test_channels_target_and_labels_of_any_source() -> None:
    assert load("digits", limit=9, channels=3, standardise=False).note == (
        "pixels divided by 16; grey repeated in three channels"
    )
    assert load("digits", limit=9, target="none").target == "none"
    numbers, classes = (load("digits", limit=9, target=target) for target in ("numbers", None))
    assert numbers.y.tolist() == classes.y.tolist()
    assert numbers.target == "numbers"
    with pytest.raises(NetgrainError, match="channels expects images of shape"):
        load(TABLE, [0, 1, 1], channels=3)
    with pytest.raises(NetgrainError, match=r"label .* names the column of a table .* but digits is a set of images"):
        load("digits", label="digit")
    with pytest.raises(NetgrainError, match="target 'number' is not known; did you mean 'numbers'"):
        load("digits", target="number")  # type: ignore[arg-type]


# --- with the test part -----------------------------------------------------------------------------------------------


def test_a_test_part_comes_along_and_is_scaled_like_the_training_part(tmp_path: Path) -> None:
    X, y = np.arange(12.0).reshape(6, 2), np.arange(6) % 2
    file = npz(tmp_path, X_train=X, y_train=y, X_test=X[:3] + 100, y_test=y[:3])
    train, test = load_with_test(file)
    assert test is not None
    assert torch.equal(train.X, load(file).X)
    split = load_split(file)
    assert torch.equal(test.X, split.test.X)
    assert float(test.X.mean()) > 10  # by the statistics of the training part
    raw = load_with_test(file, standardise=False, limit=2)[1]
    assert raw is not None
    assert len(raw) == 2
    assert float(raw.X.min()) >= 100


def test_without_a_test_part_there_is_none(tmp_path: Path) -> None:
    train, test = load_with_test(npz(tmp_path, X=TABLE, y=np.array([0, 1, 0])))
    assert test is None
    assert len(train) == 3


def test_a_test_part_that_does_not_fit_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = [Dataset(torch.randn(4, n), torch.arange(4) % 2) for n in (2, 3)]
    monkeypatch.setattr("netgrain.data.sources._parts", lambda *_: parts)
    with pytest.warns(GrainWarning, match="the test part of own.npz is left out: the training samples have shape"):
        train, test = load_with_test("own.npz")
    assert (len(train), test) == (4, None)
