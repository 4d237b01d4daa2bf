"""NNGP and tangent kernel by closed form: the samples are one more axis of positions of a pass of second moments.

Between positions p, p' of two samples x, z a channel has E[v(x, p) v(z, p')], and every rule of `closed_form` acts on
positions as it always does: the arc-cosine recursion of multi-layer networks and its convolutional form come out of the
same pass as G. The tangent kernel adds up, at every layer, products of second moments of gradients with those of inputs.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from netgrain.closed_form.channels import NeedsMembers
from netgrain.closed_form.moments import largest
from netgrain.closed_form.propagation import Propagation
from netgrain.families.activations import recorded_activation
from netgrain.families.batch_statistics import tracking_norms
from netgrain.families.reading import Reading
from netgrain.families.trace import WEIGHTED, Step, Unsupported
from netgrain.learning.kernel_value import KernelKind

CHEAP = 2e8  # entries of all moments of one layer: some ten seconds
WIDE_FAN_IN = 100  # weights per unit of a first layer above which it does not matter that they are not normal
NARROW = 4  # channels below which a wide limit is not taken without being asked for


@dataclass(frozen=True, eq=False)
class ClosedKernel:
    """A kernel without members."""

    matrix: Tensor  # (n, m) float64
    mean_diagonal: float  # over X
    exact: bool  # at any width


def closed_kernel(reading: Reading, X: Tensor, Z: Tensor | None, kind: KernelKind, *, cheap: bool) -> ClosedKernel:
    """E[φ(x)·φ(z)] or E[Θ(x, z)]; Unsupported names the step that has none.

    cheap: refuse what takes long, and limits of narrow layers.
    """
    if kind == "layers":
        raise Unsupported("features of every layer are scaled member by member")
    if cheap and tracking_norms(reading.model):
        raise Unsupported("batch norms are calibrated on the samples")
    n = len(X)
    samples = X if Z is None else torch.cat([X, Z])
    matrix = torch.zeros(n, n if Z is None else len(Z), dtype=torch.float64)
    diagonal = torch.zeros(n, dtype=torch.float64)
    positions = _positions(reading)
    blocks = list(_blocks(n, len(samples), max(2, largest() // positions)))
    if cheap and (cost := sum((len(b) * positions) ** 2 for b, _ in blocks)) > CHEAP:
        raise Unsupported(f"a closed form over these samples has {cost:.1g} moments a layer")
    exact = True
    for chosen, rows in blocks:
        found, exact = _products(reading, samples[chosen], kind, cheap)
        diagonal[chosen[:rows]] = found.diagonal()[:rows]
        if Z is None:  # samples of both blocks are samples of X
            matrix[chosen[:, None], chosen[None, :]] = found
        else:
            matrix[chosen[:rows, None], chosen[None, rows:] - n] = found[:rows, rows:]
    return ClosedKernel(matrix, float(diagonal.mean()), exact)


def _blocks(n: int, total: int, most: int) -> Iterator[tuple[Tensor, int]]:
    """Numbers of samples that pass together, and how many of them are rows of X; every pair is in one of them."""
    if total <= most:
        yield torch.arange(total), n
        return
    half = max(1, most // 2)
    first = torch.arange(n).split(half)
    second = first if total == n else torch.arange(n, total).split(half)
    for i, a in enumerate(first):
        for j, b in enumerate(second):
            if total > n or i < j or (i == j and len(first) == 1):
                yield torch.cat([a, b]), len(a)


def _positions(reading: Reading) -> int:
    """Most positions of the output of a convolution."""
    shapes = (s.shapes[0] for s in reading.traced().steps if s.name in WEIGHTED and "conv" in s.name)
    return max((math.prod(shape[2:]) for shape in shapes), default=1)


def _products(reading: Reading, samples: Tensor, kind: KernelKind, cheap: bool) -> tuple[Tensor, bool]:
    """All pairs of some samples, and whether that is exact at any width."""
    trace = reading.traced()
    points = samples.double().movedim(0, -1)[None]
    run = Propagation(trace, reading.initialisation, "all", points=points, samples=True)
    try:
        if kind == "tangent":
            found = run.tangent_products()
            _check_all_collected(reading, run)
            exact = run.exact
        else:
            head = _head(reading)
            found = run.feature_products(head)
            exact = not any(recorded_activation(s) is not None for s in trace.steps[: head.index])
    except NeedsMembers as e:
        raise Unsupported(f"a step has no formula: {e}") from e
    if cheap and not exact and run.narrowest < NARROW:
        raise Unsupported(f"a layer sums over {run.narrowest} channels, too few for the wide limit")
    if cheap and not exact and run.fan_in is not None and run.fan_in < WIDE_FAN_IN:
        raise Unsupported(f"the first layer has {run.fan_in} weights a unit that are not normal")
    if run.left_out:
        raise Unsupported(run.left_out[0])
    return found, exact


def _head(reading: Reading) -> Step:
    """The last linear layer."""
    trace = reading.traced()
    needed = trace.needed()
    linear = [s for s in trace.steps if s.index in needed and s.name == "linear"]
    if not linear:
        raise Unsupported("the model does not end in a Linear layer")
    return linear[-1]


def _check_all_collected(reading: Reading, run: Propagation) -> None:
    tied = reading.initialisation.tied
    for name, _ in reading.model.named_parameters():
        if tied.get(name, name) not in run.collected:
            raise Unsupported(f"gradients by '{name}' have no rule")
