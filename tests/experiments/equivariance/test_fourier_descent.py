"""Descent in Fourier space is descent."""

import math

import numpy as np
import pytest
import torch

from netgrain.equivariant import GroupCNN, make_network, predictor
from netgrain.equivariant.descent import descend as descend_by_tables
from netgrain.experiments.equivariance import eq_relu, fourier_descent
from netgrain.groups import Group, dihedral, p4m, quaternion


@pytest.mark.parametrize("net", ["group-cnn", "circular", "fully-connected"])
@pytest.mark.parametrize("group", [dihedral(order=8), quaternion(), p4m(3)], ids=lambda g: g.name)
def test_steps_in_fourier_space_are_the_steps_of_the_tables(net: str, group: Group) -> None:
    n = group.order
    Z = torch.randn(4, n, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    for seed in (3, 4):
        found = fourier_descent.descend(net, group, Z, seed=seed, noted=[0, 30], width=5)
        network = make_network(group, net, 3, width=5, seed=seed)
        assert torch.allclose(found.betas[0, 0], predictor(network))
        path = descend_by_tables(network.parametrisation(), network.flat_weights(), Z.numpy(), method="ngd", epochs=30)
        end = network.parametrisation().beta(path.directions[-1] * math.exp(path.log_norms[-1]))
        assert np.allclose(found.betas[1, 0].numpy(), end, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("net", ["group-cnn", "fully-connected"])
def test_plain_steps_are_gradient_steps_on_the_mean_loss_of_their_batch(net: str) -> None:
    group = dihedral(order=6)
    Z = torch.randn(6, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    found = fourier_descent.descend(
        net, group, Z, seed=0, noted=[0, 1, 2, 3], width=4, pace=fourier_descent.Pace(lr=0.05, batches=2)
    )
    network = make_network(group, net, 3, width=4, seed=0)
    for step in range(3):
        loss = (-(Z[step % 2 :: 2] @ predictor(network))).exp().mean()
        grads = torch.autograd.grad(loss, list(network.parameters()))
        with torch.no_grad():
            for w, g in zip(network.parameters(), grads, strict=True):
                w -= 0.05 * g
        assert torch.allclose(found.betas[step + 1, 0], predictor(network))


def test_the_initial_filters_are_those_of_the_network() -> None:
    group = p4m(3)
    layers = fourier_descent.initial_layers(group.order, 3, [7])
    assert torch.equal(torch.stack([w.detach().reshape(-1) for w in GroupCNN(group, 3, seed=7).weights]), layers[:, 0])


def test_recorded_steps_are_those_of_train() -> None:
    unit = {"net": "group-cnn", "method": "ngd", "lr": 0.0, "epochs": 250, "seed": 0}
    arrays = eq_relu._one(unit).arrays
    assert len(arrays["steps"]) == len(arrays["fourier"])
    assert arrays["steps"][0] == 0
    assert arrays["steps"][-1] == 250
