"""Is there a direction that classifies every point, and which one does it with the largest distance?"""

from __future__ import annotations

import numpy as np
import torch
from scipy.optimize import linprog, nnls
from torch import Tensor

from netgrain.equivariant.parametrisation import Array
from netgrain.runtime.errors import NetgrainError

ZERO = 1e-9


def check_separable(Z: Array) -> float:
    """The largest t with Z_i·b ≥ t |Z_i|_∞ for all i and |b|_∞ ≤ 1, by a linear program (HiGHS); refuses t = 0.

    If no direction separates the points, some weighted mean of the Z_i = y_i x_i is zero (Gordan), and the program's
    multipliers name the points in it.
    """
    points, n = Z.shape
    size = np.abs(Z).max(1, keepdims=True)
    if not (size > 0).all():
        raise NetgrainError(
            f"the data are not separable: point {int((size == 0).argmax())} is zero, so no direction classifies it."
        )
    A = np.hstack([-Z / size, np.ones((points, 1))])
    found = linprog(np.eye(n + 1)[n] * -1.0, A_ub=A, b_ub=np.zeros(points), bounds=[(-1, 1)] * n + [(None, None)])
    if found.status == 0 and -found.fun > ZERO:
        return float(-found.fun)
    multipliers = -found.ineqlin.marginals if found.status == 0 else np.ones(points)
    conflict = np.flatnonzero(multipliers > 1e-7)
    shown = ", ".join(map(str, conflict[:8])) + (", …" if len(conflict) > 8 else "")
    raise NetgrainError(
        f"the data are not separable: no direction b has y_i<x_i, b> > 0 for all {points} points, because a weighted "
        f"mean of y_i x_i over {len(conflict)} of them (points {shown}) is zero; use fewer points or other labels."
    )


def separated_points(X: Tensor, y: Tensor, n: int, where: str) -> Array:
    """Z_i = y_i x_i as float64 (points, n), after the data have been checked: some direction classifies all of them."""
    points, labels = torch.as_tensor(X).cpu(), torch.as_tensor(y).cpu()
    if points.ndim != 2 or points.shape[1] != n:
        raise NetgrainError(f"X expects shape (points, {n}) for {where}, found {tuple(points.shape)}.")
    if labels.shape != points.shape[:1]:
        raise NetgrainError(
            f"y expects one label for each of the {len(points)} points, found shape {tuple(labels.shape)}."
        )
    if len(points) == 0:
        raise NetgrainError("X has no points; at least one is needed.")
    if points.is_complex() or labels.is_complex():
        raise NetgrainError("X and y expect real numbers, found complex ones.")
    points, labels = points.detach().double(), labels.detach().double()
    if not bool(torch.isfinite(points).all()):
        bad = int((~torch.isfinite(points)).any(1).nonzero()[0])
        raise NetgrainError(f"X expects finite numbers, point {bad} has a NaN or an infinity.")
    if not bool((labels.abs() == 1).all()):
        found = ", ".join(f"{v:g}" for v in labels.unique().tolist()[:5])
        raise NetgrainError(f"labels are expected to be -1 or +1, found {found}; map the two classes to -1 and +1.")
    Z: Array = np.ascontiguousarray((labels[:, None] * points).numpy())
    check_separable(Z)
    return Z


def support_vector(X: Tensor, y: Tensor) -> Tensor:
    """Hard-margin support vector machine without intercept.

    argmin |b|₂ subject to y_i ⟨x_i, b⟩ ≥ 1: the limit of a fully connected linear network of any depth. It is solved
    exactly as a least-distance program.

    Parameters
    ----------
    X : Tensor of shape (points, n)
        Data.
    y : Tensor of shape (points,)
        Labels, −1 or +1.

    Returns
    -------
    Tensor of shape (n,)
        The predictor b, float64.

    Raises
    ------
    NetgrainError
        If no direction separates the data; the message names the points in conflict.

    Notes
    -----
    The residual r of min |Eα − e_{n+1}| over α ≥ 0, E = (Zᵀ; 1ᵀ), gives b = −r_{1..n}/r_{n+1}.

    References
    ----------
    .. [1] Lawson, Hanson, "Solving Least Squares Problems" (1974), chapter 23: least-distance programming.

    Examples
    --------
    Each point demands its own coordinate: 2 b₁ ≥ 1 and 4 b₂ ≥ 1.

    >>> support_vector(torch.tensor([[2.0, 0.0], [0.0, -4.0]]), torch.tensor([1.0, -1.0]))
    tensor([0.5000, 0.2500], dtype=torch.float64)
    """
    points, labels = (torch.as_tensor(t).detach().cpu().double() for t in (X, y))
    Z = (labels[:, None] * points).numpy()
    check_separable(Z)
    unit = np.abs(Z).max()
    E = np.vstack([Z.T / unit, np.ones(len(Z))])
    alpha, _ = nnls(E, np.eye(len(E))[-1])
    r = E @ alpha - np.eye(len(E))[-1]
    return torch.from_numpy(-r[:-1] / r[-1] / unit)
