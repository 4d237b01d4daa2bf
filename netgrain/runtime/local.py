"""One unit after the other in this process."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from netgrain.runtime.engine_in_use import inside_unit
from netgrain.runtime.threads import one_thread
from netgrain.runtime.units import Outcome, Unit, Work


@dataclass(frozen=True)
class Local:
    """Units run here, each on one thread: the bits are those of every other engine."""

    name: str = "local"
    parallel: int = 1

    def run(self, work: Work, units: Sequence[Unit], ahead: int | None = None) -> Iterator[tuple[Unit, Outcome]]:
        for unit in units:
            with one_thread(), inside_unit():
                outcome = work(unit.config)
            yield unit, outcome
