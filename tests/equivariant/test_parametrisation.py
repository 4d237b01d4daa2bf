"""From weights to the predictor: derivatives."""

import numpy as np
import pytest

from netgrain.equivariant.parametrisation import EqualChains, MatrixChains, Parametrisation
from tests.equivariant.known_networks import DEPTHS, close, networks


def chains(depth: int) -> list[Parametrisation]:
    pairs = MatrixChains((EqualChains(2, (1,) * (depth + 1), 2.0), EqualChains(2, (2,) * (depth + 1), 0.5)))
    return [*(net.parametrisation() for net in networks(depth)), pairs]


@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize("i", range(7))
def test_derivatives_are_those_of_differences(depth: int, i: int) -> None:
    network = chains(depth)[i]
    rng = np.random.default_rng(0)
    w = rng.standard_normal(network.size)
    Z = rng.standard_normal((3, len(network.beta(w))))
    h = 1e-5 * np.eye(network.size)
    slopes = np.array([Z @ (network.beta(w + e) - network.beta(w - e)) / 2e-5 for e in h]).T
    curvature = np.array([(network.gradients(w + e, Z[:1]) - network.gradients(w - e, Z[:1]))[0] / 2e-5 for e in h])
    assert close(network.gradients(w, Z), slopes, 1e-7)
    assert close(network.hessian(w, Z[0]), curvature, 1e-7)
    assert close(network.gradients(w, Z) @ w, depth * Z @ network.beta(w))  # Euler: homogeneous of degree L
