"""Units on a Ray cluster: one that is started here, or one that is there. Extra [distributed].

Units are stateless, so a lost worker or host costs the units it had in hand and no more. Ray itself pickles what goes
over the wire between processes that the user started; nothing of it is kept on disk.
"""

from __future__ import annotations

import importlib.util
import logging
import os
import socket
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from netgrain.runtime.answers import Answer, answer, failure, outcome_of
from netgrain.runtime.backlog import Backlog
from netgrain.runtime.engine_kinds import EngineKind, not_negative, positive, text
from netgrain.runtime.environment import environment
from netgrain.runtime.errors import NetgrainError, install
from netgrain.runtime.processes import most_workers
from netgrain.runtime.threads import one_thread_for_good
from netgrain.runtime.units import Outcome, Unit, Work
from netgrain.runtime.versions import versions

# Without these a host whose cable is pulled is not missed for minutes. They belong on every node of a cluster, before
# `ray start`: docs/reliability.md has them as lines for a shell.
HEALTH = {
    "RAY_grpc_client_keepalive_time_ms": "5000",
    "RAY_grpc_client_keepalive_timeout_ms": "5000",
    "RAY_health_check_period_ms": "1000",
    "RAY_health_check_timeout_ms": "2000",
    "RAY_health_check_failure_threshold": "3",
}
QUIET = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}
# Ray's own 15 leaves a worker a thirtieth of a processor that something else wants: even its start can take minutes
PRIORITY = {"RAY_worker_niceness": "0"}
PATIENCE = 5.0  # seconds for a first connection
LEAST_DEADLINE = 120.0  # seconds, where none is given
SLOW = 10  # times as long as the slowest unit so far: then a unit is sent once more


@dataclass(frozen=True)
class Ray:
    """An engine that runs units as tasks of a Ray cluster; extra ``[distributed]``.

    On machines of one kind, results are bit-identical to those of `Local`.

    Parameters
    ----------
    workers : int, default 0
        Number of units to run at once; 0 means the number of processors of the cluster.
    address : str, optional
        ``"HOST:PORT"`` of a running cluster of which this machine is a node, or ``"auto"``; by
        default a cluster is started here, and ends with this process.
    deadline : float, optional
        Seconds after which a unit is treated as hung and restarted. By default, a unit that takes ten times as long as
        the slowest so far, and at least two minutes, is submitted a second time and the first result is used, so a unit
        that is merely slow is never abandoned.
    gpus : float, default 0.0
        Number of GPUs for each unit.
    name : str, default "ray"
        Name of the engine.
    """

    workers: int = 0
    address: str | None = None
    deadline: float | None = None
    gpus: float = 0.0
    name: str = "ray"

    @property
    def parallel(self) -> int:
        """Number of units at a time; starts or joins the cluster if `workers` is 0."""
        return self.workers or _slots(_connected(self.address), self.gpus)

    def run(self, work: Work, units: Sequence[Unit], ahead: int | None = None) -> Iterator[tuple[Unit, Outcome]]:
        """Run units, and yield each one once with its outcome.

        Parameters
        ----------
        work : callable
            Takes the configuration of a unit and returns its `Outcome`.
        units : sequence of Unit
            The units.
        ahead : int, optional
            See `Engine.run`.

        Yields
        ------
        tuple of Unit and Outcome
            As they are finished.
        """
        if not units:
            return
        ray = _connected(self.address)
        backlog = Backlog(len(units), ahead=ahead, deadline=self.deadline or LEAST_DEADLINE)
        # max_calls=0: a GPU unit would otherwise get a new process each time; retries are the backlog's
        do = ray.remote(num_cpus=1, num_gpus=self.gpus, max_retries=0, max_calls=0)(_do)
        # a host that fell silent may be given units for minutes: what is late goes to one that can be reached, our own
        near = do.options(scheduling_strategy=_on_this_host(ray))
        were_late: set[int] = set()
        shared = ray.put(work)
        expected, variables = versions(), _variables()
        out: dict[Any, int] = {}
        overdue: set[Any] = set()  # of out: sent again meanwhile, and the answer that comes first counts
        parallel = self.parallel
        try:
            while not backlog.finished:
                while len(out) - len(overdue) < parallel and (i := backlog.take()) is not None:
                    task = near if i in were_late else do
                    out[task.remote([shared], dict(units[i].config), expected, variables)] = i
                ready, _ = ray.wait(list(out), num_returns=1, timeout=_at_most(backlog.patience(), 1.0))
                for reference in ready:
                    i, late_one = out.pop(reference), reference in overdue
                    overdue.discard(reference)
                    try:
                        found: Answer = ray.get(reference)
                    except ray.exceptions.RayError as e:
                        cause = getattr(e, "cause", None)
                        if cause is not None and not isinstance(cause, ray.exceptions.RayError):
                            raise NetgrainError(_why_no_start(cause)) from e
                        if not late_one:  # else it was lost before, and is on its way again
                            backlog.lost(i, f"Ray says {type(cause or e).__name__}")
                        continue
                    if backlog.done(i):
                        if self.deadline is None:
                            backlog.deadline = max(LEAST_DEADLINE, SLOW * backlog.slowest)
                        yield units[i], outcome_of(found)
                for i in backlog.late():
                    were_late.add(i)
                    late = [r for r, j in out.items() if j == i]
                    overdue.update(late)
                    if self.deadline is None:  # perhaps it is only long: whichever answers first will do
                        backlog.again(i)
                        continue
                    backlog.overdue(i)
                    for reference in late:  # it is known to be hung, and would keep its processor
                        ray.cancel(reference, force=True)
        finally:
            for reference in out:
                ray.cancel(reference, force=True)


