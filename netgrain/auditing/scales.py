"""How strongly a network reacts, how much data vary and where labels show, by the size of the pattern.

All three are energies in the orthogonal parts of the input space that netgrain.auditing.bands makes, so no d × d matrix
is needed, whatever the size of the input:

    gain      tr(P_b G) / dim_b over tr G / d, from Jᵀr at samples, r a random combination of the outputs
    variance  Σ ‖P_b(x − x̄)‖² over the sum of all parts
    labels    Σ_c π_c ‖P_b(μ_c − μ)‖² over the sum; ‖P_b Cov(x, y)‖² where labels are numbers

Squares of means are taken as products of means of different samples, so that noise does not count as a difference.
Errors are jackknife errors: over networks for gains, over sixteen parts of the samples for the others.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor, nn

from netgrain.auditing.bands import Bands
from netgrain.families.gradients import gradients
from netgrain.families.members import frozen, model_dtype
from netgrain.geometry.estimate import Estimate
from netgrain.runtime.errors import NetgrainError
from netgrain.runtime.randomness import generator_for

PARTS = 16  # of the samples, for error bars
SEEN = 3.0  # standard errors by which a difference between labels must be above zero before its parts are shown


class Parts(Protocol):
    """Orthogonal parts of the space of inputs of one shape, such as `Bands`."""

    @property
    def shape(self) -> tuple[int, ...]: ...

    def __len__(self) -> int: ...

    def energies(self, V: Tensor) -> Tensor:
        """‖P_b v‖² of vectors (n, *shape), (n, parts)."""


@dataclass(frozen=True, eq=False)
class Energies:
    """A quadratic quantity in each part of the input space, and what it would be without each piece of the evidence.

    value: (bands,). without: (pieces, bands), for the jackknife.
    """

    value: Tensor
    without: Tensor

    @classmethod
    def mean_of(cls, pieces: Tensor) -> Energies:
        """The mean of independent measurements (pieces, bands)."""
        total, n = pieces.sum(0), len(pieces)
        return cls(total / n, (total - pieces) / max(n - 1, 1))

    def joined(self, groups: Sequence[Sequence[int]]) -> Energies:
        """The same in unions of parts."""

        def join(E: Tensor) -> Tensor:
            return torch.stack([E[..., list(g)].sum(-1) for g in groups], -1)

        return Energies(join(self.value), join(self.without))

    def total(self) -> Estimate:
        """The sum over all parts."""
        return self._jackknifed(self.value.sum(), self.without.sum(1))

    def share(self, *bands: int) -> Estimate:
        """The share of some parts together.

        >>> Energies.mean_of(torch.tensor([[1.0, 3.0], [1.0, 3.0]])).share(0)
        0.25 (exact)
        """
        at = list(bands)
        return self._jackknifed(
            self.value[at].sum() / self.value.sum(), self.without[:, at].sum(1) / self.without.sum(1)
        )

    def gain(self, dims: Tensor, *bands: int) -> Estimate:
        """Energy for each dimension of some parts together, relative to that of the whole space."""
        found, size = self.share(*bands), float(dims[list(bands)].sum() / dims.sum())
        return Estimate(found.value / size, found.stderr / size, found.n)

    def _jackknifed(self, value: Tensor, without: Tensor) -> Estimate:
        n = len(without)
        error = math.sqrt((n - 1) * float(without.var(0, correction=0))) if n > 1 else math.nan
        return Estimate(float(value), error, n)


# --- what networks react to -------------------------------------------------------------------------------------------


def gradient_energies(models: Iterable[nn.Module], X: Tensor, bands: Bands, *, points: int, seed: int = 0) -> Energies:
    """tr(P_b G) for the G of these networks at the samples X, each network at so many of them: pieces are networks.

    A single network is taken at four times as many samples, and the pieces are its samples.

    Means of two neighbours lose the stripes, one of four dimensions; the others have a gain of 4/3:

    >>> from netgrain.auditing.bands import bands_of
    >>> bands = bands_of((1, 4))
    >>> found = gradient_energies([nn.Sequential(nn.AvgPool1d(2), nn.Flatten())], torch.randn(8, 1, 4), bands, points=2)
    >>> [round(found.gain(bands.dims, b).value, 6) for b in range(2)]
    [0.0, 1.333333]
    """
    models = list(models)
    pieces = [
        _rows(model, X, bands, i, points if len(models) > 1 else 4 * points, seed) for i, model in enumerate(models)
    ]
    if len(models) > 1:
        pieces = [piece.mean(0, keepdim=True) for piece in pieces]
    found = Energies.mean_of(torch.cat(pieces))
    if not float(found.value.sum()) > 0:
        raise NetgrainError(
            "the input gradient is exactly zero at the samples, so it does not show what the network reacts to; "
            "probe the features below the last layer, or give a trained checkpoint."
        )
    return found


def _rows(model: nn.Module, X: Tensor, bands: Bands, i: int, points: int, seed: int) -> Tensor:
    """Energies (points, bands) of Jᵀr, r a Gaussian combination of the outputs, so that its mean is that of JᵀJ."""
    generator = generator_for(seed, "scales", i)
    chosen = X[torch.randperm(len(X), generator=generator)[:points]]
    device = next((p.device for p in model.parameters()), X.device)

    def mixed(y: Tensor) -> Tensor:
        weights = torch.randn(y.shape, generator=generator)
        return (y * weights.to(y)).sum(1, keepdim=True)

    found = gradients(frozen(model), chosen.to(device, model_dtype(model)), mixed, at_once=points)
    return bands.energies(found.cpu())


# --- the data ---------------------------------------------------------------------------------------------------------


def sample_energies(X: Tensor, bands: Parts) -> Tensor:
    """‖P_b(x − x̄)‖² of each sample, (n, bands); the mean is that of all of them."""
    mean = _mean(X)
    return torch.cat([bands.energies(some - mean) for some in X.split(_slice(X))])


def variance_energies(X: Tensor, bands: Parts, *, energies: Tensor | None = None, seed: int = 0) -> Energies:
    """The variance of samples X (n, *shape) in each part; pieces are parts of the samples.

    energies: the `sample_energies`, if they are known.
    """
    energies = sample_energies(X, bands) if energies is None else energies
    order = torch.randperm(len(X), generator=generator_for(seed, "scales variance"))
    parts = order.chunk(min(PARTS, len(X)))
    sums = torch.stack([energies[part].sum(0) for part in parts])
    counts = torch.tensor([len(part) for part in parts], dtype=torch.float64)
    total, n = sums.sum(0), counts.sum()
    return Energies(total / n, (total - sums) / (n - counts).clamp(min=1)[:, None])


def class_energies(X: Tensor, y: Tensor, bands: Parts, *, energies: Tensor | None = None, seed: int = 0) -> Energies:
    """Σ_c π_c ‖P_b(μ_c − μ)‖² of classes y (n,), without bias; classes with one sample are left out.

    With S_c the sum over class c, ‖μ_c‖² is Σ_{i≠j} x_i·x_j / (n_c(n_c − 1)) = (‖S_c‖² − Σ‖x_i‖²) / (n_c(n_c − 1)).
    """
    mean = _mean(X)  # nothing depends on it but rounding
    energies = sample_energies(X, bands) if energies is None else energies
    # each part has nearly the same share of every class
    shuffled = torch.randperm(len(X), generator=generator_for(seed, "scales labels"))
    order = shuffled[y[shuffled].argsort(stable=True)]
    part = torch.empty(len(X), dtype=torch.int64)
    part[order] = torch.arange(len(X)) % PARTS
    whole, *without = (_ClassSums(bands) for _ in range(1 + PARTS))
    for label in y.unique():
        mine = (y == label).nonzero()[:, 0]
        sums = torch.zeros(PARTS, *X.shape[1:], dtype=torch.float64)
        for some in mine.split(_slice(X)):
            sums.index_add_(0, part[some], (X[some] - mean).double())
        squares = torch.zeros(PARTS, len(bands), dtype=torch.float64).index_add_(0, part[mine], energies[mine])
        counts = torch.bincount(part[mine], minlength=PARTS).tolist()
        everything = _Class.of(sums.sum(0), squares.sum(0), len(mine), bands)
        whole.add(everything)
        for p, count in enumerate(counts):
            rest = everything
            if count:
                rest = _Class.of(everything.sum - sums[p], everything.squares - squares[p], len(mine) - count, bands)
            without[p].add(rest)
    return Energies(whole.between(), torch.stack([w.between() for w in without]))


def _mean(X: Tensor) -> Tensor:
    return X.mean(0, dtype=torch.float64).to(X.dtype)


def _slice(X: Tensor) -> int:
    return max(1, 2**23 // X[0].numel())


@dataclass(frozen=True, eq=False)
class _Class:
    """Some samples of a class: their sum, its energies, the sum of their energies, and how many they are."""

    sum: Tensor  # (*shape)
    of_sum: Tensor  # (bands,)
    squares: Tensor  # (bands,)
    n: int

    @classmethod
    def of(cls, sum: Tensor, squares: Tensor, n: int, bands: Parts) -> _Class:
        return cls(sum, bands.energies(sum[None])[0], squares, n)


class _ClassSums:
    """What the difference between class means is made of, class after class: no more than one class is held."""

    def __init__(self, bands: Parts) -> None:
        self.bands = bands
        self.sum = torch.zeros(bands.shape, dtype=torch.float64)  # Σ_c S_c
        self.own, self.squares, self.inside = (torch.zeros(len(bands), dtype=torch.float64) for _ in range(3))
        self.n = 0

    def add(self, one: _Class) -> None:
        if one.n < 2:
            return
        unbiased = (one.of_sum - one.squares) / (one.n * (one.n - 1))  # ‖μ_c‖²
        self.sum += one.sum
        self.own += one.n * unbiased
        self.squares += one.n**2 * unbiased
        self.inside += one.of_sum
        self.n += one.n

    def between(self) -> Tensor:
        """Σ π_c ‖μ_c‖² − ‖μ‖², the products of a class with itself taken from different samples."""
        n = max(self.n, 1)
        everything = self.bands.energies(self.sum[None])[0]
        return self.own / n - (everything - self.inside + self.squares) / n**2


def number_energies(X: Tensor, y: Tensor, bands: Parts, *, seed: int = 0) -> Energies:
    """‖P_b Cov(x, y)‖² of numbers y (n,) or (n, targets), each target in units of its own spread, without bias.

    Products of the covariances in different parts of the samples; a target that does not vary counts as zero.
    """
    Y = y.reshape(len(y), -1).double()
    Y = (Y - Y.mean(0)) / Y.std(0).clamp(min=1e-300)
    Y[:, Y.isnan().any(0) | ~torch.isfinite(Y).all(0)] = 0
    order = torch.randperm(len(X), generator=generator_for(seed, "scales labels"))
    parts = [part for part in order.chunk(min(PARTS, len(X) // 2)) if len(part) > 1]
    m = len(parts)
    value, without = torch.zeros(len(bands), dtype=torch.float64), torch.zeros(m, len(bands), dtype=torch.float64)
    for target in Y.T:
        covariances = torch.stack([_covariance(X[part], target[part]) for part in parts])
        total = covariances.sum(0)
        own = bands.energies(covariances)
        value += (bands.energies(total[None])[0] - own.sum(0)) / (m * (m - 1))
        rest = bands.energies(total - covariances)
        without += (rest - (own.sum(0) - own)) / max((m - 1) * (m - 2), 1)
    return Energies(value, without)


def _covariance(X: Tensor, y: Tensor) -> Tensor:
    """Cov(x, y) of some samples, unbiased, in the shape of a sample."""
    weights = (y - y.mean()) / (len(y) - 1)
    found: Tensor = torch.tensordot(weights.to(X.dtype), X - X.mean(0), dims=1)
    return found


def shown_share(energies: Energies | None, *bands: int) -> Estimate | None:
    """The share of some parts in what tells labels apart; None where it is within its error, or nothing was found."""
    if energies is None:
        return None
    total, found = energies.total(), energies.share(*bands)
    if not total.value > SEEN * total.stderr or not found.value > found.stderr:
        return None
    return Estimate(min(found.value, 1.0), found.stderr, found.n)
