"""Leading directions of a large matrix that a convolution spreads from many rows.

A product with Σ_Δ S_Δ RᵀR S_Δᵀ costs kernel entries · rows · positions operations, so that Lanczos iterations, with a
product for each step, take minutes. Here the rows are first reduced to the leading directions of RᵀR, in which
iterations of a block of vectors are cheap; two products with all rows then give the eigenvalues of the whole matrix
in the space that was found (Rayleigh and Ritz), whose errors are of second order in the angle.
"""

from __future__ import annotations

import torch
from torch import Tensor

from netgrain.families.convolution import ConvStem
from netgrain.geometry.forms import Factored

REDUCED = 256  # leading directions of the rows
CHEAP = 12  # iterations in them
WHOLE = 2  # iterations with all rows
SPARE = 8  # vectors beside those that are asked for


def leading_pairs(source: Factored, stem: ConvStem, k: int, *, centred: bool = False) -> tuple[Tensor, Tensor]:
    """The k leading eigenvalues and eigenvectors (k, inputs) of the spread matrix, in float64.

    centred: that of weights whose rows add up to zero (standardised_forms).
    """
    generator = torch.Generator().manual_seed(0)
    rows = source.rows.float()
    size = min(k + SPARE, stem.size)
    X = torch.linalg.qr(torch.randn(stem.size, size, generator=generator))[0].T
    few = _reduced(rows, generator)
    for used in [few] * CHEAP + [rows] * WHOLE:
        X = torch.linalg.qr(times_spread(used, stem, X, centred=centred).T)[0].T.contiguous()
    Y = times_spread(rows, stem, X, centred=centred)
    values, turn = torch.linalg.eigh((X.double() @ Y.double().T).mul(source.weight))
    vectors = (turn.T.flip(0) @ X.double())[:k]
    return values.flip(0)[:k].clamp(min=0), vectors / vectors.norm(dim=1, keepdim=True)


def _reduced(rows: Tensor, generator: torch.Generator) -> Tensor:
    """The leading directions of rowsᵀ rows, times the roots of their eigenvalues."""
    if len(rows) <= REDUCED:
        return rows
    Q = torch.linalg.qr(torch.randn(rows.shape[1], REDUCED, generator=generator))[0]
    for _ in range(2):
        Q = torch.linalg.qr(rows.T @ (rows @ Q))[0]
    _, values, right = torch.linalg.svd(rows @ Q, full_matrices=False)
    reduced: Tensor = (values[:, None] * right) @ Q.T
    return reduced


def times_spread(rows: Tensor, stem: ConvStem | None, X: Tensor, *, centred: bool = False) -> Tensor:
    """Σ_Δ S_Δ rowsᵀ rows S_Δᵀ x for every row x of X, some vectors at a time; rowsᵀ rows x without a stem.

    centred: minus the same of the mean over Δ.
    """
    if stem is None:
        return (X @ rows.T) @ rows
    found = []
    for some in X.split(4):
        seen = stem.gather(some)
        if centred:
            seen -= seen.mean(1, keepdim=True)
        moved = (seen.flatten(0, 1) @ rows.T) @ rows
        found.append(stem.scatter(moved.reshape(seen.shape)))
    return torch.cat(found)
