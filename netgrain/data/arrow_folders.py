"""Folders of Apache Arrow tables: what Hugging Face's `save_to_disk` wrote, and folders of parquet files.

They are read from the disk alone, without `datasets`; nothing is fetched, and none of its scripts runs.
"""

from __future__ import annotations

import re
from pathlib import Path

from netgrain.data.arrow_files import datasets_of_files
from netgrain.data.dataset import Dataset
from netgrain.data.splits import part_of, train_and_test
from netgrain.data.wanted import Wanted
from netgrain.runtime.errors import NetgrainError


def read_parts(folder: Path, wanted: Wanted) -> list[Dataset]:
    """The training part and perhaps the test part of a folder."""
    parts = _files(folder)
    notes = [] if len(parts) == 1 or wanted.test else ["training part, the test part is left for testing"]
    used = parts if wanted.test else parts[:1]
    return datasets_of_files(used, name=folder.resolve().name, wanted=wanted, notes=notes)


def _files(folder: Path) -> list[list[Path]]:
    """The files of the training part, and of the test part if there is one."""
    if (folder / "dataset_dict.json").is_file():
        inside = [p for p in sorted(folder.iterdir()) if p.is_dir() and _arrow(p)]
        found = {p.name: _arrow(p) for p in inside}
    elif (folder / "dataset_info.json").is_file() and _arrow(folder):
        return [_arrow(folder)]
    else:
        found = {}
        for file in sorted([*folder.glob("*.parquet"), *folder.glob("*/*.parquet")]):
            stem = re.split(r"[^a-z]", file.stem.casefold())[0]
            found.setdefault(stem if part_of(stem) else file.parent.name, []).append(file)
    if not found:
        raise NetgrainError(f"{folder} holds no .arrow and no .parquet file; save the data set again.")
    named = {part: files for name, files in found.items() if (part := part_of(name)) is not None}
    if "train" in named:
        return train_and_test(named)
    if len(found) > 1:
        raise NetgrainError(
            f"{folder} has the parts {', '.join(sorted(found))} and none called train; pass one of them, as "
            f"{folder}/{min(found)}."
        )
    return list(found.values())


def _arrow(folder: Path) -> list[Path]:
    """The tables of one part; caches of computed columns are none."""
    return sorted(p for p in folder.glob("*.arrow") if not p.name.startswith(("cache-", "indices")))
