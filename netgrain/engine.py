"""Where independent work runs: here, or in processes. Every unit is named by the hash of what it is asked to do.

A unit is a plain JSON configuration; its result is numbers and tensors. Units are idempotent and independent, so an
engine may run them anywhere, in any order, and again after a failure.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from torch import Tensor

from netgrain.errors import NetgrainError
from netgrain.workers import Workers, most_workers


@dataclass(frozen=True)
class Unit:
    """One piece of work. Equal configurations are the same unit, whatever the order of their keys.

    >>> Unit({"a": 1, "b": 2}).id == Unit({"b": 2, "a": 1}).id != Unit({"a": 2, "b": 2}).id
    True
    """

    config: Mapping[str, Any]

    @property
    def id(self) -> str:
        return fingerprint(self.config)


@dataclass(frozen=True, eq=False)
class Outcome:
    """What a unit gives back."""

    numbers: dict[str, Any] = field(default_factory=dict)  # JSON values
    arrays: dict[str, Tensor] = field(default_factory=dict)
    seconds: float = 0.0  # of processor time; kept beside the unit's file, which is the same wherever it was made


Work = Callable[[Mapping[str, Any]], Outcome]


class Engine(Protocol):
    """The door through which all independent work goes."""

    @property
    def name(self) -> str: ...

    def run(self, work: Work, units: Sequence[Unit]) -> Iterator[tuple[Unit, Outcome]]:
        """Yield each unit with its outcome as it is finished, in any order."""
        ...


@dataclass(frozen=True)
class Local:
    """One unit after the other in this process."""

    name: str = "local"

    def run(self, work: Work, units: Sequence[Unit]) -> Iterator[tuple[Unit, Outcome]]:
        with Workers(lambda i: work(units[i].config)) as pool:
            yield from zip(units, pool.map(range(len(units))), strict=True)


@dataclass(frozen=True)
class Processes:
    """Units in forked single-thread processes; the bits are those of Local."""

    workers: int = 0  # 0: as many as there are cores
    name: str = "processes"

    def run(self, work: Work, units: Sequence[Unit]) -> Iterator[tuple[Unit, Outcome]]:
        count = min(self.workers or most_workers(), max(len(units), 1))
        with Workers(lambda i: work(units[i].config), count) as pool:
            yield from zip(units, pool.map(range(len(units))), strict=True)


def timed(work: Work, config: Mapping[str, Any]) -> Outcome:
    """The outcome with the processor time it took."""
    start = time.process_time()
    outcome = work(config)
    return replace(outcome, seconds=time.process_time() - start)


def engine(name: str = "processes", workers: int | None = None) -> Engine:
    """An engine by its command-line name."""
    if workers is not None and workers < 1:
        raise NetgrainError(f"expected at least one worker, found {workers}.")
    if name == "local":
        return Local()
    if name == "processes":
        return Processes(workers or 0)
    raise NetgrainError(f"engine '{name}' is not known; expected local or processes.")


def fingerprint(config: Mapping[str, Any]) -> str:
    """Sixteen hexadecimal digits of the hash of the canonical JSON."""
    text = json.dumps(config, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
