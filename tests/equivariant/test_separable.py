"""Separability and the support vector machine."""

import numpy as np
import pytest
import torch

from netgrain.equivariant import support_vector
from netgrain.equivariant.separable import check_separable
from netgrain.runtime.errors import NetgrainError
from tests.equivariant.known_networks import close, gaussian


def test_support_vector_satisfies_its_own_conditions() -> None:
    X = gaussian(12, 8, seed=2)
    y = (X @ gaussian(8, seed=3)).sign()
    b = support_vector(X, y)
    margins = y * (X @ b)
    assert margins.min().item() == pytest.approx(1, abs=1e-9)
    active = margins < 1 + 1e-7
    alpha = torch.linalg.lstsq((y[:, None] * X)[active].T, b[:, None]).solution[:, 0]
    assert close((y[:, None] * X)[active].T @ alpha, b, 1e-9)
    assert (alpha > 0).all()


def test_points_that_no_direction_separates_are_named() -> None:
    Z = np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, -1.0]])
    with pytest.raises(NetgrainError, match=r"not separable.*points 0, 1, 2\) is zero"):
        check_separable(Z)
    with pytest.raises(NetgrainError, match="point 1 is zero"):
        check_separable(np.array([[1.0, 0.0], [0.0, 0.0]]))
    assert check_separable(Z[:2]) > 0
