"""Images by class: FOLDER/class/image.png, read with Pillow; what cannot be read is counted, never guessed.

Links that lead out of the folder are not followed, hidden files are ignored, and an image with more pixels than
MOST_PIXELS is refused before it is decoded.
"""

from __future__ import annotations

import os
import warnings
from pathlib import Path

import torch
from torch import Tensor

from netgrain.data.arrays import MOST_BYTES
from netgrain.data.dataset import Dataset, area_resized, chosen_indices
from netgrain.data.in_memory import checked, pixels
from netgrain.runtime.errors import GrainWarning, NetgrainError

MOST_PIXELS = 2**26  # of one image: 8192 × 8192
LUMA = (0.299, 0.587, 0.114)  # ITU-R 601, as Pillow


def read_samples(folder: Path, *, strict: bool, size: int | None, limit: int | None, seed: int) -> Dataset:
    """Images X (samples, C, H, W) from 0 to 1, with the folders in sorted order as classes.

    The samples of `limit` are chosen before anything is decoded.
    """
    files, classes, outside = _listed(folder)
    files = [files[i] for i in chosen_indices(len(files), limit, seed).tolist()]
    images: list[Tensor] = []
    labels: list[int] = []
    failed: list[tuple[Path, str]] = []
    first: tuple[Path, tuple[int, int]] | None = None
    for file, label in files:
        image = _opened(file)
        if isinstance(image, str):
            if strict:
                raise NetgrainError(f"{file} cannot be read as an image ({image}); repair or remove it.")
            failed.append((file, image))
            continue
        here = (image.shape[1], image.shape[2])
        if size is not None:
            image = area_resized(image[None].float(), size)[0]
        elif first is not None and here != first[1]:
            raise NetgrainError(
                f"{file} is {here[0]} × {here[1]} pixels, {first[0]} is {first[1][0]} × {first[1][1]}; expected images "
                "of one size: pass size=N to average them all to N × N."
            )
        first = first or (file, here)
        _check_memory(len(files), image)
        images.append(image)
        labels.append(label)
    _check_read(folder, classes, labels, failed, limited=limit is not None)
    notes = ["pixels divided by 255"]
    if size is not None:
        notes.append(f"area-averaged to {size} × {size}")
    if failed:
        notes.append(f"{len(failed)} of {len(files)} files could not be read and were skipped")
        warnings.warn(
            f"{folder}: {notes[-1]}, the first is {failed[0][0].relative_to(folder)} ({failed[0][1]}).",
            GrainWarning,
            stacklevel=4,
        )
    if outside:
        notes.append(f"{outside} link{'s' * (outside > 1)} out of the folder not followed")
    X, colours = _alike(images)
    return checked(X / 255, torch.tensor(labels), folder.resolve().name, classes, "; ".join(notes + colours), ())


def _listed(folder: Path) -> tuple[list[tuple[Path, int]], tuple[str, ...], int]:
    """Every candidate file with its label, the classes, and how many links lead out of the folder."""
    root = folder.resolve()
    outside = 0

    def inside(path: Path) -> bool:
        nonlocal outside
        if path.is_symlink() and not path.resolve().is_relative_to(root):
            outside += 1
            return False
        return True

    entries = sorted(p for p in folder.iterdir() if not p.name.startswith("."))
    kinds = [p for p in entries if inside(p) and p.is_dir()]
    if not kinds:
        found = f"{len(entries)} files and no folders" if entries else "nothing"
        raise NetgrainError(f"{folder} holds {found}; expected one folder for each class, as in {folder}/cat/1.png.")
    files: list[tuple[Path, int]] = []
    for label, kind in enumerate(kinds):
        before = len(files)
        for here, folders, names in os.walk(kind):  # does not descend into links
            folders[:] = sorted(name for name in folders if not name.startswith("."))
            paths = [Path(here) / name for name in sorted(names) if not name.startswith(".")]
            files += [(path, label) for path in paths if inside(path)]
        if len(files) == before:
            raise NetgrainError(f"the class folder {kind} has no images; add some or remove the folder.")
    return files, tuple(kind.name for kind in kinds), outside


def _opened(file: Path) -> Tensor | str:
    """The pixels of a file, or why it cannot be read."""
    try:
        from PIL import Image
    except ImportError as e:
        raise NetgrainError("reading images needs Pillow, which is not here: pip install pillow.") from e
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Pillow's about size comes above the limit that is held here
        try:
            with Image.open(file) as image:  # reads the header only
                if image.width * image.height > MOST_PIXELS:
                    return f"{image.width} × {image.height} pixels, more than {MOST_PIXELS:,}"
                return pixels(image)
        except Exception as e:  # a damaged file may make a decoder raise anything
            return str(e).replace(repr(str(file)), "it").strip() or type(e).__name__


def _check_memory(count: int, image: Tensor) -> None:
    if count * image.numel() * 4 > MOST_BYTES:
        raise NetgrainError(
            f"{count} images of {image.shape[1]} × {image.shape[2]} pixels would take "
            f"{count * image.numel() * 4 / 2**30:.0f} GiB; expected at most {MOST_BYTES / 2**30:.0f}: pass size= or "
            "limit=."
        )


def _check_read(
    folder: Path, classes: tuple[str, ...], labels: list[int], failed: list[tuple[Path, str]], *, limited: bool
) -> None:
    missing = sorted(set(range(len(classes))) - set(labels))
    if not missing or (limited and labels):
        return
    why = f"{failed[0][0]}: {failed[0][1]}" if failed else ""
    what = "no image" if not labels else f"no image of the class '{classes[missing[0]]}'"
    raise NetgrainError(f"{what} in {folder} could be read ({why}); expected at least one: repair or remove it.")


def _alike(images: list[Tensor]) -> tuple[Tensor, list[str]]:
    """All images grey or all in colour, as the majority is (colour when even), and what was done."""
    grey = sum(len(image) == 1 for image in images)
    colour = len(images) - grey
    if colour >= grey:
        alike = [image.float().expand(3, -1, -1) for image in images]
        done = [f"{grey} grey image{'s' * (grey > 1)} made colour"] if grey else []
    else:
        weights = torch.tensor(LUMA)[:, None, None]
        alike = [im.float() if len(im) == 1 else (im.float() * weights).sum(0, keepdim=True) for im in images]
        done = [f"{colour} colour image{'s' * (colour > 1)} made grey"] if colour else []
    return torch.stack(alike), done
