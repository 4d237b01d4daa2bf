"""Units in forked single-thread processes of this machine; one that dies or hangs is replaced and its unit repeated."""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import signal
import sys
import threading
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkProcess

from netgrain.runtime.answers import Answer, answer, outcome_of
from netgrain.runtime.backlog import ATTEMPTS, Backlog
from netgrain.runtime.engine_kinds import EngineKind, positive
from netgrain.runtime.local import Local
from netgrain.runtime.memory import give_back
from netgrain.runtime.threads import one_thread_for_good
from netgrain.runtime.units import Outcome, Unit, Work


def can_fork() -> bool:
    """Forking is safe: on Linux, before CUDA is used, and not inside a worker, which has one core for itself."""
    import torch  # late: see threads

    return sys.platform == "linux" and not torch.cuda.is_initialized() and multiprocessing.parent_process() is None


def most_workers() -> int:
    """How many processes make sense here: one for each core, or one in all where forking is unsafe."""
    return len(os.sched_getaffinity(0)) if can_fork() else 1


@dataclass(frozen=True)
class Processes:
    """An engine that runs units in forked processes of this machine.

    A process that dies or hangs is replaced and its unit repeated. Where forking is not safe (not
    on Linux, after CUDA was used, inside a worker) units run in this process. Results are
    bit-identical to those of `Local`.

    Parameters
    ----------
    workers : int, default 0
        Number of processes; 0 means the number of cores.
    deadline : float, optional
        Seconds after which a unit is treated as hung; by default no limit.
    attempts : int, default 5
        Number of times to start a unit before the run fails.
    name : str, default "processes"
        Name of the engine.

    Examples
    --------
    >>> Processes(workers=2).parallel
    2
    """

    workers: int = 0
    deadline: float | None = None
    attempts: int = ATTEMPTS
    name: str = "processes"

    @property
    def parallel(self) -> int:
        """Number of units at a time."""
        return self.workers or most_workers()

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
        if not can_fork():
            yield from Local().run(work, units, ahead)
            return
        backlog = Backlog(len(units), ahead=ahead, deadline=self.deadline, attempts=int(self.attempts))
        give_back()
        crew = [Worker(work, units) for _ in range(min(self.parallel, len(units)))]
        try:
            while not backlog.finished:
                for place, worker in enumerate(crew):
                    if worker.index is None and (i := backlog.take()) is not None:
                        if not worker.alive:
                            crew[place] = worker = worker.replaced()
                        worker.send(i)
                for worker in _ready([w for w in crew if w.index is not None], backlog.patience()):
                    i, found = worker.index, worker.receive(self.deadline)
                    assert i is not None
                    if found is None:
                        backlog.lost(i, worker.fate())
                    elif backlog.done(i):
                        yield units[i], outcome_of(found)
                for i in backlog.late():
                    worker = next(w for w in crew if w.index == i)
                    worker.index = None
                    worker.kill()
                    backlog.overdue(i)
        finally:
            for worker in crew:
                worker.kill()
            for worker in crew:
                worker.process.join()


PROCESSES = EngineKind(
    name="processes", make=Processes, options={"deadline": positive, "attempts": positive}, start_up=0.05
)


class Worker:
    """A forked process and the pipe to it. It inherits the work, so nothing has to be sent but the place of a unit."""

    def __init__(self, work: Work, units: Sequence[Unit]) -> None:
        self.work, self.units = work, units
        self.index: int | None = None  # the unit it is busy with
        self.pipe, theirs = multiprocessing.Pipe()
        with warnings.catch_warnings():
            # newer Pythons warn of forking beside threads; workers use one thread and nothing the others may hold
            warnings.simplefilter("ignore", DeprecationWarning)
            self.process = ForkProcess(target=_serve, args=(theirs, os.getpid(), work, units), daemon=True)
            self.process.start()
        theirs.close()  # else the end of the process would not be the end of the pipe

    @property
    def alive(self) -> bool:
        return self.process.is_alive()

    def send(self, i: int) -> None:
        self.index = i
        with suppress(OSError):  # it died meanwhile, which receive() will find out
            self.pipe.send_bytes(str(i).encode())

    def receive(self, deadline: float | None) -> Answer | None:
        """Its answer; None if it died before the last byte was there, or hung for longer than the deadline."""
        self.index = None
        try:
            with _killed_after(deadline, self.process):
                return self.pipe.recv_bytes(), self.pipe.recv_bytes()
        except (EOFError, OSError):
            self.kill()
            return None

    def kill(self) -> None:
        self.process.kill()
        self.process.join()
        self.pipe.close()

    def replaced(self) -> Worker:
        self.kill()
        return Worker(self.work, self.units)

    def fate(self) -> str:
        code = self.process.exitcode or 0
        return f"its process ended by {signal.Signals(-code).name}" if code < 0 else f"its process exited with {code}"


@contextmanager
def _killed_after(seconds: float | None, process: ForkProcess) -> Iterator[None]:
    """A large answer comes in pieces, and a worker may hang between two: then its end is the end of the pipe."""
    if seconds is None:
        yield
        return
    timer = threading.Timer(seconds, process.kill)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()  # no thread is left when the next worker is forked


def _ready(busy: list[Worker], patience: float | None) -> list[Worker]:
    found = set(wait([w.pipe for w in busy], patience))
    return [w for w in busy if w.pipe in found]


def _serve(pipe: Connection, parent: int, work: Work, units: Sequence[Unit]) -> None:
    one_thread_for_good()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
    # end with the parent, however it ends: an orphan would wait for work for ever
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # 1: PR_SET_PDEATHSIG
    if os.getppid() != parent:
        os._exit(1)
    while True:
        try:
            i = int(pipe.recv_bytes())
        except EOFError:
            return
        for part in answer(work, units[i].config):
            pipe.send_bytes(part)
