"""Folders of Arrow tables, laid out as `datasets.save_to_disk` and the hub do."""

from pathlib import Path
from typing import Any

import pytest

from netgrain.data import load, load_split
from netgrain.runtime.errors import NetgrainError
from tests.data.test_arrow_files import pa, pictures, pq


def save_to_disk(folder: Path, table: Any, shards: int = 1) -> None:
    """What `Dataset.save_to_disk` writes: Arrow streams and two files about them."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = table.num_rows // shards
    for i in range(shards):
        file = str(folder / f"data-{i:05}-of-{shards:05}.arrow")
        with pa.OSFile(file, "wb") as sink, pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table.slice(i * rows, rows))
    (folder / "dataset_info.json").write_text("{}")
    (folder / "state.json").write_text("{}")


def test_one_data_set(tmp_path: Path) -> None:
    save_to_disk(tmp_path / "own", pictures(6), shards=2)
    (tmp_path / "own" / "cache-123.arrow").write_bytes(b"not read")
    data = load(tmp_path / "own", standardise=False)
    assert (data.name, len(data), data.classes) == ("own", 6, ("cat", "owl"))
    assert (data.X[:, 0, 0, 0] * 255).round().tolist() == [17.0 * i for i in range(6)]


def test_several_parts(tmp_path: Path) -> None:
    for part, count in (("train", 6), ("test", 4), ("validation", 2)):
        save_to_disk(tmp_path / part, pictures(count))
    (tmp_path / "dataset_dict.json").write_text('{"splits": ["train", "test", "validation"]}')
    data = load(tmp_path)
    assert len(data) == 6
    assert data.note.startswith("training part, the test part is left for testing; pixels divided by 255")
    split = load_split(tmp_path, limit=(5, None))
    assert (len(split.train), len(split.test)) == (5, 4)


@pytest.mark.parametrize(
    "files",
    [
        {"data/train-00000-of-00001-ab12.parquet": 6, "data/test-00000-of-00001.parquet": 4},
        {"train/0.parquet": 3, "train/1.parquet": 3, "validation/0.parquet": 4},
        {"train.parquet": 6, "test.parquet": 4},
    ],
)
def test_folders_of_parquet(files: dict[str, int], tmp_path: Path) -> None:
    for name, count in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        pq.write_table(pictures(count), tmp_path / name)
    split = load_split(tmp_path)
    assert (len(split.train), len(split.test)) == (6, 4)


def test_files_that_are_one_part(tmp_path: Path) -> None:
    for name in ("a.parquet", "b.parquet"):
        pq.write_table(pa.table({"x": [1.0, 2.0], "y": [0, 1]}), tmp_path / name)
    assert len(load(tmp_path)) == 4
    pq.write_table(pa.table({"z": [1.0, 2.0], "y": [0, 1]}), tmp_path / "b.parquet")
    with pytest.raises(NetgrainError, match="have different columns"):
        load(tmp_path)


def test_parts_that_cannot_be_told(tmp_path: Path) -> None:
    for name in ("north", "south"):
        (tmp_path / name).mkdir()
        pq.write_table(pa.table({"x": [1.0, 2.0], "y": [0, 1]}), tmp_path / name / "0.parquet")
    with pytest.raises(NetgrainError, match=r"has the parts north, south and none called train; pass one .*north"):
        load(tmp_path)
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "dataset_info.json").write_text("{}")
    with pytest.raises(NetgrainError, match=r"holds no \.arrow and no \.parquet file"):
        load(tmp_path / "empty")
