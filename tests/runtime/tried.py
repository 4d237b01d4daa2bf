"""Engines that tests try, and the units they run."""

import importlib.util
from collections.abc import Mapping
from typing import Any

import pytest
import torch

from netgrain.runtime.local import Local
from netgrain.runtime.on_ray import Ray
from netgrain.runtime.processes import Processes
from netgrain.runtime.units import Engine, Outcome, Unit

needs_ray = pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="the extra [distributed] is missing")
needs_slurm = pytest.mark.skipif(importlib.util.find_spec("submitit") is None, reason="the extra [slurm] is missing")
# Ray leaves sockets and processes to the garbage collector of the interpreter that is ending
quiet = pytest.mark.filterwarnings("ignore")
one_cluster = pytest.mark.xdist_group("ray")  # started once, in one of the processes that run tests
TRIED = [
    pytest.param(Local(), id="local"),
    pytest.param(Processes(1), id="processes1"),
    pytest.param(Processes(2), id="processes2"),
    pytest.param(Ray(1), id="ray1", marks=[needs_ray, quiet, one_cluster]),
    pytest.param(Ray(2), id="ray2", marks=[needs_ray, quiet, one_cluster]),
]


def noise(unit: Mapping[str, Any]) -> Outcome:
    generator = torch.Generator().manual_seed(unit["n"])
    whole = torch.randn(40, 30, generator=generator)
    return Outcome(
        {"n": unit["n"], "threads": torch.get_num_threads()}, {"a": whole @ whole.T, "b": whole[3:5], "c": whole[3:4]}
    )


def units_of(n: int) -> list[Unit]:
    return [Unit({"n": i}) for i in range(n)]


def bits(via: Engine) -> list[tuple[int, bytes, bytes]]:
    units = units_of(7)
    found = [(u, o) for u, o in via.run(noise, units)]
    assert sorted(u.config["n"] for u, _ in found) == list(range(7))  # each once
    assert all(o.numbers["n"] == u.config["n"] and o.numbers["threads"] == 1 for u, o in found)
    return sorted((o.numbers["n"], o.arrays["a"].numpy().tobytes(), o.arrays["b"].numpy().tobytes()) for _, o in found)