RAY = EngineKind(
    name="ray",
    make=Ray,
    options={"address": text, "deadline": positive, "gpus": not_negative},
    elsewhere=True,
    start_up=8.0,
    package="ray",
    extra="distributed",
)

_cached: tuple[str, Work] | None = None  # of a worker process: the last work it was sent, by its address


def _do(shared: list[Any], config: Mapping[str, Any], expected: dict[str, str], variables: dict[str, str]) -> Answer:
    """One unit, in a process of Ray. The work is fetched once per process: it may hold a whole data set."""
    global _cached
    if (found := versions()) != expected:
        differ = "; ".join(f"{k} {found[k]} there, {v} here" for k, v in expected.items() if found[k] != v)
        return failure(f"the worker on {socket.gethostname()} has other versions ({differ}); install the same on both.")
    import ray

    if _cached is None or _cached[0] != shared[0].hex():
        one_thread_for_good()
        try:
            _cached = (shared[0].hex(), ray.get(shared[0]))
        except NetgrainError as e:  # a family that is loaded again from its text
            return failure(f"on {socket.gethostname()}: {e}")
    with environment(variables):
        return answer(_cached[1], config)


def _variables() -> dict[str, str]:
    """What a user set for netgrain (where data are) is set for its units, too."""
    return {key: value for key, value in os.environ.items() if key.startswith("NETGRAIN_")}


# --- the cluster --------------------------------------------------------------------------------------------------


def _connected(address: str | None) -> Any:
    """The ray module, connected; a connection that is there is used."""
    if importlib.util.find_spec("ray") is None:
        raise NetgrainError(f"engine 'ray' needs an extra; type: {install('distributed')}.")
    settings = {key: value for key, value in {**HEALTH, **QUIET, **PRIORITY}.items() if key not in os.environ}
    with environment(settings):  # read when Ray is loaded and when it starts
        import ray

        if not ray.is_initialized():
            _start(ray, address)
    return ray


def _start(ray: Any, address: str | None) -> None:
    if address is not None and address != "auto":
        _reach(address)
    try:
        if address is None:
            ray.init(
                num_cpus=most_workers(),
                include_dashboard=False,
                log_to_driver=False,
                logging_level=logging.ERROR,
            )
        else:
            ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
    except RuntimeError as e:
        if "ersion mismatch" not in str(e):
            raise NetgrainError(f"Ray could not be started: {_line(e)}") from e
        raise NetgrainError(
            f"the Ray cluster at {address} has other versions of Ray or Python than this process "
            f"({_line(e)}); install the same on both."
        ) from e
    except (ConnectionError, TimeoutError, ValueError, OSError) as e:
        raise NetgrainError(
            f"no Ray cluster answers at {address or 'this machine'} ({_line(e)}); start one with `ray start --head`, "
            "or leave --address out to start one here."
        ) from e


def _reach(address: str) -> None:
    """Report a wrong address within seconds; Ray itself would try for a minute."""
    host, colon, port = address.rpartition(":")
    if not colon or not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise NetgrainError(f"--address expects HOST:PORT as in 10.0.0.1:6379, or auto; found '{address}'.")
    try:
        socket.create_connection((host, int(port)), PATIENCE).close()
    except OSError as e:
        raise NetgrainError(
            f"no Ray cluster answers at {address} ({e.strerror or e}); check the address and that "
            "`ray start --head` was run there, or leave --address out to start one here."
        ) from e


def _slots(ray: Any, gpus: float) -> int:
    there = ray.cluster_resources()
    by_gpu = there.get("GPU", 0) / gpus if gpus else float("inf")
    if by_gpu < 1:
        raise NetgrainError(f"each unit asks for {gpus:g} GPUs, the cluster has {there.get('GPU', 0):g}; lower gpus=.")
    return max(1, int(min(there.get("CPU", 1), by_gpu)))


def _on_this_host(ray: Any) -> Any:
    """Here, unless this host takes no units at all."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    return NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=True)


def _why_no_start(cause: BaseException) -> str:
    if isinstance(cause, ImportError):
        return f"a worker of the Ray cluster cannot import what it needs ({_line(cause)}); install netgrain there."
    return f"a worker of the Ray cluster could not begin its unit: {_line(cause)}"


def _line(e: BaseException) -> str:
    return " ".join(str(e).split())[:300]


def _at_most(seconds: float | None, most: float) -> float:
    return most if seconds is None else min(seconds, most)
