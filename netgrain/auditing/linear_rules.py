"""A linear rule: the discriminant learnt on one half of the samples and tried on the other, in parts of the space.

No network is trained for it. It shows how much linear signal the data have in which directions. Where a part has more
dimensions than there are samples, the rule is solved among the samples (by the identity of Woodbury), so that no
covariance matrix of the inputs is needed.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

SHRINK = 0.1  # of the within-class covariance towards a multiple of the identity, at least


@dataclass(frozen=True, eq=False)
class Part:
    """Samples in a part of the input space: coordinates where there are few, else the products of the samples."""

    dims: int
    coordinates: Tensor | None = None  # (samples, dims)
    products: Tensor | None = None  # (samples, samples)

    @classmethod
    def of(cls, coordinates: Tensor) -> Part:
        """By coordinates, or by products where there are more of those than half of the samples."""
        n, dims = coordinates.shape
        return cls(dims, coordinates) if 2 * dims <= n else cls(dims, products=coordinates @ coordinates.T)


def linear_accuracy(part: Part, y: Tensor, halves: tuple[Tensor, Tensor]) -> float:
    """The share of samples that a rule of the other half gets right; halves are indices.

    >>> y = torch.arange(40) % 2
    >>> X = torch.randn(40, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    >>> X[:, 0] += 20 * y
    >>> [linear_accuracy(Part.of(X), y, (torch.arange(20), torch.arange(20, 40))),
    ...  linear_accuracy(Part(3, products=X @ X.T), y, (torch.arange(20), torch.arange(20, 40)))]
    [1.0, 1.0]
    """
    classes = int(y.max()) + 1
    right = 0
    for learn, test in (halves, halves[::-1]):
        counts = torch.bincount(y[learn], minlength=classes).double()
        averages, by = _averages(y[learn], classes), _by_products if part.coordinates is None else _by_coordinates
        scores = by(part, averages, learn, test)
        prior = (counts / counts.sum()).clamp(min=1e-12).log()
        prior[counts == 0] = -torch.inf
        right += int(((scores + prior).argmax(1) == y[test]).sum())
    return right / sum(len(half) for half in halves)


def _averages(y: Tensor, classes: int) -> Tensor:
    """(classes, samples): row c takes the mean over class c (zero where there is none)."""
    chosen = torch.nn.functional.one_hot(y, classes).double().T
    return chosen / chosen.sum(1, keepdim=True).clamp(min=1)


def _own(averages: Tensor) -> Tensor:
    """(classes, samples): 1 where a sample is of the class."""
    return (averages > 0).double()


def _by_coordinates(part: Part, averages: Tensor, learn: Tensor, test: Tensor) -> Tensor:
    assert part.coordinates is not None
    Z = part.coordinates[learn]
    mean, means = Z.mean(0), averages @ Z
    within = Z - _own(averages).T @ means
    W, M = within.T @ within / len(Z), means - mean
    rule = torch.linalg.solve(shrunk(W, len(Z)), M.T)  # (dims, classes)
    found: Tensor = (part.coordinates[test] - mean) @ rule - 0.5 * (M * rule.T).sum(1)
    return found


def _by_products(part: Part, averages: Tensor, learn: Tensor, test: Tensor) -> Tensor:
    """The same with W = AᵀA / n, A the samples without their class means: (aW + rI)⁻¹ = (I − Aᵀ(AAᵀ + rn/a)⁻¹A) / r."""
    assert part.products is not None
    n = len(learn)
    K = part.products[learn][:, learn]
    centre = averages - 1 / n  # M = centre · X, since rows of a class without samples are not used
    across = part.products[test][:, learn] - K.mean(0)  # (test, learn), test samples without the mean of the others
    inside = torch.eye(n, dtype=torch.float64) - _own(averages).T @ averages  # A = inside · X
    AA = inside @ K @ inside.T
    shrink, ridge = _shrinkage(float(AA.trace()) / n / part.dims, part.dims, n)
    AM = inside @ K @ centre.T  # (n, classes)
    AA.diagonal().add_(ridge * n / (1 - shrink))
    solved = torch.linalg.solve(AA, AM)
    of_test = (across @ centre.T - across @ inside.T @ solved) / ridge
    of_means = (((centre @ K) * centre).sum(1) - (AM * solved).sum(0)) / ridge
    found: Tensor = of_test - 0.5 * of_means
    return found


def shrunk(covariance: Tensor, samples: int) -> Tensor:
    """A covariance within classes, drawn towards a multiple of the identity; the more, the fewer samples it is from."""
    dims = len(covariance)
    shrink, ridge = _shrinkage(float(covariance.diagonal().mean()), dims, samples)
    return (1 - shrink) * covariance + ridge * torch.eye(dims, dtype=torch.float64)


def _shrinkage(variance: float, dims: int, samples: int) -> tuple[float, float]:
    """How far towards the identity, and what is added to the diagonal."""
    shrink = min(max(SHRINK, dims / samples), 0.9)
    return shrink, max(variance * shrink, 1e-12)
