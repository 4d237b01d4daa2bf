"""Pictures made one array: decoded with Pillow, and brought to one size and to grey or colour, which is noted."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from io import BytesIO
from pathlib import Path

import torch
from torch import Tensor

from netgrain.data.dataset import Dataset, then
from netgrain.data.in_memory import pixels
from netgrain.data.resizing import area_resized
from netgrain.runtime.errors import NetgrainError

MOST_PIXELS = 2**26  # of one image: 8192 × 8192
MOST_BYTES = 2**33  # of all images
LUMA = (0.299, 0.587, 0.114)  # ITU-R 601, as Pillow


def opened(file: Path | BytesIO) -> tuple[Tensor, bool] | str:
    """The pixels of a picture and whether its transparency was ignored; or why it cannot be read."""
    try:
        from PIL import Image
    except ImportError as e:
        raise NetgrainError("reading images needs Pillow, which is not installed: pip install pillow.") from e
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Pillow's about size comes above the limit that is held here
        try:
            with Image.open(file) as image:  # reads the header only
                if image.width * image.height > MOST_PIXELS:
                    return f"{image.width} × {image.height} pixels, more than {MOST_PIXELS:,}"
                clear = "A" in image.mode.upper().replace("LAB", "") or "transparency" in image.info
                return pixels(image), clear
        except Exception as e:  # a damaged file may make a decoder raise anything
            said = str(e).replace(repr(str(file)), "it").strip()
            return type(e).__name__ if "BytesIO" in said or not said else said


def sized(image: Tensor, size: int | None) -> Tensor:
    """An image averaged to size × size, if a size is given."""
    return image if size is None else area_resized(image[None].float(), size)[0]


def check_memory(count: int, entries: int) -> None:
    """Refuse so many images of so many numbers each."""
    if count * entries * 4 > MOST_BYTES:
        raise NetgrainError(
            f"{count} images would take {count * entries * 4 / 2**30:.0f} GiB; expected at most "
            f"{MOST_BYTES / 2**30:.0f}: pass size= (--size) or limit= (--limit)."
        )


def alike(images: Sequence[Tensor], size: int | None, *, deciding: int | None = None) -> tuple[Tensor, list[str]]:
    """Images (samples, C, H, W) from 0 to 1, and what was done; the first `deciding` ones decide size and colour.

    Sizes that differ become the one that most of them have (the smallest such). They are grey or in colour as the
    majority is, in colour when even. size: what they were averaged to before.
    """
    deciders = images[: len(images) if deciding is None else deciding]
    notes = ["pixels divided by 255"]
    if size is not None:
        notes.append(f"area-averaged to {size} × {size}")
    h, w = _common_size(deciders)
    if others := sum(image.shape[1:] != (h, w) for image in images):
        images = [i if i.shape[1:] == (h, w) else area_resized(i[None].float(), (h, w))[0] for i in images]
        notes.append(f"{others} of {len(images)} images resized to {h} × {w}, the most common size")
    grey = sum(len(image) == 1 for image in deciders)
    check_memory(len(images), (1 if grey > len(deciders) - grey else 3) * h * w)
    X, coloured = _one_colour(images, in_colour=len(deciders) - grey >= grey)
    return X / 255, notes + coloured


def with_channels(dataset: Dataset, channels: int) -> Dataset:
    """Images made grey (1) or colour (3), and noted."""
    if channels not in (1, 3):
        raise NetgrainError(f"channels must be 1 (grey) or 3 (colour), found {channels}.")
    if len(dataset.shape) != 3 or dataset.shape[0] not in (1, 3):
        raise NetgrainError(
            f"channels expects images of shape (1 or 3, height, width), the samples have shape {dataset.shape}; leave "
            "it out."
        )
    if dataset.shape[0] == channels:
        return dataset
    X = made_grey(dataset.X) if channels == 1 else dataset.X.repeat(1, 3, 1, 1)
    done = "made grey" if channels == 1 else "grey repeated in three channels"
    return replace(dataset, X=X, note=then(dataset.note, done), features=())


def _common_size(images: Sequence[Tensor]) -> tuple[int, int]:
    counts = Counter((image.shape[1], image.shape[2]) for image in images)
    return min(counts, key=lambda shape: (-counts[shape], shape[0] * shape[1], shape))


def _one_colour(images: Sequence[Tensor], *, in_colour: bool) -> tuple[Tensor, list[str]]:
    odd = sum((len(image) == 1) == in_colour for image in images)
    several = f"image{'s' * (odd > 1)}"
    if in_colour:
        same = [image.float().expand(3, -1, -1) for image in images]
        return torch.stack(same), [f"{odd} grey {several} made colour"] if odd else []
    return torch.stack([made_grey(image) for image in images]), [f"{odd} colour {several} made grey"] if odd else []


def made_grey(images: Tensor) -> Tensor:
    """One channel (…, 1, H, W) of colour or grey pixels (…, C, H, W)."""
    if images.shape[-3] == 1:
        return images.float()
    return (images.float() * torch.tensor(LUMA)[:, None, None]).sum(-3, keepdim=True)
