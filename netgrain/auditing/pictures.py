"""Small pictures inside a page: directions, their Fourier spectra and samples as PNG in data: addresses."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence

import numpy as np
from torch import Tensor

SIDE = 96  # pixels of a picture, at least; each pixel of the input is a whole number of them

MOST = 128  # pixels of a picture that is one of many


def can_be_drawn(shape: Sequence[int]) -> bool:
    """One or three channels of pixels."""
    return len(shape) == 3 and shape[0] in (1, 3) and min(shape[1:]) > 1


def direction(u: Tensor) -> str:
    """A direction (channels, rows, columns): blue below zero, red above, white at zero; three channels as colours."""
    pixels = u.double().numpy()
    largest = float(np.abs(pixels).max()) or 1.0
    if len(pixels) == 3:
        return _png(0.5 + 0.5 * pixels.transpose(1, 2, 0) / largest)
    from matplotlib import colormaps

    return _png(colormaps["RdBu_r"](0.5 + 0.5 * pixels[0] / largest)[..., :3])


def fourier(u: Tensor) -> str:
    """Its power over frequencies, zero frequency in the middle, brightness as the square root of the amplitude."""
    power = np.abs(np.fft.fftshift(np.fft.fft2(u.double().numpy()), axes=(-2, -1))).sum(0)
    from matplotlib import colormaps

    return _png(colormaps["magma"](np.sqrt(power / (float(power.max()) or 1.0)))[..., :3])


def sample(x: Tensor, low: float, high: float) -> str:
    """A sample with the range low … high shown as black to white."""
    pixels = (x.double().numpy() - low) / ((high - low) or 1.0)
    return _png(pixels.transpose(1, 2, 0) if len(pixels) == 3 else np.repeat(pixels[0][..., None], 3, -1))


def overlaid(x: Tensor, reaction: Tensor, low: float, high: float) -> np.ndarray:
    """Colours (rows, columns, 3) of an image: faded and grey, and its own colours under red where the reaction lies.

    reaction: shares of the pixels; the strongest hundredth of them is drawn in full.
    """
    pixels = np.clip((x.double().numpy() - low) / ((high - low) or 1.0), 0, 1)
    grey = pixels.mean(0)[..., None].repeat(3, -1)
    strong = float(np.quantile(reaction.numpy(), 0.99)) or 1.0
    weight = np.clip(np.sqrt(reaction.numpy() / strong), 0, 1)[..., None]
    found: np.ndarray = (1 - weight) * (0.35 + 0.5 * grey) + weight * (
        np.array([0.85, 0.1, 0.1]) * (0.45 + 0.55 * grey)
    )
    return found


def overlay(x: Tensor, reaction: Tensor, low: float, high: float) -> str:
    """A sample with the reaction of a network over it, at most MOST pixels wide."""
    return _png(_shrunk(overlaid(x, reaction, low, high)))


def small_sample(x: Tensor, low: float, high: float) -> str:
    """A sample as `sample` draws it, at most MOST pixels wide."""
    pixels = (x.double().numpy() - low) / ((high - low) or 1.0)
    return _png(_shrunk(pixels.transpose(1, 2, 0) if len(pixels) == 3 else np.repeat(pixels[0][..., None], 3, -1)))


def _shrunk(colours: np.ndarray) -> np.ndarray:
    """Averaged over squares of pixels until it is small enough for a page that shows many."""
    factor = -(-max(colours.shape[:2]) // MOST)
    if factor == 1:
        return colours
    h, w = (side // factor * factor for side in colours.shape[:2])
    found: np.ndarray = colours[:h, :w].reshape(h // factor, factor, w // factor, factor, 3).mean((1, 3))
    return found


def _png(colours: np.ndarray) -> str:
    from PIL import Image

    whole = (np.clip(colours, 0, 1) * 255).round().astype(np.uint8)
    factor = max(1, -(-SIDE // max(whole.shape[:2])))
    whole = whole.repeat(factor, 0).repeat(factor, 1)
    file = io.BytesIO()
    Image.fromarray(whole, "RGB").quantize(128).save(file, "PNG", optimize=True)
    return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode()
