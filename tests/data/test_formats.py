"""Kinds of files and folders."""

import sys
import types
from pathlib import Path

import pytest
import torch

from netgrain.data import Dataset, formats, load


def test_a_format_is_one_row_of_the_table(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    reader = types.ModuleType("reader")
    reader.read_parts = lambda path, _: [Dataset(torch.eye(2), torch.tensor([0, 1]), path.name)]  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "reader", reader)
    row = formats.Format("FILE.toy", "reader", (".toy",), content="a toy")
    monkeypatch.setattr(formats, "FORMATS", (*formats.FORMATS, row))
    (tmp_path / "a.toy").touch()
    assert load(tmp_path / "a.toy").name == "a.toy"
    assert formats.kinds().endswith("or FILE.toy (a toy)")


@pytest.mark.parametrize(
    ("file", "module"),
    [
        ("dataset_info.json", "arrow_folders"),
        ("dataset_dict.json", "arrow_folders"),
        ("data/train-0.parquet", "arrow_folders"),
        ("cat/1.png", "folders"),
    ],
)
def test_folders_are_told_apart_by_what_they_hold(file: str, module: str, tmp_path: Path) -> None:
    (tmp_path / file).parent.mkdir(exist_ok=True)
    (tmp_path / file).touch()
    found = formats.format_of(tmp_path)
    assert found is not None
    assert found.module == f"netgrain.data.{module}"
