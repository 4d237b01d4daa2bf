"""First-order stationarity: how far β is from the KKT conditions of min R_p(b) subject to y_i <x_i, b> ≥ 1.

With b at margin one, κ = scale·p and z = Σ_i α_i Z_i, α ≥ 0 on the active points, stationarity of the Schatten
(quasi-)norm is, in every block and without deciding which singular values are zero,

    b̂ᴴ ẑ = κ (b̂ᴴ b̂)^{p/2}    and    ẑ b̂ᴴ = κ (b̂ b̂ᴴ)^{p/2}.

Both are linear in α, so the best α is a non-negative least-squares problem; for p = 2 the condition is ẑ = κ b̂.
For p = 1 the operator norm of ẑ must also be at most the scale, `level` ≤ 1: above it the flow stands at a saddle, and
the excess counts as residual.
Euler's identity Σ α_i = p R_p(b) holds at a stationary point.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from scipy.optimize import nnls

from netgrain.equivariant.parametrisation import Array, Parametrisation
from netgrain.equivariant.penalties import BlockTransform


@dataclass(frozen=True, eq=False)
class Stationarity:
    """The relative residual of the KKT conditions, and the multipliers that reach it."""

    residual: float
    multipliers: Array  # (points,), zero where the margin is not active
    level: float  # max_b |ẑ_b| / scale

    def __repr__(self) -> str:
        active = int((self.multipliers > 0).sum())
        return f"Stationarity(residual {self.residual:.1e}, {active} support points, dual level {self.level:.6g})"


def stationarity(transform: BlockTransform, beta: Array, Z: Array, depth: int, *, slack: float = 1e-3) -> Stationarity:
    """KKT residual of β for p = 2/depth; points with margin at most 1 + slack times the smallest are active."""
    p = 2 / depth
    margins = Z @ beta
    b = torch.from_numpy(beta / margins.min())
    active = np.flatnonzero(margins <= (1 + slack) * margins.min())
    rows, target = [], []
    for c, B, Zs in zip(
        transform.weights, transform.blocks(b), transform.blocks(torch.from_numpy(Z[active])), strict=True
    ):  # B (count, d, e), Zs (points, count, d, e)
        kappa = transform.scale * p
        if depth == 1:
            pairs = [(Zs, kappa * B)]
        else:
            U, S, Vh = torch.linalg.svd(B, full_matrices=False)
            left = (Vh.mH * (S**p)[:, None, :]) @ Vh
            right = (U * (S**p)[:, None, :]) @ U.mH
            pairs = [(B.mH @ Zs, kappa * left), (Zs @ B.mH, kappa * right)]
        for equations, value in pairs:
            rows.append(c**0.5 * _real(equations.reshape(len(active), -1)))
            target.append(c**0.5 * _real(value.reshape(1, -1))[:, 0])
    A, t = np.concatenate(rows), np.concatenate(target)
    alpha, residual = nnls(A, t)
    multipliers = np.zeros(len(Z))
    multipliers[active] = alpha
    level = float(transform.operator_norm(torch.from_numpy(multipliers @ Z))) / transform.scale
    relative = float(residual / np.linalg.norm(t))
    return Stationarity(max(relative, level - 1) if depth == 2 else relative, multipliers, level)


def parameter_residual(network: Parametrisation, w: Array, Z: Array, *, slack: float = 1e-3) -> float:
    """The same in the space of the weights, without any transform: min_{α ≥ 0} |w − Σ α_i ∇_w <Z_i, β>| / |w|."""
    A = network.gradients(w, Z)
    margins = A @ w
    active = margins <= (1 + slack) * margins.min()
    unit = w / np.linalg.norm(w)
    columns = A[active].T
    return float(nnls(columns / np.linalg.norm(columns), unit)[1])


def _real(values: torch.Tensor) -> Array:
    """(points, entries) → (entries or twice as many, points), real."""
    parts = [values.real, values.imag] if values.is_complex() else [values]
    found: Array = torch.cat(parts, 1).T.numpy()
    return found
