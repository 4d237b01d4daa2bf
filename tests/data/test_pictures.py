"""Pictures made one array."""

from io import BytesIO
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from netgrain.data import Dataset
from netgrain.data.pictures import alike, check_memory, made_grey, opened, with_channels
from netgrain.runtime.errors import NetgrainError


def png(mode: str, **options: Any) -> BytesIO:
    buffer = BytesIO()
    Image.fromarray(np.array([[0, 255], [255, 0]], np.uint8)).convert(mode).save(buffer, "PNG", **options)
    return buffer


@pytest.mark.parametrize(
    ("mode", "channels", "clear"),
    [("L", 1, False), ("RGB", 3, False), ("P", 3, False), ("RGBA", 3, True), ("LA", 1, True), ("1", 1, False)],
)
def test_every_mode_is_grey_or_colour(mode: str, channels: int, clear: bool) -> None:
    found = opened(png(mode))
    assert not isinstance(found, str)
    assert found[0].shape == (channels, 2, 2)
    assert found[0].float().mean() == 127.5
    assert found[1] is clear
    assert isinstance(opened(BytesIO(b"no picture")), str)


def test_the_most_common_size_is_that_of_the_deciding_images_and_the_smallest_of_them() -> None:
    small, large = torch.full((1, 2, 4), 51, dtype=torch.uint8), torch.full((1, 4, 4), 255, dtype=torch.uint8)
    X, notes = alike([large, small], None)
    assert (X.shape, notes[1]) == ((2, 1, 2, 4), "1 of 2 images resized to 2 × 4, the most common size")
    assert X[:, 0, 0, 0].tolist() == pytest.approx([1.0, 0.2])
    assert alike([large, large, small], None)[0].shape == (3, 1, 4, 4)
    assert alike([small, large, large], None, deciding=1)[0].shape == (3, 1, 2, 4)
    assert alike([small], None)[1] == ["pixels divided by 255"]


def test_so_many_images_are_too_many() -> None:
    with pytest.raises(NetgrainError, match=r"1000000 images would take 561 GiB; expected at most 8: pass size="):
        check_memory(10**6, 3 * 224 * 224)


def test_grey_and_colour_on_request() -> None:
    colour = Dataset(torch.rand(2, 3, 2, 2, generator=torch.Generator().manual_seed(0)), note="raw")
    grey = with_channels(colour, 1)
    r, g, b = colour.X.unbind(1)
    torch.testing.assert_close(grey.X[:, 0], 0.299 * r + 0.587 * g + 0.114 * b)
    assert grey.note == "raw; made grey"
    again = with_channels(grey, 3)
    assert torch.equal(again.X, grey.X.expand(2, 3, 2, 2))
    assert with_channels(again, 3) is again
    assert torch.equal(made_grey(grey.X), grey.X)
    with pytest.raises(NetgrainError, match=r"channels must be 1 \(grey\) or 3 \(colour\), found 4"):
        with_channels(colour, 4)
