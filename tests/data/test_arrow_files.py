"""Parquet and Arrow files; the files are written here as `datasets` writes them."""

import datetime
import json
import sys
from decimal import Decimal
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from netgrain.data import load
from netgrain.data.arrow_files import read_parts
from netgrain.data.dataset import Dataset
from netgrain.data.wanted import Wanted
from netgrain.runtime.errors import NetgrainError

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")


def picture(value: int, size: tuple[int, int] = (4, 4)) -> dict[str, Any]:
    buffer = BytesIO()
    Image.fromarray(np.full(size, value, np.uint8)).save(buffer, "PNG")
    return {"bytes": buffer.getvalue(), "path": None}


def pictures(count: int, **features: Any) -> Any:
    """A table as of `datasets`, with the names of its classes in the schema."""
    about = {"info": {"features": {"label": {"names": ["cat", "dog", "owl"], "_type": "ClassLabel"}, **features}}}
    columns = {"image": [picture(17 * i) for i in range(count)], "label": [2 * (i % 2) for i in range(count)]}
    return pa.table(columns).replace_schema_metadata({"huggingface": json.dumps(about)})


def saved(folder: Path, table: Any) -> Path:
    pq.write_table(table, folder / "own.parquet")
    return folder / "own.parquet"


def read(folder: Path, table: Any, **wanted: Any) -> Dataset:
    return read_parts(saved(folder, table), Wanted(**wanted))[0]


def test_a_table_of_every_kind(tmp_path: Path) -> None:
    table = pa.table(
        {
            "n": pa.array([1, 2, 3], pa.int8()),
            "x": pa.array([0.5, 1.5, 2.5], pa.float32()),
            "d": [Decimal("1.5"), Decimal("2.5"), Decimal("3.5")],
            "t": [True, False, True],
            "w": pa.array(["a", "b", "a"]).dictionary_encode(),
            "v": pa.array([[1, 2], [3, 4], [5, 6]], pa.list_(pa.int16(), 2)),
            "y": ["cat", "dog", "cat"],
        }
    )
    data = read(tmp_path, table)
    assert data.features == ("n", "x", "d", "t", "w=a", "w=b", "v[0]", "v[1]")
    assert data.X[1].tolist() == [2, 1.5, 2.5, 0, 0, 1, 3, 4]
    assert data.classes == ("cat", "dog")


def test_images_with_the_names_of_their_classes(tmp_path: Path) -> None:
    data = read(tmp_path, pictures(6))
    assert (data.shape, data.classes, data.y.tolist()) == ((1, 4, 4), ("cat", "owl"), [0, 1] * 3)
    assert (data.X[:, 0, 0, 0] * 255).round().tolist() == [17.0 * i for i in range(6)]
    assert data.note == "pixels divided by 255; label: column 'label'"
    few = load(tmp_path / "own.parquet", limit=3, size=2, standardise=False)
    assert (len(few), few.shape) == (3, (1, 2, 2))
    assert read(tmp_path, pictures(6), target="none").y is None


def test_images_of_several_sizes_without_labels(tmp_path: Path) -> None:
    table = pa.table({"id": ["a", "b"], "image": [picture(9), picture(9, (2, 2))]})
    data = read(tmp_path, table)
    assert (data.target, data.shape) == ("none", (1, 2, 2))
    assert data.note.endswith("1 of 2 images resized to 2 × 2, the most common size; left out: 'id'")


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"a": [1, None], "y": [0, 1]}, r"1 missing value, in 'a' \(1\), the first in row 2"),
        ({"a": [None, None], "y": [0, 1]}, r"2 missing values, in 'a' \(2\)"),
        ({"a": [None, "w"], "y": [0, 1]}, r"1 missing value, in 'a' \(1\), the first in row 1"),
        ({"a": [[1], [1, 2]], "y": [0, 1]}, "column 'a' of own.parquet holds lists of different lengths"),
        ({"a": [[1], None], "y": [0, 1]}, "column 'a' of own.parquet holds lists of different lengths"),
        ({"a": [datetime.date(2020, 1, 1)] * 2, "y": [0, 1]}, r"column 'a' .* type date32.*; expected numbers, words"),
        ({"image": [{"bytes": b"x", "path": None}] * 2, "y": [0, 1]}, "row 1 of own.parquet holds no image in 'image'"),
        ({"image": [{"bytes": b"", "path": None}, None], "y": [0, 1]}, "row 1 of own.parquet holds no image"),
        ({"a": [], "y": []}, "own.parquet is empty"),
    ],
)
def test_what_is_wrong_with_a_table(columns: dict[str, Any], said: str, tmp_path: Path) -> None:
    with pytest.raises(NetgrainError, match=said):
        read(tmp_path, pa.table(columns))


def test_a_file_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "own.parquet").write_bytes(b"PAR1 nothing")
    with pytest.raises(NetgrainError, match=r"own\.parquet cannot be read as parquet \(.*\); write it again"):
        load(tmp_path / "own.parquet")


def test_without_pyarrow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = saved(tmp_path, pa.table({"a": [1, 2], "y": [0, 1]}))
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(NetgrainError, match=r"own.parquet needs pyarrow, .* pip install -e '.\[tables\]'"):
        load(file)
