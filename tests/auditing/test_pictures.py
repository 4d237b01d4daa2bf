"""Small pictures: what can be drawn, and pixels that come back out of the data address."""

import base64
import io

import numpy as np
import torch
from PIL import Image

from netgrain.auditing import pictures


def read(address: str) -> np.ndarray:
    assert address.startswith("data:image/png;base64,")
    file = io.BytesIO(base64.b64decode(address.partition(",")[2]))
    return np.asarray(Image.open(file).convert("RGB")).astype(int)


def test_what_can_be_drawn() -> None:
    shapes = [(1, 8, 8), (3, 8, 8), (2, 8, 8), (8,), (1, 1, 8)]
    assert [pictures.can_be_drawn(s) for s in shapes] == [True, True, False, False, False]


def test_a_direction_is_red_above_and_blue_below_zero() -> None:
    u = torch.zeros(1, 2, 2)
    u[0, 0, 0], u[0, 1, 1] = 1, -1
    pixels = read(pictures.direction(u))
    assert pixels.shape == (96, 96, 3)
    red, blue, none = pixels[10, 10], pixels[90, 90], pixels[10, 90]
    assert red[0] > red[2] + 50
    assert blue[2] > blue[0] + 50
    assert none.min() > 240
    colours = read(pictures.direction(torch.eye(3)[:, :, None].expand(3, 3, 3)))
    assert colours[0, 0].argmax() == 0


def test_one_wave_has_two_frequencies() -> None:
    wave = torch.cos(2 * torch.pi * torch.arange(8) / 4).expand(1, 8, 8)
    bright = read(pictures.fourier(wave))[::12, ::12].sum(-1) > 400  # one of each pixel of the input
    assert bright.nonzero()[0].tolist() == [4, 4]
    assert bright.nonzero()[1].tolist() == [2, 6]


def test_a_sample_from_black_to_white() -> None:
    pixels = read(pictures.sample(torch.tensor([[[0.0, 1.0], [2.0, 5.0]]]), 0, 2))
    assert [int(pixels[i, j, 0]) for i in (0, 90) for j in (0, 90)] == [0, 128, 255, 255]
