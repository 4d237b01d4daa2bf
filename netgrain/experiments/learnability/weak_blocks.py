"""Data projected on directions whose gain lies in a range, or that are lost before the first activation.

Directions are the eigenvectors of one sampled G. Their gains are measured with the networks of another one, because the
smallest eigenvalues of a sample are too small. What is lost is read off the traced network.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor

from netgrain.auditing.gains import relative_gains
from netgrain.auditing.invisible import invisible_within
from netgrain.experiments.learnability.tasks import TaskData
from netgrain.families.members import Family
from netgrain.families.probes import Data
from netgrain.geometry.average import average_geometry
from netgrain.geometry.value import Geometry
from netgrain.runtime.errors import NetgrainError

ZERO = 1e-12  # eigenvalues below this share of the largest: candidates for what is lost
FEWEST = 2  # directions of a block


@dataclass(frozen=True, eq=False)
class Block:
    """Directions (m, d) whose gains lie in [low, high); both are 0 for what is lost."""

    low: float
    high: float
    vectors: Tensor

    @property
    def lost(self) -> bool:
        return self.high == 0


@dataclass(frozen=True, eq=False)
class Grain:
    """Directions of a family by their gain at the data, and two geometries that measure the gain of any data."""

    vectors: Tensor  # (k, d) orthonormal rows that are not lost
    gains: Tensor  # (k,) relative to an average direction
    lost: Tensor  # (m, d) orthonormal rows
    at_data: Geometry
    at_origin: Geometry | None

    @classmethod
    def of(cls, make: Family, X: Tensor, *, members: int, seed: int) -> Grain:
        """At samples X (points, *shape), from so many networks for the directions and as many for the gains."""
        shape = tuple(X.shape[1:])
        first, second = (
            average_geometry(make, shape, probe=Data(X), members=members, seed=s, progress=False)
            for s in (seed, seed + 1)
        )
        values, columns = torch.linalg.eigh(first.matrix().double())
        zero = values <= ZERO * float(values[-1])
        lost = columns.T[:0]
        if bool(zero.any()):
            lost = invisible_within(make, columns.T[zero].reshape(-1, *shape), seed=seed)
        rest = torch.cat([columns.T[~zero], _beside(columns.T[zero], lost)])
        return cls(rest, relative_gains(second, rest)[0], lost, second, _at_origin(make, shape, members, seed + 1))

    def blocks(self, edges: Sequence[float]) -> list[Block]:
        """Directions between successive edges, which descend, and those that are lost; blocks with too few left out."""
        found = [
            Block(low, high, self.vectors[(self.gains >= low) & (self.gains < high)]) for high, low in pairwise(edges)
        ]
        return [b for b in (*found, Block(0.0, 0.0, self.lost)) if len(b.vectors) >= FEWEST]


def _beside(span: Tensor, lost: Tensor) -> Tensor:
    """The part of a span (k, d) of orthonormal rows beside some of it: orthonormal rows."""
    if not len(span):
        return span
    _, values, rows = torch.linalg.svd(span - (span @ lost.T) @ lost, full_matrices=False)
    found: Tensor = rows[values > 0.5]
    return found


def _at_origin(make: Family, shape: tuple[int, ...], members: int, seed: int) -> Geometry | None:
    try:
        return average_geometry(make, shape, members=members, seed=seed, progress=False)
    except NetgrainError:  # a family that has no geometry there
        return None


def gain_of(G: Geometry, X: Tensor) -> float:
    """The gain of data: Σ xᵀGx / Σ ‖x‖² · d / tr G over samples (n, *shape).

    Samples along the first of two directions, of which it has all the gain:

    >>> gain_of(Geometry.from_matrix(torch.diag(torch.tensor([1.0, 0.0]))), torch.tensor([[2.0, 0.0], [-1.0, 0.0]]))
    2.0
    """
    flat = X.flatten(1).double()
    return float((flat * G.form.matvec(flat)).sum() / flat.square().sum() * (G.d / G.form.trace()))


def projected(data: TaskData, block: Block, *, scaled: bool) -> TaskData:
    """The samples without their mean, projected on a block.

    scaled: multiplied so that the mean squared norm is that of all directions, over the samples that train.
    """
    mean = data.train[0].double().mean(0)
    whole = float((data.train[0].double() - mean).square().sum())

    def inside(X: Tensor) -> Tensor:
        flat = (X.double() - mean).flatten(1)
        return (flat @ block.vectors.T @ block.vectors).reshape(X.shape)

    some = inside(data.train[0])
    factor = math.sqrt(whole / float(some.square().sum())) if scaled else 1.0
    parts = ((factor * inside(X)).float() for X in (data.train[0], data.validation[0], data.test[0]))
    train, validation, test = zip(parts, (data.train[1], data.validation[1], data.test[1]), strict=True)
    return TaskData(train, validation, test, torch.zeros_like(data.zero))
