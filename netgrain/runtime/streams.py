"""Members of an ensemble through an engine: several to a unit, back one by one and in order."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from netgrain.runtime.errors import NetgrainError
from netgrain.runtime.local import Local
from netgrain.runtime.processes import Processes, most_workers
from netgrain.runtime.units import Engine, Outcome, Unit, in_order

WORTH_FORKING = 3.0  # seconds of remaining work
AHEAD = 8  # units per worker that may be finished before their turn: bounds the memory of the reader

Members = Callable[[range], list[Outcome]]


class MemberStream:
    """The outcomes of members, for one range after the other.

    task computes some members at once. engine: where; None begins here and forks when the remaining work is worth
    it. about: what distinguishes these members from others (it becomes a part of every unit). ahead: units per worker
    that may be finished before their turn. known: outcomes of the first members, computed before.
    """

    def __init__(
        self,
        task: Members,
        engine: Engine | None,
        chunk: int,
        about: Mapping[str, Any] | None = None,
        ahead: int = AHEAD,
        known: Sequence[Outcome] = (),
    ) -> None:
        if chunk < 1:
            raise NetgrainError(f"expected at least one member per chunk, found {chunk}.")
        self.task, self.engine, self.chunk, self.about = task, engine, chunk, dict(about or {})
        self.ahead = ahead
        self.known = known
        self._seconds: float | None = None  # of a member here

    def map(self, indices: range, remaining: int) -> Iterator[Outcome]:
        """Outcomes in order; remaining: how many are still to come, with those after this range, if that is known."""
        yield from self.known[indices.start : indices.stop]
        indices = range(max(indices.start, len(self.known)), indices.stop)
        if self.engine is None and self._seconds is None and len(indices) > 2:
            started = time.perf_counter()
            yield from self._through(Local(), indices[:2])
            self._seconds = (time.perf_counter() - started) / 2
            indices = indices[2:]
        ahead = 0.0 if self._seconds is None else self._seconds * max(remaining, len(indices))
        if self.engine is None and ahead >= WORTH_FORKING and most_workers() > 1:
            self.engine = Processes()
        yield from self._through(self.engine or Local(), indices)

    def _through(self, engine: Engine, indices: range) -> Iterator[Outcome]:
        pieces = [indices[i : i + self.chunk] for i in range(0, len(indices), self.chunk)]
        units = [Unit({**self.about, "members": [p.start, p.stop]}) for p in pieces]
        ahead = self.ahead * max(1, engine.parallel) if units else 1
        for found in in_order(engine.run(partial(_several, self.task), units, ahead), units):
            yield from _each(found)


def _several(task: Members, config: Mapping[str, Any]) -> Outcome:
    found = task(range(*config["members"]))
    return Outcome(
        {"each": [o.numbers for o in found]}, {f"{n} {k}": t for n, o in enumerate(found) for k, t in o.arrays.items()}
    )


def _each(found: Outcome) -> Iterator[Outcome]:
    arrays: list[dict[str, Any]] = [{} for _ in found.numbers["each"]]
    for key, tensor in found.arrays.items():
        n, _, name = key.partition(" ")
        arrays[int(n)][name] = tensor
    for numbers, own in zip(found.numbers["each"], arrays, strict=True):
        yield Outcome(numbers, own)
