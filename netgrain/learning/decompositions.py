"""A centred kernel by its eigenvectors: from the kernel itself, or from features by a thin SVD.

On the complement of the constant vector K = U W Uᵀ, and R = λ (K + λ)⁻¹ = U λ/(W + λ) Uᵀ there turns labels into
residuals. One decomposition serves every ridge λ and every column of labels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from netgrain.runtime.errors import NetgrainError
from netgrain.runtime.memory import ask

MOST_DENSE = 5000  # samples of a kernel that is decomposed


@dataclass(frozen=True, eq=False)
class Decomposition:
    """A centred kernel with mean diagonal 1 by its eigenvectors, which are orthogonal to the constant vector.

    Attributes
    ----------
    vectors : Tensor of shape (samples, modes)
        Orthonormal columns, by falling eigenvalue.
    eigenvalues : Tensor of shape (modes,)
        Not negative.
    scale : float
        Mean diagonal before it was divided by it.
    complete : bool
        Whether there are as many modes as samples, less one; else the eigenvalue of all others is 0.
    """

    vectors: Tensor
    eigenvalues: Tensor
    scale: float
    complete: bool

    def __len__(self) -> int:
        return len(self.vectors)

    def shrinkage(self, ridge: float) -> Tensor:
        """λ/(W + λ) for each mode: the share of a mode's label that is left as residual."""
        return ridge / (self.eigenvalues + ridge)

    def residuals(self, columns: Tensor, ridges: Sequence[float]) -> Tensor:
        """R y for each ridge in one product, shape (samples, ridges, columns)."""
        left = torch.stack([self.shrinkage(ridge) for ridge in ridges], 1)[:, :, None]  # (modes, ridges, 1)
        if self.complete:
            parts = left * (self.vectors.T @ columns)[:, None]
            return (self.vectors @ parts.flatten(1)).reshape(len(self), *parts.shape[1:])
        centred = columns - columns.mean(0)
        parts = (1 - left) * (self.vectors.T @ centred)[:, None]
        return centred[:, None] - (self.vectors @ parts.flatten(1)).reshape(len(self), *parts.shape[1:])

    def blocks(self, rows: Tensor, ridge: float) -> Tensor:
        """R_gg for groups of samples; rows: (groups, size) → (groups, size, size)."""
        U, left = self.vectors[rows], self.shrinkage(ridge)  # (groups, size, modes)
        if self.complete:
            return (U * left) @ U.mT
        return torch.eye(rows.shape[1], dtype=U.dtype) - 1 / len(self) - (U * (1 - left)) @ U.mT

    def trace(self, ridge: float) -> float:
        """tr (K + λ)⁻¹ on the complement of the constant vector."""
        rest = len(self) - 1 - len(self.eigenvalues)
        return float((1 / (self.eigenvalues + ridge)).sum()) + rest / ridge

    def diagonal(self, ridges: Sequence[float]) -> Tensor:
        """R_ii of all samples, shape (samples, ridges)."""
        left = torch.stack([self.shrinkage(ridge) for ridge in ridges], 1)
        if self.complete:
            return self.vectors.square() @ left
        return 1 - 1 / len(self) - self.vectors.square() @ (1 - left)


@dataclass(frozen=True, eq=False)
class Features:
    """A kernel K = F Fᵀ over many samples, held by F.

    Attributes
    ----------
    rows : Tensor of shape (samples, features)
        F.

    Examples
    --------
    >>> Features(torch.tensor([[1.0, 2.0], [0.0, 1.0]])).of(torch.tensor([1])).rows.tolist()
    [[0.0, 1.0]]
    """

    rows: Tensor

    def __len__(self) -> int:
        return len(self.rows)

    def of(self, chosen: Tensor) -> Features:
        """The kernel over some of the samples."""
        return Features(self.rows[chosen])

    def dense(self) -> Tensor:
        """K, (samples, samples)."""
        return self.rows @ self.rows.T


def part_of(K: Tensor | Features, chosen: Tensor) -> Tensor | Features:
    """A kernel over some of its samples."""
    return K.of(chosen) if isinstance(K, Features) else K[chosen[:, None], chosen]


def decomposed_either(K: Tensor | Features) -> Decomposition:
    """A kernel decomposed as it is held; features with more columns than rows as their kernel."""
    if not isinstance(K, Features):
        return decomposed(K)
    return decomposed_features(K.rows) if K.rows.shape[1] < len(K) else decomposed(K.dense())


def decomposed(K: Tensor) -> Decomposition:
    """Eigenvectors of a kernel over samples, centred and with mean diagonal 1.

    Parameters
    ----------
    K : Tensor of shape (samples, samples)
        Symmetric and positive semidefinite up to rounding.

    Returns
    -------
    Decomposition
        In float64; its modes are orthogonal to the constant vector.

    Raises
    ------
    NetgrainError
        If K is not square and finite, or constant after centring.
    """
    if K.dim() != 2 or K.shape[0] != K.shape[1]:
        raise NetgrainError(f"a kernel has shape (samples, samples), found {tuple(K.shape)}.")
    n = len(K)
    ask(4 * 8 * n * n, f"the decomposition of a kernel over {n} samples")
    C = centred(K)
    scale = scale_of(float(C.diagonal().mean()), float(K.diagonal().abs().mean()))
    C /= scale
    C -= 1 / n  # the constant vector gets the eigenvalue −1, below all others, and is left out
    w, V = torch.linalg.eigh(C)
    return Decomposition(V[:, 1:].flip(1), w[1:].flip(0).clamp(min=0.0), scale, complete=True)


def decomposed_features(features: Tensor) -> Decomposition:
    """The same for K = F Fᵀ, from a thin singular value decomposition of the centred features F.

    Parameters
    ----------
    features : Tensor of shape (samples, features)
        For many samples and fewer features.

    Returns
    -------
    Decomposition
        With at most as many modes as features.
    """
    if features.dim() != 2 or not bool(torch.isfinite(features).all()):
        raise NetgrainError(f"expected finite features of shape (samples, features), found {tuple(features.shape)}.")
    F = features.double()
    whole = float(F.square().sum(1).mean())
    F = F - F.mean(0)
    scale = scale_of(float(F.square().sum(1).mean()), whole)
    U, s, _ = torch.linalg.svd(F / scale**0.5, full_matrices=False)
    kept = s > 1e-12 * s[0]  # beyond them vectors need not be orthogonal to the constant one
    return Decomposition(U[:, kept], s[kept].square(), scale, complete=False)


def centred(K: Tensor) -> Tensor:
    """HKH in float64, H = 1 − 11ᵀ/n."""
    K = K.double()
    if not bool(torch.isfinite(K.sum())):
        raise NetgrainError("the kernel holds NaN or Inf, expected finite numbers; check the scale of the data.")
    mean = K.mean(0)
    C = K - mean - K.mean(1, keepdim=True)
    C += mean.mean()
    return (C + C.T) / 2


def scale_of(inside: float, whole: float) -> float:
    """The mean diagonal after centring, refused where it is only rounding of the one before."""
    if not inside > 1e-14 * whole:
        raise NetgrainError(
            "the features are the same for all samples, so that nothing can be predicted from them; check the scale "
            "of X, and layers that switch the network off."
        )
    return inside
