"""One unit after the other in this process."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from netgrain.engine.current import here
from netgrain.engine.units import Outcome, Unit, Work
from netgrain.threads import one_thread


@dataclass(frozen=True)
class Local:
    """Units run here, each on one thread: the bits are those of every other engine."""

    name: str = "local"
    parallel: int = 1

    def run(self, work: Work, units: Sequence[Unit], ahead: int | None = None) -> Iterator[tuple[Unit, Outcome]]:
        for unit in units:
            with one_thread(), here():
                outcome = work(unit.config)
            yield unit, outcome
