"""Members depend on (seed, i) alone."""

import random
from functools import partial

import numpy as np
import pytest
import torch
from torch import nn

import netgrain as ng
from netgrain.families.members import member


def small() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(12, 8), nn.GELU(), nn.Linear(8, 3))


def _weights(model: nn.Module) -> torch.Tensor:
    return torch.cat([p.flatten() for p in model.parameters()])


@pytest.mark.quick
def test_a_member_is_a_function_of_seed_and_index() -> None:
    a = _weights(member(small, 0, 5))
    torch.rand(7)
    assert torch.equal(a, _weights(member(small, 0, 5)))
    for other in (member(small, 0, 6), member(small, 1, 5)):
        assert not torch.equal(a, _weights(other))


def test_a_member_made_with_numpy_or_python_randomness_is_seeded_too() -> None:
    def make() -> nn.Module:
        net = nn.Linear(2, 1)
        net.weight.data = torch.tensor([[np.random.randn(), random.random()]], dtype=torch.float32)
        return net

    assert torch.equal(_weights(member(make, 0, 1)), _weights(member(make, 0, 1)))
    assert not torch.equal(_weights(member(make, 0, 1)), _weights(member(make, 0, 2)))


@pytest.mark.parametrize("first_layer", ["auto", "never"])
def test_same_seed_same_bits_for_every_chunk_and_worker_count(first_layer: str) -> None:
    from netgrain.models import LeNet

    make = partial(LeNet, channels=1, outputs=2, image_size=16, activation="gelu")
    results = [
        ng.average_geometry(make, (1, 16, 16), members=70, first_layer=first_layer, chunk=chunk, workers=workers)
        for chunk, workers in ((1, 1), (7, 1), (64, 1), (1, 2), (7, 2), (64, 2))
    ]
    first = results[0].matrix()
    assert all(torch.equal(first, G.matrix()) for G in results[1:])
    other = ng.average_geometry(make, (1, 16, 16), members=70, first_layer=first_layer, seed=1)
    assert not torch.equal(first, other.matrix())
