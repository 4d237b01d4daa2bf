"""Pieces of independent work, named by the hash of what they are asked to do."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from torch import Tensor


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

    @property
    def parallel(self) -> int:
        """How many units it has in hand at a time."""
        ...

    def run(self, work: Work, units: Sequence[Unit], ahead: int | None = None) -> Iterator[tuple[Unit, Outcome]]:
        """Yield each unit once with its outcome as it is finished, in any order.

        ahead: no unit is begun while one that is so many places before it is unfinished, so that a reader who wants
        them in order needs bounded memory.
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
