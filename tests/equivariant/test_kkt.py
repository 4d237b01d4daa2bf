"""Stationarity."""

import numpy as np

from netgrain.equivariant import limit, support_vector
from netgrain.equivariant.kkt import stationarity
from netgrain.equivariant.penalties import group_transform
from tests.equivariant.known_limits import D8, signed, teacher


def test_residual_rejects_what_is_not_stationary() -> None:
    X, y = teacher(8, 10, 0)
    Z, svm = signed(X, y), support_vector(X, y).numpy()
    transform = group_transform(D8)
    assert stationarity(transform, svm, Z, 1).residual < 1e-10
    assert stationarity(transform, svm, Z, 2).residual > 1e-2
    assert stationarity(transform, svm, Z, 3).residual > 1e-2
    found = limit(D8, X, y, depth=2)
    moved = found.beta.numpy() + 0.01 * np.random.default_rng(0).standard_normal(8)
    assert stationarity(transform, moved, Z, 2, slack=0.1).residual > 1e-4
