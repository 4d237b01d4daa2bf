"""What the trace of a network tells of its cost, and of the grids of positions inside it."""

from __future__ import annotations

import math

from netgrain.families.reading import Reading
from netgrain.families.trace import WEIGHTED, Trace, weights_in

UNKNOWN = 5e9  # operations of a network that cannot be traced
UNKNOWN_BYTES = 2**27  # what a point takes in it


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


def bytes_of_a_point(reading: Reading) -> int:
    """What a pass forward and back holds for one point: the outputs of all steps, in single precision.

    >>> from torch import nn
    >>> from netgrain.families.reading import read
    >>> bytes_of_a_point(read(lambda: nn.Sequential(nn.Linear(3, 5), nn.ReLU()), (3,)))
    40
    """
    trace = reading.trace
    if not isinstance(trace, Trace):
        return UNKNOWN_BYTES
    # the trace has two inputs
    return sum(4 * math.prod(shape) // 2 for step in trace.steps for shape in step.shapes)


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
    grid, maps = _maps_behind(reading, layer, math.prod(positions))
    if not grid:
        return positions, (positions,)
    smallest = grid
    for shape in maps:
        if 1 < math.prod(shape) <= math.prod(smallest):
            smallest = shape
    return grid, tuple(dict.fromkeys(p for p in (_strides(grid, smallest), grid) if math.prod(p) > 1))


def strides_behind(reading: Reading, layer: str, positions: int) -> tuple[tuple[int, ...], ...]:
    """How many positions of a layer's output one position of every coarser map behind it stands for, ascending.

    >>> from torch import nn
    >>> from netgrain.families.reading import read
    >>> def make():
    ...     return nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.MaxPool2d(2), nn.MaxPool2d(2), nn.Flatten())
    >>> strides_behind(read(make, (1, 8, 8)), "0", 64)
    ((2, 2), (4, 4))
    """
    grid, maps = _maps_behind(reading, layer, positions)
    found = {_strides(grid, shape) for shape in maps if math.prod(shape) > 1}
    return tuple(sorted((s for s in found if math.prod(s) > 1), key=math.prod))


def _maps_behind(reading: Reading, layer: str, positions: int) -> tuple[tuple[int, ...], list[tuple[int, ...]]]:
    """The grid of a layer's output, empty if it is not known, and those of all maps of as many axes behind it."""
    trace = reading.trace
    grid: tuple[int, ...] = ()
    maps: list[tuple[int, ...]] = []
    for step in trace.steps if isinstance(trace, Trace) else ():
        shape = tuple(step.shapes[0][2:]) if step.shapes else ()
        if not grid:
            grid = shape if step.module == layer and math.prod(shape) == positions else ()
        elif len(shape) == len(grid):
            maps.append(shape)
    return grid, maps


def _strides(grid: tuple[int, ...], coarse: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(max(1, round(n / m)) for n, m in zip(grid, coarse, strict=True))
