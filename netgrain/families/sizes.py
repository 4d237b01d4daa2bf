"""What the trace of a network tells of its cost, and of the grids of positions inside it."""

from __future__ import annotations

import math

from netgrain.families.reading import Reading
from netgrain.families.trace import WEIGHTED, Trace, weights_in

UNKNOWN = 5e9  # operations of a network that cannot be traced


def operations(reading: Reading) -> float:
    """Floating-point operations of one forward pass at one point, those of linear layers and convolutions.

    >>> from torch import nn
    >>> from netgrain.families.reading import read
    >>> operations(read(lambda: nn.Linear(3, 5), (3,)))
    30.0
    """
    trace = reading.trace
    if not isinstance(trace, Trace):
        return UNKNOWN
    shapes = {name: tuple(p.shape) for name, p in reading.model.named_parameters()}
    total = 0.0
    for step in trace.steps:
        if step.name not in WEIGHTED:
            continue
        largest = max(
            (shapes[w.name] for w in weights_in((step.args, step.kwargs)) if w.name in shapes),
            key=math.prod,
            default=(),
        )
        if largest:
            # every output sums over the entries of its own filter; the trace has two inputs
            each = math.prod(largest[1:])
            total += 2 * each * math.prod(step.shapes[0]) / 2
    return total or UNKNOWN


def lattices(
    reading: Reading, layer: str, positions: tuple[int, ...]
) -> tuple[tuple[int, ...], tuple[tuple[int, ...], ...]]:
    """The positions at a layer's output as a grid, and the periods of lattices on it that gradients may keep to.

    One is the stride from there to the smallest map of more than one position; the other keeps the diagonal alone.
    positions: their grid as far as it is known without a trace, of one axis where only their number is.

    >>> from torch import nn
    >>> from netgrain.families.reading import read
    >>> def make():
    ...     return nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.Conv2d(4, 4, 2, 2), nn.Flatten(), nn.Linear(64, 2))
    >>> lattices(read(make, (1, 8, 8)), "0", (64,))
    ((8, 8), ((2, 2), (8, 8)))
    """
    trace = reading.trace
    if not isinstance(trace, Trace):
        return positions, (positions,)
    grid: tuple[int, ...] = ()
    smallest: tuple[int, ...] = ()
    for step in trace.steps:
        shape = step.shapes[0][2:] if step.shapes else ()
        if not grid:
            grid = tuple(shape) if step.module == layer and math.prod(shape) == math.prod(positions) else ()
        elif len(shape) == len(grid) and 1 < math.prod(shape) <= math.prod(smallest or grid):
            smallest = tuple(shape)
    if not grid:
        return positions, (positions,)
    strided = tuple(max(1, round(n / m)) for n, m in zip(grid, smallest or grid, strict=True))
    return grid, tuple(dict.fromkeys(p for p in (strided, grid) if math.prod(p) > 1))
