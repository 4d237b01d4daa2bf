"""Networks over groups and their predictors."""

import math

import numpy as np
import pytest
import torch

from netgrain.equivariant import Diagonal, FullyConnected, GroupCNN, linearisation, predictor
from netgrain.runtime.errors import NetgrainError
from tests.equivariant.known_networks import D8, DEPTHS, close, gaussian, networks


@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize("i", range(6))
def test_predictor_is_the_network_on_unit_vectors(depth: int, i: int) -> None:
    net = networks(depth)[i]
    with torch.no_grad():
        assert close(predictor(net), net(torch.eye(8, dtype=torch.float64)))
        assert close(net.parametrisation().beta(net.flat_weights()), predictor(net))


def test_group_layer_is_the_double_sum() -> None:
    net, x = GroupCNN(D8, 2, seed=3), gaussian(8)
    w, T = net.weights[0][0, 0].detach(), D8.cayley
    loop = torch.tensor([sum(float(x[T[u, v]] * w[v]) for v in range(8)) for u in range(8)])
    assert close(net.layer(x[None, None], 0)[0, 0].detach(), loop, 1e-6)


@pytest.mark.parametrize("relu", [False, True])
def test_hidden_layer_is_equivariant(relu: bool) -> None:
    net, x = GroupCNN(D8, 3, channels=2, relu=relu, seed=3), gaussian(2, 8)
    for g in range(8):
        moved = x[:, D8.cayley[D8.inverse[g]]]  # (L_g x)(u) = x(g⁻¹u)
        first, second = net.layer(net.enter(x), 0), net.layer(net.enter(moved), 0)
        assert close(second.detach(), first[..., D8.cayley[D8.inverse[g]]].detach())
    assert not close(
        net(x).detach(), net(x[:, D8.cayley[D8.inverse[1]]]).detach(), 1e-3
    )  # the read-out is not invariant


def test_unfolded_and_transformed_layers_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    x = gaussian(3, 8)
    unfolded = GroupCNN(D8, 3, channels=2, seed=0)
    monkeypatch.setattr("netgrain.equivariant.networks.UNFOLDED", 0)
    through_the_group = GroupCNN(D8, 3, channels=2, seed=0)
    assert unfolded._unfold is not None
    assert through_the_group._unfold is None
    assert close(through_the_group(x).detach(), unfolded(x).detach())


def test_weights_depend_on_the_seed_alone() -> None:
    state = torch.get_rng_state()
    a, b, c = (GroupCNN(D8, 3, seed=s).flat_weights() for s in (0, 0, 1))
    assert (a == b).all()
    assert np.abs(a - c).max() > 0.01
    assert torch.equal(torch.get_rng_state(), state)
    assert np.abs(a[:16]).max() <= math.sqrt(3 / 8)
    assert np.abs(a[16:]).max() <= 1 / math.sqrt(8)


@pytest.mark.parametrize("i", range(6))
def test_relu_networks_are_homogeneous_and_linearise(i: int) -> None:
    net, X = networks(3, relu=True)[i], gaussian(20, 8)
    found = linearisation(net, X)
    with torch.no_grad():
        outputs = net(X)
    assert found.dead + len(found.gradients) == 20
    assert close((found.gradients * X[found.kept]).sum(1), outputs[found.kept])
    assert not close(net(-X).detach(), -outputs, 1e-3)  # it is not linear
    with pytest.raises(NetgrainError, match="linearisation"):
        predictor(net)


def test_dead_samples_are_dropped_and_counted() -> None:
    net = Diagonal(2, 2, relu=True)
    with torch.no_grad():
        for w in net.weights:
            w.fill_(1.0)
    found = linearisation(net, torch.tensor([[1.0, 2.0], [-1.0, -2.0], [1.0, -1.0]], dtype=torch.float64))
    assert found.dead == 1
    assert found.kept.tolist() == [0, 2]
    assert found.gradients.tolist() == [[1.0, 1.0], [1.0, 0.0]]
    assert "1 dead" in repr(found)


def test_bad_networks_are_refused() -> None:
    with pytest.raises(NetgrainError, match=r"depth expects .* found 0"):
        GroupCNN(D8, 0)
    with pytest.raises(NetgrainError, match="channels expects at least 1"):
        GroupCNN(D8, 2, channels=0)
    with pytest.raises(NetgrainError, match="width expects at least 1"):
        FullyConnected(8, 2, width=0)
    with pytest.raises(NetgrainError, match=r"shape \(batch, 8\), found \(2, 7\)"):
        GroupCNN(D8, 2)(gaussian(2, 7))
