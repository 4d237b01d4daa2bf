"""Lower bounds from weights of the data."""

import math

import numpy as np
import pytest

from netgrain.equivariant import limit, support_vector
from netgrain.equivariant.dual import lower_bound
from netgrain.equivariant.penalties import group_transform
from tests.equivariant.known_limits import D8, OPTIMA, signed, teacher


def test_any_weights_bound_the_optimum_from_below() -> None:
    """Whatever the weights of the data; those of the limit reach it, and no weights say nothing."""
    X, y = teacher(8, 10, 0)
    Z, transform = signed(X, y), group_transform(D8)
    rng = np.random.default_rng(0)
    bounds = [lower_bound(transform, rng.random(10), Z, 2) for _ in range(20)]
    assert 0 < max(bounds) <= OPTIMA[0]
    svm = support_vector(X, y)
    assert max(lower_bound(transform, rng.random(10), Z, 1) for _ in range(20)) <= math.sqrt(8) * svm.norm().item()
    assert lower_bound(transform, limit(D8, X, y).multipliers.numpy(), Z, 2) == pytest.approx(OPTIMA[0], rel=1e-4)
    assert lower_bound(transform, np.zeros(10), Z, 2) == 0
