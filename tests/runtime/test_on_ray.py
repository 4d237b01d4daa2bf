"""Units on Ray: late ones go elsewhere, long ones are waited for, wrong clusters are named."""

import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch

import netgrain as ng
from netgrain.runtime import on_ray
from netgrain.runtime.backlog import Backlog
from netgrain.runtime.on_ray import Ray
from netgrain.runtime.units import Outcome
from tests.runtime.tried import needs_ray, noise, one_cluster, quiet, units_of


@needs_ray
@quiet
@one_cluster
def test_a_late_unit_goes_to_a_host_that_can_be_reached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only what is late goes to the host of `_on_this_host`: where that does not exist, this unit alone is lost.

    A clock would call a unit late that only waits for Ray to start its worker: the others must have come back.
    """
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    def hangs_once(unit: Mapping[str, Any]) -> Outcome:
        mark = tmp_path / str(unit["n"])
        if unit["n"] == 1 and not mark.exists():
            mark.touch()
            time.sleep(600)
        return Outcome({"n": unit["n"]})

    class Judge(Backlog):
        def late(self) -> list[int]:
            return [1] if self._next == 3 and list(self._sent) == [1] and self._tries[1] == 1 else []

    monkeypatch.setattr(on_ray, "Backlog", Judge)
    monkeypatch.setattr(on_ray, "_on_this_host", lambda ray: NodeAffinitySchedulingStrategy("ab" * 28, soft=False))
    found = Ray(2, deadline=4.0).run(hangs_once, units_of(3))
    assert sorted(next(found)[1].numbers["n"] for _ in range(2)) == [0, 2]
    with pytest.raises(ng.NetgrainError, match=r"lost 5 times \(Ray says TaskUnschedulableError\)"):
        next(found)


@needs_ray
@quiet
@one_cluster
def test_units_on_ray_wait_for_nobody() -> None:
    """Ray gives its workers the lowest priority but four: beside other work they would hardly begin."""
    ((_, found),) = Ray(1).run(lambda unit: Outcome({"nice": os.nice(0)}), units_of(1))
    assert found.numbers["nice"] == os.nice(0)


@needs_ray
@quiet
@one_cluster
def test_a_long_unit_is_never_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a deadline a unit may be sent again many times, and still its first answer counts."""
    monkeypatch.setattr(on_ray, "LEAST_DEADLINE", 0.02)  # doubled five times, that is 0.6 seconds

    def long(unit: Mapping[str, Any]) -> Outcome:
        time.sleep(2)
        return Outcome({"n": unit["n"]})

    assert [o.numbers["n"] for _, o in Ray(1).run(long, units_of(1))] == [0]
    assert "RAY_health_check_period_ms" not in os.environ  # what Ray is told stays with Ray


@needs_ray
@quiet
@one_cluster
def test_addresses_where_no_cluster_is(monkeypatch: pytest.MonkeyPatch) -> None:
    import ray

    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    with pytest.raises(ng.NetgrainError, match=r"no Ray cluster answers at 127\.0\.0\.1:9 \(Connection refused\)"):
        list(Ray(1, "127.0.0.1:9").run(noise, units_of(1)))
    with pytest.raises(ng.NetgrainError, match=r"--address expects HOST:PORT as in 10\.0\.0\.1:6379"):
        list(Ray(1, "somewhere").run(noise, units_of(1)))


@needs_ray
@quiet
@one_cluster
def test_workers_of_another_version(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(on_ray, "versions", lambda: {"netgrain": "9.9", "torch": torch.__version__})
    with pytest.raises(ng.NetgrainError, match=r"other versions \(netgrain .* there, 9\.9 here\); install"):
        list(Ray(1).run(noise, units_of(1)))


@needs_ray
@quiet
@one_cluster
def test_the_environment_of_a_user_reaches_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    def looks(unit: Mapping[str, Any]) -> Outcome:
        return Outcome({"data": os.environ.get("NETGRAIN_DATA")})

    list(Ray(1).run(looks, units_of(1)))  # a worker that is there already
    monkeypatch.setenv("NETGRAIN_DATA", "/somewhere")
    assert [o.numbers["data"] for _, o in Ray(1).run(looks, units_of(1))] == ["/somewhere"]
    monkeypatch.delenv("NETGRAIN_DATA")
    assert [o.numbers["data"] for _, o in Ray(1).run(looks, units_of(1))] == [None]


GPU_UNITS = """
import os, ray
from netgrain.runtime.units import Outcome, Unit
from netgrain.runtime.on_ray import Ray

def pid(unit):
    return Outcome({"pid": os.getpid()})

ray.init(num_cpus=1, num_gpus=1, include_dashboard=False, log_to_driver=False)  # Ray counts GPUs, it does not look
print(len({o.numbers["pid"] for _, o in Ray(1, gpus=1.0).run(pid, [Unit({"n": n}) for n in range(4)])}))
try:
    list(Ray(0, gpus=2.0).run(pid, [Unit({"n": 0})]))
except ValueError as e:
    print(e)
"""


@needs_ray
@pytest.mark.skipif("NETGRAIN_THOROUGH" not in os.environ, reason="starts a cluster of its own: NETGRAIN_THOROUGH=1")
def test_gpu_units_reuse_their_worker_and_the_cluster_of_the_user() -> None:
    told = subprocess.run([sys.executable, "-W", "ignore", "-c", GPU_UNITS], capture_output=True, text=True, check=True)
    assert told.stdout == "1\neach unit asks for 2 GPUs, the cluster has 1; lower gpus=.\n"
