"""How much of a label lies where a family reacts most: class means, a linear rule, and a test for what is not linear.

Directions v_i are the eigenvectors of G, λ_i their eigenvalues. The leading ones carry 99 % of tr G (whole blocks of
equal eigenvalues); the others are the weak ones. For an MLP at the origin all are leading. This is what fresh networks
react to, not what they can learn: on digits a ResNet18 trained on the weak directions alone gets as many right as a
linear rule does there (docs/audit.md).

Of large inputs only a few directions are known; all others together count as one part, and what belongs to single ones
of them is not measured.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import torch
from torch import Tensor

from netgrain.auditing.axes import Axes
from netgrain.auditing.distance_correlations import FOLDS, Dependence, dependence
from netgrain.auditing.linear_rules import Part, linear_accuracy
from netgrain.auditing.scales import PARTS, Energies, class_energies, number_energies, shown_share, variance_energies
from netgrain.geometry.estimate import Estimate
from netgrain.runtime.errors import NetgrainError
from netgrain.runtime.randomness import generator_for
from netgrain.runtime.samples import check_two_classes, checked_labels, checked_samples

SAMPLES = 2000  # that are looked at, unless asked otherwise
PRODUCTS = 5 * 10**10  # multiplications for the products of all pairs of samples: fewer samples of large inputs
DROPPED = (0.5, 0.7, 0.9, 0.95)  # shares of tr G whose directions are also tried alone
UNKNOWN = Estimate(math.nan)


@dataclass(frozen=True, eq=False)
class Relevance:
    """Where variance and labels of a data set lie along the axes of a family; NaN where it was not measured."""

    samples: int  # that were looked at
    variance: Tensor  # (directions,) of the data along each
    total_variance: float  # along all directions of the input space
    spectrum: Tensor  # (directions,) eigenvalues of the data's own covariance, descending
    explained: Tensor  # (directions,) share of the variance along each that the label explains, bias-corrected, 0 … 1
    variance_leading: Estimate  # share of all variance
    means_leading: Estimate  # share of the distances between class means, or of the covariance with numbers
    linear: dict[str, Estimate]  # accuracy of a linear rule on "all", "leading", "weak" directions
    by_count: dict[int, Estimate]  # the same on so many leading directions: what dropping the others costs
    chance: float  # share of the largest class
    dependence_leading: Estimate  # share of the dependence found; NaN where it is no more than chance gives
    reaction: Estimate  # to the directions that carry the label, relative to an average one
    found: Dependence = field(repr=False)
    d: int

    @property
    def mean_variance(self) -> float:
        """The variance along an average direction."""
        return self.total_variance / self.d

    @property
    def tested(self) -> Tensor:
        """Indices of the directions that were tested for dependence."""
        return self.found.tested

    @property
    def dependence(self) -> Tensor:
        """Squared distance correlation with the label along them, above chance; 0 for independence."""
        return self.found.found

    @property
    def dependent(self) -> bool:
        """Whether single directions tell more about the label than they do about permuted labels."""
        return self.found.shown


def relevance(axes: Axes, X: Tensor, y: Tensor | None, *, seed: int = 0, samples: int = SAMPLES) -> Relevance:
    """X (samples, *shape) with labels y (samples,): classes, numbers in floating point, or None.

    The reaction is the eigenvalue where the label is over the mean one, Σ p_i λ_i / (tr G / d), p_i the share of the
    label's dependence on direction i (its squared distance correlation above what permuted labels give): 1 for a label
    anywhere, more for one in the grain, nearly 0 for one along directions to which fresh networks hardly react. It is
    no prediction of accuracy. Errors are over parts of the samples. At most `samples` of them are looked at, chosen by
    the seed, and fewer of large inputs.
    """
    X = checked_samples(X).cpu()
    _check_samples(axes, X)
    y, numbers = _labels(y, len(X))
    order = torch.randperm(len(X), generator=generator_for(seed, "relevance"))[: most_samples(axes.d, samples)]
    X, y = X[order].flatten(1).float(), None if y is None else y[order]
    X = X - X.mean(0, dtype=torch.float64).float()
    coordinates = torch.cat([some.double() @ axes.vectors.T for some in X.split(max(1, 2**24 // axes.d))])
    inside = _LeadingAndRest(axes.vectors[: axes.leading], X.shape[1:])
    variances = variance_energies(X, inside, seed=seed)
    few = axes.complete and axes.d <= len(X)
    products = coordinates[:, :0] if few else _products(X)  # used by the spectrum and by the linear rule
    variance = coordinates.var(0, correction=0)
    spectrum = _spectrum(axes, len(X), coordinates.T @ coordinates if few else products)
    by_class = y is not None and not numbers
    found = (
        dependence(coordinates, y, seed=seed) if by_class and axes.complete and y is not None else Dependence.nothing()
    )
    share, reaction = found.located(axes.values, axes.leading, axes.mean) if found.without else (UNKNOWN, UNKNOWN)
    linear, by_count = _linear(axes, coordinates, y, products) if by_class and y is not None else (_no_rule(), {})
    return Relevance(
        samples=len(X),
        variance=variance,
        total_variance=variances.total().value,
        spectrum=spectrum,
        explained=_explained(coordinates, y, numbers),
        variance_leading=variances.share(0),
        means_leading=_means_inside(X, y, inside, numbers, seed),
        linear=linear,
        by_count=by_count,
        chance=float(torch.bincount(y).max() / len(y)) if by_class and y is not None else math.nan,
        dependence_leading=share if found.shown else UNKNOWN,
        reaction=reaction,
        found=found,
        d=axes.d,
    )


def most_samples(d: int, samples: int = SAMPLES) -> int:
    """How many samples of so many entries are looked at, so that the products of all pairs stay cheap.

    >>> most_samples(3 * 32 * 32), most_samples(3 * 224 * 224)
    (2000, 576)
    """
    return min(samples, math.isqrt(PRODUCTS // d))


def _check_samples(axes: Axes, X: Tensor) -> None:
    entries = X[0].numel()
    if entries != axes.d:
        raise NetgrainError(f"the data have {entries} entries a sample, the network takes {axes.d}.")
    if len(X) < 4 * FOLDS:
        raise NetgrainError(f"{len(X)} samples are too few to locate the label; expected at least {4 * FOLDS}.")


def _labels(y: Tensor | None, n: int) -> tuple[Tensor | None, bool]:
    """The labels, and whether they are numbers."""
    if y is None:
        return None, False
    if torch.is_tensor(y) and y.is_floating_point():
        return y.detach().cpu().double(), True
    y = checked_labels(y, n).cpu()
    check_two_classes(y)
    return y, False


@dataclass(frozen=True, eq=False)
class _LeadingAndRest:
    """Two parts of the input space: the span of some orthonormal rows, and what is at right angles to it."""

    rows: Tensor  # (k, d)
    shape: tuple[int, ...]

    def __len__(self) -> int:
        return 2

    def energies(self, V: Tensor) -> Tensor:
        """‖V_k v‖² and the rest of ‖v‖² of vectors (n, d)."""
        found = []
        for some in V.split(max(1, 2**24 // V.shape[1])):
            inside, whole = (some.double() @ self.rows.T).square().sum(1), some.double().square().sum(1)
            found.append(torch.stack([inside, (whole - inside).clamp(min=0)], 1))
        return torch.cat(found)


def _means_inside(X: Tensor, y: Tensor | None, inside: _LeadingAndRest, numbers: bool, seed: int) -> Estimate:
    """The share of the distances between class means in the leading directions; NaN where none is above its error."""
    if y is None:
        return UNKNOWN
    found: Energies = (number_energies if numbers else class_energies)(X, y, inside, seed=seed)
    if shown_share(found, 0, 1) is None:
        return UNKNOWN
    share = found.share(0)
    return Estimate(min(max(share.value, 0.0), 1.0), share.stderr, PARTS)


def _spectrum(axes: Axes, n: int, gram: Tensor) -> Tensor:
    """Eigenvalues of the covariance of n centred samples, as many as there are axes, from products of all pairs."""
    values = torch.linalg.eigvalsh(gram).flip(0).clamp(min=0) / n
    out = torch.zeros(len(axes.values), dtype=torch.float64)
    out[: len(values)] = values[: len(out)]
    return out


def _products(X: Tensor) -> Tensor:
    """The products of all pairs of samples, float32 over short pieces of the entries, added up in float64."""
    total = torch.zeros(len(X), len(X), dtype=torch.float64)
    for columns in X.split(4096, dim=1):
        total += columns @ columns.T
    return total


def _explained(coordinates: Tensor, y: Tensor | None, numbers: bool) -> Tensor:
    """The share of the variance along each direction that the label explains, without what chance gives it."""
    n = len(coordinates)
    if y is None:
        return torch.full((coordinates.shape[1],), math.nan, dtype=torch.float64)
    if numbers:
        Y = y.reshape(n, -1)
        basis = torch.linalg.qr(Y - Y.mean(0))[0]  # orthonormal functions of the label
    else:
        counts = torch.bincount(y).double()
        chosen = torch.nn.functional.one_hot(y).double()[:, counts > 0]
        basis = chosen / counts[counts > 0].sqrt()
    Z = coordinates - coordinates.mean(0)
    total, raw = Z.square().sum(0), (basis.T @ Z).square().sum(0)
    free = basis.shape[1] - (0 if numbers else 1)
    within = (total - raw).clamp(min=0) / max(n - 1 - free, 1)
    share: Tensor = (raw - within * free) / total.clamp(min=1e-12 * max(float(total.max()), 1e-300))
    return share.clamp(0, 1)


def _no_rule() -> dict[str, Estimate]:
    return dict.fromkeys(("all", "leading", "weak"), UNKNOWN)


def _linear(
    axes: Axes, coordinates: Tensor, y: Tensor, products: Tensor
) -> tuple[dict[str, Estimate], dict[int, Estimate]]:
    """Accuracy of the linear rule in all, leading and weak directions, and in fewer and fewer leading ones."""
    n, k = len(coordinates), axes.leading
    halves = torch.arange(n // 2), torch.arange(n // 2, n)
    cumulative = axes.values.cumsum(0) / axes.trace
    some = {int((cumulative < share).sum()) + 1 for share in DROPPED if float(cumulative[-1]) >= share}
    counts = sorted(some - {k, axes.d})

    def accuracy(part: Part) -> Estimate:
        if not part.dims:
            return UNKNOWN
        share = linear_accuracy(part, y, halves)
        return Estimate(share, math.sqrt(share * (1 - share) / n), n)

    whole = Part.of(coordinates) if axes.complete else Part(axes.d, products=products)
    first = coordinates[:, :k]
    rest = Part.of(coordinates[:, k:]) if axes.complete else Part(axes.d - k, products=products - first @ first.T)
    leading = accuracy(Part.of(first))
    by_count = {m: accuracy(Part.of(coordinates[:, :m])) for m in counts}
    return {"all": accuracy(whole), "leading": leading, "weak": accuracy(rest)}, by_count | {k: leading}
