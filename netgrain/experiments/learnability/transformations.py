"""What tasks do to samples and labels: turns, shifts, noise, filters, and labels that come from what was done.

A transformation takes samples, labels, a strength and a random generator, and gives samples and labels back. Images
have shape (samples, channels, size, size).
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from netgrain.data.resizing import area_resized
from netgrain.runtime.errors import NetgrainError, known_name

Transformed = tuple[Tensor, Tensor]
Transformation = Callable[[Tensor, Tensor, float, torch.Generator], Transformed]


def permuted(X: Tensor, y: Tensor, _: float, generator: torch.Generator) -> Transformed:
    """All entries of a sample in one random order, the same for every sample and channel."""
    order = torch.randperm(X[0, 0].numel(), generator=generator)
    return X.flatten(2)[:, :, order].reshape(X.shape), y


def shifted(X: Tensor, y: Tensor, most: float, generator: torch.Generator) -> Transformed:
    """Every image shifted by up to `most` pixels in both directions; zeros come in."""
    size, pad = X.shape[-1], int(most)
    wide = torch.nn.functional.pad(X, (pad, pad, pad, pad))
    places = torch.randint(2 * pad + 1, (len(X), 2), generator=generator).tolist()
    return torch.stack([x[:, a : a + size, b : b + size] for x, (a, b) in zip(wide, places, strict=True)]), y


def noisy(X: Tensor, y: Tensor, strength: float, generator: torch.Generator) -> Transformed:
    """White noise of `strength` standard deviations of the pixels."""
    return X + strength * X.std() * torch.randn(X.shape, generator=generator), y


def low_pass(X: Tensor, y: Tensor, cutoff: float, _: torch.Generator) -> Transformed:
    """Frequencies of at most `cutoff` periods across the image."""
    return _low(X, cutoff), y


def high_pass(X: Tensor, y: Tensor, cutoff: float, _: torch.Generator) -> Transformed:
    """Frequencies above `cutoff` periods across the image."""
    return X - _low(X, cutoff), y


def _low(X: Tensor, cutoff: float) -> Tensor:
    f = torch.fft.fftfreq(X.shape[-1]) * X.shape[-1]
    mask = (f[:, None].square() + f.square()).sqrt() <= cutoff
    kept: Tensor = torch.fft.ifft2(torch.fft.fft2(X) * mask).real
    return kept


def turned(X: Tensor, y: Tensor, _: float, generator: torch.Generator) -> Transformed:
    """Every image turned by 0, 90, 180 or 270 degrees."""
    quarters = torch.randint(4, (len(X),), generator=generator).tolist()
    return torch.stack([x.rot90(k, (1, 2)) for x, k in zip(X, quarters, strict=True)]), y


def upside_down(X: Tensor, y: Tensor, _: float, generator: torch.Generator) -> Transformed:
    """Half of the images upside down; the label says which."""
    labels = torch.randint(2, (len(X),), generator=generator)
    return torch.where(labels.bool()[:, None, None, None], X.flip(2), X), labels.to(y)


def signs(X: Tensor, y: Tensor, _: float, generator: torch.Generator) -> Transformed:
    """Every image around its set's mean, times +1 or −1."""
    sign = torch.randint(2, (len(X), 1, 1, 1), generator=generator) * 2 - 1
    return (X - X.mean()) * sign, y


def light_or_dark(X: Tensor, y: Tensor, _: float, __: torch.Generator) -> Transformed:
    """Every pixel of every channel +1 above the image's own median, −1 elsewhere."""
    middle = X.flatten(2).median(2).values[..., None, None]
    return torch.where(middle < X, 1.0, -1.0).to(X), y


def larger_of_two(X: Tensor, y: Tensor, _: float, __: torch.Generator) -> Transformed:
    """Two images side by side at half their size; the label says whether the left one's class is larger.

    The first half of the samples stands left, the second half right, so that no image is seen twice; pairs of one class
    are dropped.
    """
    n, size = len(X) // 2, X.shape[-1]
    left, right = y[:n], y[n : 2 * n]
    half, top = area_resized(X, size // 2), size // 4
    out = torch.zeros_like(X[:n])
    out[:, :, top : top + size // 2, : size // 2] = half[:n]
    out[:, :, top : top + size // 2, size // 2 :] = half[n : 2 * n]
    kept = left != right
    return out[kept], (left > right).to(y)[kept]


def labels_replaced(X: Tensor, y: Tensor, share: float, generator: torch.Generator) -> Transformed:
    """This share of all labels, of tests too, drawn anew from all classes."""
    drawn = torch.randint(int(y.max()) + 1, y.shape, generator=generator).to(y)
    return X, torch.where(torch.rand(len(y), generator=generator) < share, drawn, y)


def above_median(X: Tensor, y: Tensor, _: float, __: torch.Generator) -> Transformed:
    """Numbers as two classes: above their median or not."""
    return X, (y > y.double().median().to(y)).long()


TRANSFORMATIONS: dict[str, Transformation] = {
    "permuted": permuted,
    "shifted": shifted,
    "noisy": noisy,
    "low-pass": low_pass,
    "high-pass": high_pass,
    "turned": turned,
    "upside-down": upside_down,
    "signs": signs,
    "light-or-dark": light_or_dark,
    "larger-of-two": larger_of_two,
    "labels-replaced": labels_replaced,
    "above-median": above_median,
}


def transformed(X: Tensor, y: Tensor, how: str, generator: torch.Generator) -> Transformed:
    """Samples and labels after one transformation, written as "shifted 4"."""
    name, _, strength = how.partition(" ")
    known_name("transformation", name, TRANSFORMATIONS)
    try:
        number = float(strength or 0)
    except ValueError as e:
        raise NetgrainError(f"a transformation is a name and perhaps a number, found {how!r}.") from e
    return TRANSFORMATIONS[name](X, y, number, generator)
