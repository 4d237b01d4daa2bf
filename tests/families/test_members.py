"""Members depend on (seed, i) alone; gradients are right and leave everything as it was."""

import random
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import netgrain as ng
from netgrain.families.members import member
from netgrain.runtime.processes import Processes
from netgrain.runtime.randomness import seeded
from netgrain.runtime.threads import one_thread
from netgrain.runtime.units import Outcome, Unit


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


def test_the_callers_random_states_and_threads_come_back() -> None:
    torch.manual_seed(5), np.random.seed(5), random.seed(5)
    expected = torch.rand(1), np.random.rand(), random.random()
    torch.manual_seed(5), np.random.seed(5), random.seed(5)
    threads = torch.get_num_threads()
    ng.average_geometry(small, (12,), members=3)
    with seeded(3):
        torch.rand(3)
    assert (torch.rand(1), np.random.rand(), random.random()) == expected
    assert torch.get_num_threads() == threads


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


def _blas_threads() -> dict[str, int]:
    import scipy.linalg  # noqa: F401  (brings a library of its own)
    from threadpoolctl import threadpool_info

    return {lib["filepath"]: lib["num_threads"] for lib in threadpool_info() if lib["user_api"] == "blas"}


def test_one_thread_of_linear_algebra_and_back() -> None:
    from threadpoolctl import threadpool_limits

    _blas_threads()  # everything is loaded before it is limited
    with threadpool_limits(2, user_api="blas"):
        able = {path for path, threads in _blas_threads().items() if threads == 2}  # some are built for one thread
        assert able
        with one_thread():
            assert set(_blas_threads().values()) == {1}
        assert {path for path, threads in _blas_threads().items() if threads == 2} == able

        def threads(unit: Any) -> Outcome:
            return Outcome({"blas": sorted(set(_blas_threads().values())), "torch": torch.get_num_threads()})

        found = [o.numbers for _, o in Processes(2).run(threads, [Unit({"i": 0}), Unit({"i": 1})])]
        assert found == [{"blas": [1], "torch": 1}] * 2
        assert {path for path, threads in _blas_threads().items() if threads == 2} == able
