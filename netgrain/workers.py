"""Run one function over many indices, here or in forked processes, results in order and the same for both."""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import signal
import sys
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from types import TracebackType
from typing import Any, Generic, TypeVar

import torch

from netgrain.errors import NetgrainError
from netgrain.threads import one_thread, one_thread_for_good

T = TypeVar("T")

_task: Callable[[int], Any] | None = None  # what a forked worker inherits: lambdas and local classes need no pickling


def _start(parent: int) -> None:
    one_thread_for_good()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
    # end with the parent, however it ends: an orphan would wait for work for ever
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # 1: PR_SET_PDEATHSIG
    if os.getppid() != parent:
        os._exit(1)


def _run(indices: list[int]) -> list[Any]:
    assert _task is not None
    return [_task(i) for i in indices]


def most_workers() -> int:
    """How many processes make sense here: one for each core; one in all in a worker, and where forking is unsafe."""
    if sys.platform != "linux" or torch.cuda.is_initialized() or multiprocessing.parent_process() is not None:
        return 1
    return len(os.sched_getaffinity(0))


class Workers(Generic[T]):
    """A pool for one task; every unit runs on one torch thread, so the bits do not depend on `count`."""

    def __init__(self, task: Callable[[int], T], count: int = 1, chunk: int = 1) -> None:
        if count < 1 or chunk < 1:
            raise NetgrainError(f"expected at least one worker and one member per chunk, found {count} and {chunk}.")
        self.task, self.chunk = task, chunk
        self.count = min(count, most_workers())
        self._pool: ProcessPoolExecutor | None = None

    def __enter__(self) -> Workers[T]:
        return self

    def map(self, indices: Iterable[int]) -> Iterator[T]:
        """task(i) for every i, in order."""
        if self.count == 1:
            for i in indices:
                with one_thread():
                    result = self.task(i)
                yield result
            return
        yield from self._map_in_processes(list(indices))

    def _map_in_processes(self, indices: list[int]) -> Iterator[T]:
        global _task
        if self._pool is None:
            _task = self.task
            self._pool = ProcessPoolExecutor(
                self.count, mp_context=multiprocessing.get_context("fork"), initializer=_start, initargs=(os.getpid(),)
            )
        chunks = [indices[i : i + self.chunk] for i in range(0, len(indices), self.chunk)]
        waiting: deque[Future[list[Any]]] = deque()
        try:
            # a few chunks ahead of the reader, so that memory stays bounded
            for piece in chunks:
                waiting.append(self._submit(piece))
                if len(waiting) > 2 * self.count:
                    yield from waiting.popleft().result()
            while waiting:
                yield from waiting.popleft().result()
        except BrokenProcessPool as e:
            raise NetgrainError(
                "a worker process died, most likely for lack of memory; try workers=1 or fewer probes."
            ) from e

    def _submit(self, piece: list[int]) -> Future[list[Any]]:
        assert self._pool is not None
        with warnings.catch_warnings():
            # newer Pythons warn of forking beside threads; workers use one thread and nothing the others may hold
            warnings.simplefilter("ignore", DeprecationWarning)
            return self._pool.submit(_run, piece)

    def __exit__(self, kind: type[BaseException] | None, e: BaseException | None, trace: TracebackType | None) -> None:
        global _task
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)
            self._pool = None
            _task = None
