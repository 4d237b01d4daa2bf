"""The effort behind a prediction follows from counted operations alone."""

import math

import torch
from torch import nn

from netgrain.auditing.effort import FEWEST_SAMPLES, WORK, effort_for, threads_for
from netgrain.families.reading import read
from netgrain.families.sizes import operations


def test_expensive_networks_get_fewer_members_then_fewer_samples() -> None:
    found = {}
    for width in (10, 3000, 20_000):
        reading = read(lambda width=width: nn.Linear(100 * width, 100), (100 * width,), 0)
        found[width] = effort_for(reading, 2000)
        each = operations(reading)
        assert each == 2 * 100 * width * 100
        spent = found[width].samples * (found[width].members or 2) * each
        assert spent <= WORK or found[width].samples == FEWEST_SAMPLES
    assert found[10].kinds == ("layers", "tangent")
    assert found[3000].kinds == ("layers",)
    assert found[3000].members == 2
    assert found[20_000].samples == math.floor(WORK / (2 * 4e8)) or found[20_000].samples == FEWEST_SAMPLES


def test_a_quick_audit_uses_less() -> None:
    found = effort_for(read(lambda: nn.Linear(3, 5), (3,), 0), 2000, quick=True)
    assert (found.kinds, found.samples) == (("layers",), 500)


def test_small_networks_work_in_one_thread_and_large_ones_in_as_many_as_there_were() -> None:
    small, large = read(lambda: nn.Linear(3, 5), (3,)), read(lambda: nn.Conv2d(64, 64, 3), (64, 70, 70))
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        for reading, threads in ((small, 1), (large, 2)):
            with threads_for(reading):
                assert torch.get_num_threads() == threads
            assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
