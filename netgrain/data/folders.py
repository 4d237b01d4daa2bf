"""Folders of images: FOLDER/class/image.png, FOLDER/train/class/… with test/ or val/, or images without classes.

What cannot be read is counted, never guessed. Links that lead out of the folder are not followed, hidden files are
ignored, and an image with too many pixels is refused before it is decoded.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from netgrain.data.choosing import chosen_indices
from netgrain.data.dataset import Dataset
from netgrain.data.in_memory import checked
from netgrain.data.pictures import alike, check_memory, opened, sized
from netgrain.data.splits import part_of, train_and_test
from netgrain.data.wanted import Wanted
from netgrain.runtime.errors import GrainWarning, NetgrainError

SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp", ".ppm", ".pgm")


@dataclass(frozen=True)
class _Listing:
    """Every candidate file with its label (−1: none), the classes, and how many links lead out of the folder."""

    folder: Path
    files: list[tuple[Path, int]]
    classes: tuple[str, ...]
    outside: int


def read_parts(folder: Path, wanted: Wanted) -> list[Dataset]:
    """Images X (samples, C, H, W) from 0 to 1, with the folders in sorted order as classes.

    The samples of a limit are chosen before anything is decoded.
    """
    wanted.refuse_label(f"{folder} holds images, whose classes are the names of its folders")
    parts = _parts(folder)
    listings = [_listed(part) for part in (parts if wanted.test else parts[:1])]
    if len({listing.classes for listing in listings}) > 1:
        raise NetgrainError(
            f"{parts[0]} has the classes {', '.join(listings[0].classes)} and {parts[1]} has "
            f"{', '.join(listings[1].classes) or 'none'}; expected the same folders in both."
        )
    read = [_decoded(one, limit, wanted) for one, limit in zip(listings, wanted.limits, strict=False)]
    counts = [len(images) for images, _, _ in read]
    X, notes = alike([im for images, _, _ in read for im in images], wanted.size, deciding=counts[0])
    if len(parts) == 2 and not wanted.test:
        notes.insert(0, f"training part, {parts[1].name}/ is left for testing")
    name, found = folder.resolve().name, []
    for i, (x, (_, labels, done)) in enumerate(zip(X.split(counts), read, strict=True)):
        called = name if len(read) == 1 else f"{name} {('train', 'test')[i]}"
        classes = listings[0].classes
        y = torch.tensor(labels) if classes else None
        data = checked(x, y, called, classes, "; ".join([*notes, *done]), (), constant=i == 0)
        found.append(wanted.meant(data))
    return found


def _parts(folder: Path) -> list[Path]:
    """The folder itself, or its training and test folder."""
    folders = [p for p in _visible(folder) if p.is_dir()]
    parts = {part: p for p in folders if (part := part_of(p.name)) is not None}
    return train_and_test(parts) if "train" in parts and len(parts) == len(folders) else [folder]


def _visible(folder: Path) -> list[Path]:
    return sorted(p for p in folder.iterdir() if not p.name.startswith("."))


def _listed(folder: Path) -> _Listing:
    """The files of a folder, by class if it has folders."""
    root = folder.resolve()
    outside = 0

    def inside(path: Path) -> bool:
        nonlocal outside
        if path.is_symlink() and not path.resolve().is_relative_to(root):
            outside += 1
            return False
        return True

    entries = [p for p in _visible(folder) if inside(p)]
    kinds = [p for p in entries if p.is_dir()]
    if not kinds:
        alone = [(p, -1) for p in entries if p.suffix.casefold() in SUFFIXES]
        if not alone:
            found = f"{len(entries)} files and no image" if entries else "nothing"
            raise NetgrainError(
                f"{folder} holds {found}; expected one folder for each class, as in {folder}/cat/1.png, or images."
            )
        return _Listing(folder, alone, (), outside)
    files: list[tuple[Path, int]] = []
    for label, kind in enumerate(kinds):
        before = len(files)
        for here, folders, names in os.walk(kind):  # does not descend into links
            folders[:] = sorted(name for name in folders if not name.startswith("."))
            paths = [Path(here) / name for name in sorted(names) if not name.startswith(".")]
            files += [(path, label) for path in paths if inside(path)]
        if len(files) == before:
            raise NetgrainError(f"the class folder {kind} has no images; add images or remove the folder.")
    return _Listing(folder, files, tuple(kind.name for kind in kinds), outside)


def _decoded(listing: _Listing, limit: int | None, wanted: Wanted) -> tuple[list[Tensor], list[int], list[str]]:
    """The images of a part that can be read, their labels, and what is to be noted."""
    files = [listing.files[i] for i in chosen_indices(len(listing.files), limit, wanted.seed).tolist()]
    images: list[Tensor] = []
    labels: list[int] = []
    failed: list[tuple[Path, str]] = []
    clear = held = 0
    for file, label in files:
        found = opened(file)
        if isinstance(found, str):
            if wanted.strict:
                raise NetgrainError(f"{file} cannot be read as an image ({found}); repair or remove it.")
            failed.append((file, found))
            continue
        image, transparent = found
        clear += transparent
        images.append(sized(image, wanted.size))
        held += images[-1].numel()
        check_memory(len(files), held // len(images))
        labels.append(label)
    _check_read(listing, labels, failed, limited=limit is not None)
    notes = []
    if clear:
        notes.append(f"transparency of {clear} image{'s' * (clear > 1)} ignored")
    if failed:
        notes.append(f"{len(failed)} of {len(files)} files could not be read and were skipped")
        warnings.warn(
            f"{listing.folder}: {notes[-1]}, the first is {failed[0][0].relative_to(listing.folder)} ({failed[0][1]}).",
            GrainWarning,
            stacklevel=5,
        )
    if listing.outside:
        notes.append(f"{listing.outside} link{'s' * (listing.outside > 1)} out of the folder not followed")
    return images, labels, notes


def _check_read(listing: _Listing, labels: list[int], failed: Sequence[tuple[Path, str]], *, limited: bool) -> None:
    missing = sorted(set(range(len(listing.classes))) - set(labels))
    if labels and (not missing or limited):
        return
    why = f"{failed[0][0]}: {failed[0][1]}" if failed else ""
    what = "no image" if not labels else f"no image of the class '{listing.classes[missing[0]]}'"
    raise NetgrainError(
        f"{what} in {listing.folder} could be read ({why}); expected at least one: repair or remove it."
    )
