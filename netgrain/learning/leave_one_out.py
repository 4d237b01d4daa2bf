"""Exact leave-one-out of kernel ridge regression with a free intercept, for all ridges and columns at once.

K is centred (HKH) and has mean diagonal 1, and R = λ (K + λ)⁻¹ turns labels into residuals (`decompositions`). Without
sample i its residual is (R y)_i / R_ii, and without a group g of samples R_gg⁻¹ (R y)_g: no fit is repeated, and the
intercept is fitted anew each time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b

import torch
from torch import Tensor

from netgrain.learning.decompositions import Decomposition, Features, centred, decomposed_either, scale_of
from netgrain.runtime.errors import NetgrainError

RIDGES = tuple(10 ** (exponent / 2) for exponent in range(-12, 5))  # 10⁻⁶ … 10², half decades
LEAST_RESIDUAL = 1e-9  # R_ii below it: the sample alone decides its own prediction, and that ridge is dropped
COLUMNS = 256  # of labels times ridges, predicted together


def groups_of(X: Tensor) -> Tensor:
    """Numbers of groups of equal rows.

    Parameters
    ----------
    X : Tensor of shape (samples, ...)
        Rows are compared bit by bit, with −0 as 0.

    Returns
    -------
    Tensor of shape (samples,)
        Equal for equal rows, from 0 in the order of their first row.

    Examples
    --------
    >>> groups_of(torch.tensor([[1.0], [2.0], [1.0]])).tolist()
    [0, 1, 0]
    """
    seen: dict[bytes, int] = {}
    return torch.tensor([seen.setdefault(row, len(seen)) for row in row_digests(X)])


def row_digests(X: Tensor) -> list[bytes]:
    """A hash of each row; what a sample is, wherever it stands."""
    rows = X.detach().cpu().flatten(1)
    return [blake2b((row + 0.0).numpy().tobytes(), digest_size=16).digest() for row in rows]  # −0 becomes 0


# --- leaving out ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class FixedRidge:
    """R = λ(K + λ)⁻¹ on the complement of the constant vector for one ridge, by Cholesky: a quarter of the time."""

    matrix: Tensor  # (samples, samples)

    def __len__(self) -> int:
        return len(self.matrix)

    def blocks(self, rows: Tensor, _ridge: float) -> Tensor:
        return self.matrix[rows[:, :, None], rows[:, None, :]]


def predictions_at(K: Tensor, columns: Tensor, ridge: float, groups: Tensor | None = None) -> Tensor:
    """Leave-one-out predictions with a given ridge, shape (samples, columns); Inf where a sample decides its own."""
    n = len(K)
    C = centred(K)
    C /= scale_of(float(C.diagonal().mean()), float(K.diagonal().abs().mean()))
    C += 1 / n  # the constant vector gets the eigenvalue 1, so that its part can be taken off again
    C.diagonal().add_(ridge)
    R = torch.cholesky_inverse(torch.linalg.cholesky(C))
    R -= 1 / (n * (1 + ridge))
    R *= ridge
    inverses = _inverses(FixedRidge(R), list(_by_size(groups, n)), ridge, R.diagonal())
    if inverses is None:
        return torch.full_like(columns, torch.inf)
    return columns - _left_out(R @ columns, inverses)


@dataclass(frozen=True, eq=False)
class LeaveOneOut:
    """Predictions of each sample by a fit to all other samples.

    Attributes
    ----------
    predictions : Tensor of shape (samples, columns)
        Predictions with the ridge that has the smallest squared error.
    ridge : float
        That ridge, for a kernel with mean diagonal 1.
    squared_error : float
        Mean over samples of the squared distance, summed over columns.
    squared_errors : tuple of float
        Squared error of each ridge that was tried; Inf for one that was dropped.
    freedom : float
        Effective degrees of freedom, tr K(K + λ)⁻¹ + 1.
    """

    predictions: Tensor
    ridge: float
    squared_error: float
    squared_errors: tuple[float, ...]
    freedom: float


def leave_one_out(
    K: Tensor | Features | Decomposition,
    columns: Tensor,
    *,
    groups: Tensor | None = None,
    ridges: tuple[float, ...] = RIDGES,
) -> LeaveOneOut:
    """Exact leave-one-out predictions of kernel ridge regression with a free intercept.

    Parameters
    ----------
    K : Tensor of shape (samples, samples), Features or Decomposition
        The kernel.
    columns : Tensor of shape (samples, columns)
        Labels as numbers.
    groups : Tensor of shape (samples,), optional
        Samples with the same number are left out together, as `groups_of` has it for equal rows.
    ridges : tuple of float
        Tried for a kernel with mean diagonal 1; the least squared error decides for all columns.

    Returns
    -------
    LeaveOneOut
        The predictions.

    Raises
    ------
    NetgrainError
        If all samples are in one group, or every ridge lets some sample decide its own prediction.

    Examples
    --------
    The kernel of a line through three points, without a ridge worth the name: the middle one is predicted by the two
    others.

    >>> x = torch.tensor([[-1.0], [0.0], [1.0]], dtype=torch.float64)
    >>> found = leave_one_out(x @ x.T, 2 * x + 5, ridges=(1e-9,))
    >>> [round(float(p), 6) for p in found.predictions]
    [3.0, 5.0, 7.0]
    """
    found = K if isinstance(K, Decomposition) else decomposed_either(K)
    if len(columns) != len(found):
        raise NetgrainError(f"the kernel has {len(found)} samples, the labels {len(columns)}; expected as many.")
    columns = columns.double().reshape(len(columns), -1)
    sizes = list(_by_size(groups, len(found)))
    if any(rows.shape[1] == len(found) for rows in sizes):
        raise NetgrainError("all samples are equal, expected at least two that differ.")
    errors = torch.full((len(ridges),), torch.inf, dtype=torch.float64)
    best, residuals = 0, torch.empty(0)
    diagonal, together = found.diagonal(ridges), max(1, COLUMNS // columns.shape[1])
    for first in range(0, len(ridges), together):
        inside = found.residuals(columns, ridges[first : first + together])
        for j, ridge in enumerate(ridges[first : first + together], first):
            if (inverses := _inverses(found, sizes, ridge, diagonal[:, j])) is None:
                continue
            out = _left_out(inside[:, j - first], inverses)
            errors[j] = out.square().sum() / len(columns)
            if errors[j] < errors[best] or not len(residuals):
                best, residuals = j, out
    if not bool(torch.isfinite(errors[best])):
        raise NetgrainError(
            "every ridge lets some sample decide its own prediction; expected features that several samples share: "
            "add samples, or remove one that is far from all others."
        )
    return LeaveOneOut(
        columns - residuals,
        ridges[best],
        float(errors[best]),
        tuple(errors.tolist()),
        float((1 - found.shrinkage(ridges[best])).sum()) + 1,
    )


def at_whole_frequencies(predictions: Tensor, columns: Tensor, groups: Tensor | None = None) -> Tensor:
    """Predictions of left-out samples as if class frequencies were those of all samples.

    Without sample i its class is rarer by one: a constant answer is then wrong on every sample of equally large
    classes. A prediction is a mean of the other labels with weights that add up to 1, so that leaving out shifts it by
    −(y_i − ȳ)/(n − 1) where labels do not depend on samples; that is added back.

    Parameters
    ----------
    predictions, columns : Tensor of shape (samples, columns)
        Leave-one-out predictions, and the labels.
    groups : Tensor of shape (samples,), optional
        Samples that were left out together.

    Returns
    -------
    Tensor of shape (samples, columns)
        For the largest column; squared errors are those of `predictions`.

    Examples
    --------
    Two classes of two: the mean of the other three is 2/3 for the wrong class, and 1/2 here.

    >>> columns = torch.eye(2, dtype=torch.float64).repeat(2, 1)
    >>> others = (columns.sum(0) - columns) / 3
    >>> at_whole_frequencies(others, columns).round(decimals=6).tolist()
    [[0.5, 0.5], [0.5, 0.5], [0.5, 0.5], [0.5, 0.5]]
    """
    n, shift = len(columns), columns - columns.mean(0)
    if groups is None:
        return predictions + shift / (n - 1)
    _, numbers, counts = torch.unique(groups, return_inverse=True, return_counts=True)
    sums = torch.zeros(len(counts), columns.shape[1], dtype=columns.dtype).index_add_(0, numbers, shift)
    others = (n - counts).double()[:, None]
    shifted: Tensor = predictions + (sums / others).index_select(0, numbers)
    return shifted


Inverses = list[tuple[Tensor, Tensor]]  # rows (groups, size) and R_gg⁻¹ (groups, size, size)


def _left_out(inside: Tensor, inverses: Inverses) -> Tensor:
    """Residuals y − ŷ of every sample by a fit without its group, from those of the fit with all."""
    out = torch.empty_like(inside)
    for rows, inverse in inverses:
        if rows.shape[1] == 1:
            out[rows[:, 0]] = inverse[:, 0] * inside[rows[:, 0]]
        else:
            out[rows] = inverse @ inside[rows]
    return out


def _by_size(groups: Tensor | None, n: int) -> Iterator[Tensor]:
    """Rows of the groups, those of one size together: (groups, size)."""
    if groups is None:
        yield torch.arange(n)[:, None]
        return
    _, numbers, counts = torch.unique(groups, return_inverse=True, return_counts=True)
    order = numbers.argsort(stable=True)
    size_of_row = counts[numbers[order]]
    for size in counts.unique().tolist():
        yield order[size_of_row == size].reshape(-1, size)


def _inverses(
    found: Decomposition | FixedRidge, sizes: list[Tensor], ridge: float, diagonal: Tensor
) -> Inverses | None:
    """R_gg⁻¹ of all groups; None if a group decides its own predictions."""
    out: Inverses = []
    for rows in sizes:
        if rows.shape[1] == 1:
            block = diagonal[rows[:, 0], None, None]
            if not bool((block > LEAST_RESIDUAL).all()):
                return None
            out.append((rows, 1 / block))
            continue
        for part in rows.split(max(1, 10**7 // (rows.shape[1] * len(found)))):
            w, V = torch.linalg.eigh(found.blocks(part, ridge))
            if not bool((w > LEAST_RESIDUAL).all()):
                return None
            out.append((part, (V / w[:, None, :]) @ V.mT))
    return out
