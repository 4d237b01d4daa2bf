"""Seeds from labels, and generators given back as they were found."""

import hashlib
import random

import numpy as np
import pytest
import torch
from torch import nn

import netgrain as ng
from netgrain.runtime.randomness import derived_seed, generator_for, seeded


def small() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(12, 8), nn.GELU(), nn.Linear(8, 3))


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


@pytest.mark.quick
def test_seeds_from_labels_differ_and_repeat() -> None:
    labels = [("member", 1), ("member", 2), ("member", "1"), ("member1",), ("member", 1, 0), ()]
    seeds = [derived_seed(seed, *label) for seed in (0, 1) for label in labels]
    assert len(set(seeds)) == len(seeds)
    assert seeds == [derived_seed(seed, *label) for seed in (0, 1) for label in labels]
    assert all(0 <= s < 2**63 for s in seeds)
    digest = hashlib.blake2b(b"(0, 'member', 1)", digest_size=8).digest()
    assert seeds[0] == int.from_bytes(digest, "little") // 2  # in every version: run folders depend on it


def test_a_generator_is_a_function_of_its_labels() -> None:
    draws = [torch.rand(3, generator=generator_for(0, *labels)) for labels in (("a", 1), ("a", 1), ("a", 2))]
    assert torch.equal(draws[0], draws[1])
    assert not torch.equal(draws[0], draws[2])
    assert torch.equal(draws[0], torch.rand(3, generator=torch.Generator().manual_seed(derived_seed(0, "a", 1))))


@pytest.mark.parametrize("accelerated", [False, True])
def test_other_devices_are_seeded_where_there_are_any(accelerated: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    plain = torch.manual_seed
    monkeypatch.setattr(torch, "manual_seed", lambda seed: (asked.append(seed), plain(seed))[1])
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: accelerated)
    with seeded(5):
        found = torch.rand(3)
    assert asked == ([5] if accelerated else [])
    assert torch.equal(found, torch.rand(3, generator=torch.Generator().manual_seed(5)))
