"""Which column is what."""

from typing import Any

import numpy as np
import pytest

from netgrain.data.dataset import Dataset
from netgrain.data.tables import datasets_of_tables
from netgrain.data.wanted import Wanted
from netgrain.runtime.errors import NetgrainError

AGE, SIZE = np.array([3.0, 1.0, 2.0]), np.array([10, 30, 20])
COLOUR = np.array(["red", "blue", "red"])


def read(columns: dict[str, Any], **wanted: Any) -> Dataset:
    return datasets_of_tables([columns], name="own.csv", wanted=Wanted(**wanted))[0]


def test_words_become_one_hot_columns() -> None:
    data = read({"age": AGE, "colour": COLOUR, "label": SIZE})
    assert data.X.tolist() == [[3, 0, 1], [1, 1, 0], [2, 0, 1]]
    assert data.features == ("age", "colour=blue", "colour=red")
    assert data.classes == ("10", "20", "30")
    assert data.note == (
        "label: column 'label'; words one-hot encoded: 'colour' (2); labels 10 to 30 renumbered from 0"
    )


@pytest.mark.parametrize(
    ("columns", "label", "said"),
    [
        (("y", "Target", "age"), "Target", "label: column 'Target'"),
        (("class", "age", "y"), "y", "label: column 'y'"),
        (("age", "size"), "size", "label: the last column 'size' (--label names another)"),
    ],
)
def test_the_label_column_by_its_name_or_the_last(columns: tuple[str, ...], label: str, said: str) -> None:
    data = read({c: SIZE if c == label else AGE for c in columns})
    assert data.note.startswith(said)
    assert data.features == tuple(c for c in columns if c != label)
    named = read({c: SIZE if c == "age" else AGE for c in ("age", *columns)}, label="age")
    assert named.classes == ("10", "20", "30")


def test_without_labels() -> None:
    data = read({"age": AGE, "size": SIZE}, target="none")
    assert (data.target, data.features, data.note) == ("none", ("age", "size"), "no labels: every column is a feature")
    for wanted in ({"label": "size"}, {}):
        data = read({"age": AGE, "size" if wanted else "label": SIZE}, target="none", **wanted)
        assert data.features == ("age",)
        assert data.note.endswith("left out, no labels")


@pytest.mark.parametrize("name", ["", "Unnamed: 0", "index", "id"])
def test_a_column_that_counts_the_rows_is_left_out(name: str) -> None:
    data = read({name: np.arange(3) + 1, "age": AGE, "y": SIZE})
    assert data.features == ("age",)
    assert f"column '{name}', which counts the rows, left out" in data.note
    assert read({name: SIZE, "age": AGE, "y": SIZE}).features == (name, "age")


@pytest.mark.parametrize(
    ("columns", "wanted", "said"),
    [
        ({"age": AGE, "y": SIZE}, {"label": "agee"}, r"no column 'agee'.* did you mean 'age'.*columns are 'age', 'y'"),
        ({"age": np.array([1, np.nan, np.nan]), "c": np.array(["", "a", "b"]), "y": SIZE}, {},
         r"3 missing values, in 'age' \(2\) and 'c' \(1\), the first in row 1; .*df.dropna\(\)"),
        ({"age": AGE, "y": np.array(["a", "", "b"])}, {}, r"1 missing value, in 'y' \(1\), the first in row 2"),
        ({"y": SIZE}, {}, "no columns but 'y'; expected features besides the labels"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_table(columns: dict[str, Any], wanted: dict[str, Any], said: str) -> None:
    with pytest.raises(NetgrainError, match=f"(?i){said}"):
        read(columns, **wanted)


def test_missing_labels_do_not_matter_where_labels_are_left_out() -> None:
    assert len(read({"age": AGE, "y": np.array(["a", "", "b"])}, target="none")) == 3


def test_too_many_words() -> None:
    names = np.array([f"name {i}" for i in range(60)])
    with pytest.raises(NetgrainError, match=r"column 'name' of own.csv holds 60 different words .*at most 50"):
        read({"name": names, "y": np.arange(60) % 2})


def test_both_parts_share_columns_words_and_classes() -> None:
    parts = [{"c": COLOUR, "y": np.array(["a", "b", "a"])}, {"y": np.array(["b"]), "c": np.array(["green"])}]
    train, test = datasets_of_tables(parts, name="own", wanted=Wanted())
    assert train.features == test.features == ("c=blue", "c=green", "c=red")
    assert (test.X.tolist(), test.y.tolist(), test.classes) == ([[0, 1, 0]], [1], ("a", "b"))
    with pytest.raises(NetgrainError, match="the training part has the columns 'c', 'y', the test part 'y'"):
        datasets_of_tables([parts[0], {"y": parts[1]["y"]}], name="own", wanted=Wanted())
    with pytest.raises(NetgrainError, match="column 'c' of own has another kind of values in the test part"):
        datasets_of_tables([parts[0], parts[1] | {"c": np.array([1.0])}], name="own", wanted=Wanted())


def test_lists_are_columns_or_samples() -> None:
    rows = np.arange(6.0).reshape(3, 2)
    assert read({"v": rows, "age": AGE, "y": SIZE}).features == ("v[0]", "v[1]", "age")
    images = np.arange(48, dtype=np.uint8).reshape(3, 4, 4)
    alone = read({"pixels": images, "y": SIZE})
    assert (alone.shape, alone.features) == ((1, 4, 4), ())
    assert alone.X[2, 0, 3, 3] * 255 == pytest.approx(47)


def test_names_behind_numbers() -> None:
    found = datasets_of_tables(
        [{"colour": np.array([0, 1, 0]), "y": np.array([2, 0, 2])}],
        name="own",
        wanted=Wanted(),
        classes={"colour": ["red", "blue"], "y": ["cat", "dog", "owl"]},
    )[0]
    assert found.classes == ("cat", "owl")
    assert found.features == ("colour=blue", "colour=red")
