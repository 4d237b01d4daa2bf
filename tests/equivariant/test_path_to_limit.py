"""The flow in log-norm time."""

import math

import numpy as np
import pytest
from scipy.special import softmax

from netgrain.equivariant import GroupCNN, limit
from netgrain.equivariant.path_to_limit import _Equation, launch
from tests.equivariant.known_limits import D8, signed, teacher


@pytest.mark.parametrize("depth", [2, 3])
@pytest.mark.parametrize("time", [0.5, 6.0], ids=["free", "capped"])
def test_jacobian_of_the_flow(depth: int, time: float) -> None:
    net = GroupCNN(D8, depth, seed=1)
    Z = signed(*teacher(8, 10, 0))
    w = launch(net.parametrisation(), net.flat_weights(), Z, 2.0)
    u = w / np.linalg.norm(w)
    equation = _Equation(net.parametrisation(), Z, 1e3)
    h = 1e-7 * np.eye(len(u))
    differences = np.array([(equation.velocity(time, u + e) - equation.velocity(time, u - e)) / 2e-7 for e in h]).T
    assert np.abs(equation.jacobian(time, u) - differences).max() < 1e-6 * max(np.abs(differences).max(), 1)
    assert abs(u @ equation.velocity(time, u)) < 1e-12  # it stays on the sphere


def test_the_flow_is_that_of_the_exponential_loss() -> None:
    """Many tiny steps of gradient descent and the flow in log-norm time pass through the same direction."""
    net, Z = GroupCNN(D8, 2, seed=0), signed(*teacher(8, 3, 0))
    network = net.parametrisation()
    w = launch(network, net.flat_weights(), Z, 5.0)
    goal = math.log(np.linalg.norm(w)) + 0.5
    found = limit(D8, *teacher(8, 3, 0), depth=2, cap=1e9, log_norm=goal)
    start = w.copy()
    while np.linalg.norm(w) < math.exp(max(goal, math.log(np.linalg.norm(start)) + 1)):
        g = softmax(-Z @ network.beta(w)) @ network.gradients(w, Z)
        w += 5e-4 * g / np.linalg.norm(g)
    beta = network.beta(w)
    assert beta / np.linalg.norm(beta) == pytest.approx((found.beta / found.beta.norm()).numpy(), abs=2e-4)
