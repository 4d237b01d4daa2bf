"""Kernels by their eigenvectors: residuals of every ridge against inverses."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from netgrain.learning.decompositions import Decomposition, decomposed, decomposed_features
from netgrain.runtime.errors import NetgrainError
from tests.learning.test_leave_one_out import problem

RIDGES = (1e-3, 0.1, 10.0)


def residual_matrix(K: Tensor, ridge: float) -> Tensor:
    """λ (K + λ)⁻¹ on the complement of the constant vector, by an inverse."""
    n = len(K)
    H = torch.eye(n, dtype=K.dtype) - 1 / n
    C = H @ K @ H
    C = C / C.diagonal().mean()
    return H @ (ridge * torch.linalg.inv(C + ridge * torch.eye(n, dtype=K.dtype))) @ H


@pytest.mark.quick
@pytest.mark.parametrize("features", [False, True])
def test_residuals_of_all_ridges_at_once(features: bool) -> None:
    F, Y = problem(n=30, d=12, columns=2)
    found = decomposed_features(F) if features else decomposed(F @ F.T)
    assert found.complete is not features
    for j, ridge in enumerate(RIDGES):
        R = residual_matrix(F @ F.T, ridge)
        torch.testing.assert_close(found.residuals(Y, RIDGES)[:, j], R @ Y, rtol=1e-9, atol=1e-9)
        torch.testing.assert_close(found.diagonal(RIDGES)[:, j], R.diagonal(), rtol=1e-9, atol=1e-9)
        rows = torch.tensor([[0, 3], [5, 7]])
        torch.testing.assert_close(found.blocks(rows, ridge)[1], R[[5, 7]][:, [5, 7]], rtol=1e-9, atol=1e-9)


def test_modes_are_orthonormal_and_orthogonal_to_the_constant_vector() -> None:
    F, _ = problem(n=30, d=12)
    for found in (decomposed(F @ F.T), decomposed_features(F)):
        V = found.vectors
        torch.testing.assert_close(V.T @ V, torch.eye(V.shape[1], dtype=V.dtype))
        assert float(V.sum(0).abs().max()) < 1e-10
        assert float(found.eigenvalues.sum()) == pytest.approx(30)


def test_constant_features_are_refused() -> None:
    with pytest.raises(NetgrainError, match="the same for all samples"):
        decomposed_features(torch.ones(30, 4))
    with pytest.raises(NetgrainError, match=r"finite features of shape \(samples, features\)"):
        decomposed_features(torch.full((30, 4), torch.nan))
    assert isinstance(decomposed_features(torch.eye(30)), Decomposition)
