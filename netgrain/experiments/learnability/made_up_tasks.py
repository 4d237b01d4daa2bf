"""Samples that are made up: marks, stripes, signals, random fields, dots, rings, and labels over random tables.

A rule takes a number of samples and a random generator; images have shape (n, 1, 16, 16), tables (n, features, 1, 1).
Signals have 256 values, which stand row by row in an image.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

SIZE = 16
LENGTH = SIZE * SIZE
Made = tuple[Tensor, Tensor]


def _classes(n: int, count: int, generator: torch.Generator) -> Tensor:
    return torch.randint(count, (n,), generator=generator)


def _uniform(shape: tuple[int, ...], low: float, high: float, generator: torch.Generator) -> Tensor:
    return low + (high - low) * torch.rand(shape, generator=generator)


def _normal(*shape: int, generator: torch.Generator) -> Tensor:
    return torch.randn(shape, generator=generator)


def _folded(signals: Tensor) -> Tensor:
    return signals.reshape(len(signals), 1, SIZE, SIZE)


# --- tuning ---------------------------------------------------------------------------------------------------------

MARKS = torch.tensor(
    [[[0, 1, 0], [1, 1, 1], [0, 1, 0]], [[1, 0, 1], [0, 1, 0], [1, 0, 1]], [[1, 1, 1], [1, 0, 0], [1, 0, 0]]]
).float()  # a plus, a cross and a corner


def marks(n: int, generator: torch.Generator) -> Made:
    """One of three marks of 3 × 3 pixels anywhere in noise."""
    y = _classes(n, len(MARKS), generator)
    X = 0.5 * _normal(n, 1, SIZE, SIZE, generator=generator)
    places = torch.randint(SIZE - 2, (n, 2), generator=generator).tolist()
    for x, label, (a, b) in zip(X, y.tolist(), places, strict=True):
        x[0, a : a + 3, b : b + 3] += 2 * MARKS[label]
    return X, y


def stripes(n: int, generator: torch.Generator) -> Made:
    """Stripes in four directions with any phase and period, in noise."""
    y = _classes(n, 4, generator)
    angle = y * math.pi / 4
    phase, period = _uniform((n,), 0, 2 * math.pi, generator), _uniform((n,), 3, 6, generator)
    r = torch.arange(SIZE).float()
    along = angle.cos()[:, None, None] * r[:, None] + angle.sin()[:, None, None] * r
    waves = (2 * math.pi * along / period[:, None, None] + phase[:, None, None]).sin()
    return (waves + _normal(n, SIZE, SIZE, generator=generator))[:, None], y


def friedman(n: int, generator: torch.Generator) -> Made:
    """10 sin(π x₁x₂) + 20 (x₃ − ½)² + 10 x₄ + 5 x₅ of ten uniform features, in three equal classes."""
    x = torch.rand(n, 10, generator=generator)
    value = 10 * (math.pi * x[:, 0] * x[:, 1]).sin() + 20 * (x[:, 2] - 0.5).square() + 10 * x[:, 3] + 5 * x[:, 4]
    value = value + _normal(n, generator=generator)
    edges = value.quantile(torch.tensor([1 / 3, 2 / 3]))
    return x[:, :, None, None], torch.bucketize(value, edges)


# --- signals --------------------------------------------------------------------------------------------------------


def chirps(n: int, generator: torch.Generator) -> Made:
    """A frequency that rises from 4 to 24 periods, or falls, with any phase, in noise."""
    y = _classes(n, 2, generator)
    t = torch.arange(LENGTH) / LENGTH
    low, high = _uniform((n, 1), 3, 6, generator), _uniform((n, 1), 18, 28, generator)
    turns = low * t + (high - low) * t.square() / 2  # the integral of a frequency that rises from low to high
    waves = (2 * math.pi * (turns + torch.rand(n, 1, generator=generator))).sin()
    waves = torch.where(y.bool()[:, None], waves.flip(1), waves)
    return _folded(waves + 0.5 * _normal(n, LENGTH, generator=generator)), y


def periods(n: int, generator: torch.Generator) -> Made:
    """A wave with one of four periods (5, 7, 9, 11 values) and any phase, in noise."""
    y = _classes(n, 4, generator)
    t = torch.arange(LENGTH).float()
    waves = (2 * math.pi * (t / (5 + 2 * y[:, None]) + torch.rand(n, 1, generator=generator))).sin()
    return _folded(waves + _normal(n, LENGTH, generator=generator)), y


def pulses(n: int, generator: torch.Generator) -> Made:
    """A short and a long pulse, anywhere and apart; the label says which comes first."""
    y = _classes(n, 2, generator)
    X = 0.3 * _normal(n, LENGTH, generator=generator)
    first = torch.randint(LENGTH // 2 - 24, (n,), generator=generator).tolist()
    second = (LENGTH // 2 + torch.randint(LENGTH // 2 - 24, (n,), generator=generator)).tolist()
    for x, label, a, b in zip(X, y.tolist(), first, second, strict=True):
        short, long = (b, a) if label else (a, b)
        x[short : short + 6] += 2
        x[long : long + 18] += 2
    return _folded(X), y


def memories(n: int, generator: torch.Generator) -> Made:
    """x_t = a x_{t−1} + noise with a of −0.4, 0.2 or 0.8, and variance 1."""
    y = _classes(n, 3, generator)
    a = torch.tensor([-0.4, 0.2, 0.8])[y]
    noise = _normal(n, LENGTH, generator=generator)
    columns = [noise[:, 0]]
    for t in range(1, LENGTH):
        columns.append(a * columns[-1] + (1 - a.square()).sqrt() * noise[:, t])
    return _folded(torch.stack(columns, 1)), y


# --- textures and shapes --------------------------------------------------------------------------------------------


def roughness(n: int, generator: torch.Generator) -> Made:
    """Random fields whose power falls with frequency as f^−e, e of 0.5, 1.5, 2.5 or 3.5; variance 1."""
    y = _classes(n, 4, generator)
    f = torch.fft.fftfreq(SIZE) * SIZE
    radius = (f[:, None].square() + f.square()).sqrt().clamp(min=1.0)
    weights = radius ** (-(y[:, None, None] + 0.5) / 2)
    weights[:, 0, 0] = 0.0  # no mean
    fields = torch.fft.ifft2(torch.fft.fft2(_normal(n, SIZE, SIZE, generator=generator)) * weights).real
    return (fields / fields.flatten(1).std(1)[:, None, None])[:, None], y


def dots(n: int, generator: torch.Generator) -> Made:
    """24 dots: scattered evenly, or around four centres; the number is the same."""
    y = _classes(n, 2, generator)
    even = _uniform((n, 24, 2), 0, SIZE, generator)
    centres = _uniform((n, 4, 2), 2, SIZE - 2, generator).repeat_interleave(6, 1)
    near = centres + 1.2 * _normal(n, 24, 2, generator=generator)
    places = torch.where(y.bool()[:, None, None], near, even).floor().long() % SIZE
    X = torch.zeros(n, LENGTH)
    X.scatter_add_(1, places[..., 0] * SIZE + places[..., 1], torch.ones(n, 24))
    X = X.clamp(max=1.0)
    return _folded(X + 0.2 * _normal(n, LENGTH, generator=generator)), y


def rings(n: int, generator: torch.Generator) -> Made:
    """A ring anywhere, closed or with a gap of a quarter in any direction, in noise."""
    y = _classes(n, 2, generator)
    centre, radius = _uniform((n, 2, 1, 1), 5, SIZE - 6, generator), _uniform((n, 1, 1), 3, 4.5, generator)
    gap = _uniform((n, 1, 1), -math.pi, math.pi, generator)
    r = torch.arange(SIZE).float()
    down, right = r[:, None] - centre[:, 0], r - centre[:, 1]
    on = ((down.square() + right.square()).sqrt() - radius).abs() < 0.75
    apart = (torch.atan2(down, right) - gap + math.pi) % (2 * math.pi) - math.pi
    on &= ~(y.bool()[:, None, None] & (apart.abs() < math.pi / 4))
    return (on.float() + 0.3 * _normal(n, SIZE, SIZE, generator=generator))[:, None], y


# --- tables ---------------------------------------------------------------------------------------------------------


def sphere(n: int, generator: torch.Generator) -> Made:
    """Ten normal features; the label says whether their squares sum to more than 9.34, the median."""
    x = _normal(n, 10, generator=generator)
    return x[:, :, None, None], (x.square().sum(1) > 9.34).long()


def product(n: int, generator: torch.Generator) -> Made:
    """Eight normal features; the label is the sign of x₁x₂ + x₃/2."""
    x = _normal(n, 8, generator=generator)
    return x[:, :, None, None], (x[:, 0] * x[:, 1] + x[:, 2] / 2 > 0).long()


TABLE_RULES = ("friedman", "sphere", "product")  # whose samples are rows of a table
RULES: dict[str, Callable[[int, torch.Generator], Made]] = {
    rule.__name__: rule
    for rule in (
        *(marks, stripes, friedman),
        *(chirps, periods, pulses, memories),
        *(roughness, dots, rings),
        *(sphere, product),
    )
}
