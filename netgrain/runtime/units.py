"""Pieces of independent work, named by the hash of what they are asked to do."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Unit:
    """One piece of independent work.

    Equal configurations are the same unit, whatever the order of their keys.

    Parameters
    ----------
    config : mapping from str to JSON value
        Everything that the result depends on.

    Examples
    --------
    >>> Unit({"a": 1, "b": 2}).id == Unit({"b": 2, "a": 1}).id != Unit({"a": 2, "b": 2}).id
    True
    """

    config: Mapping[str, Any]

    @property
    def id(self) -> str:
        """Sixteen hexadecimal digits that depend on the configuration alone."""
        return fingerprint(self.config)


@dataclass(frozen=True, eq=False)
class Outcome:
    """The result of a unit.

    Parameters
    ----------
    numbers : dict from str to JSON value
        Numbers, and anything else that JSON can hold.
    arrays : dict from str to Tensor
        Tensors of any shape.
    seconds : float, default 0.0
        Processor time. A run folder stores it outside the unit's file, so that the file is identical on any machine.
    """

    numbers: dict[str, Any] = field(default_factory=dict)
    arrays: dict[str, Tensor] = field(default_factory=dict)
    seconds: float = 0.0


Work = Callable[[Mapping[str, Any]], Outcome]


class Engine(Protocol):
    """Interface of all engines, which run independent units of work.

    Any object with these three members is an engine. Units are independent and can be repeated, so
    it may run them anywhere, in any order, and again after a failure.
    """

    @property
    def name(self) -> str:
        """Name of the engine."""
        ...

    @property
    def parallel(self) -> int:
        """Number of units at a time."""
        ...

    def run(self, work: Work, units: Sequence[Unit], ahead: int | None = None) -> Iterator[tuple[Unit, Outcome]]:
        """Run units, and yield each one once with its outcome as it is finished.

        Parameters
        ----------
        work : callable
            Takes the configuration of a unit and returns its `Outcome`.
        units : sequence of Unit
            The units, in the order in which to start them.
        ahead : int, optional
            Do not start a unit while one that is this many places before it is unfinished, so that collecting the
            outcomes in order needs bounded memory.

        Yields
        ------
        tuple of Unit and Outcome
            In any order.
        """
        ...


def in_order(found: Iterator[tuple[Unit, Outcome]], units: Sequence[Unit]) -> Iterator[Outcome]:
    """The outcomes of an engine in the order of the units, whose configurations all differ."""
    waiting: dict[str, Outcome] = {}
    for unit in units:
        name = unit.id
        while name not in waiting:
            other, outcome = next(found)
            waiting[other.id] = outcome
        yield waiting.pop(name)


def timed(work: Work, config: Mapping[str, Any]) -> Outcome:
    """The outcome with the processor time it took."""
    start = time.process_time()
    outcome = work(config)
    return replace(outcome, seconds=time.process_time() - start)


def fingerprint(config: Mapping[str, Any]) -> str:
    """Sixteen hexadecimal digits of the hash of the canonical JSON."""
    text = json.dumps(config, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
