"""One unit after the other in this process."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from netgrain.runtime.engine_in_use import inside_unit
from netgrain.runtime.engine_kinds import EngineKind
from netgrain.runtime.threads import one_thread
from netgrain.runtime.units import Outcome, Unit, Work


@dataclass(frozen=True)
class Local:
    """An engine that runs one unit after the other in this process.

    Each unit runs on one thread, so that results are bit-identical to those of every other engine.

    Parameters
    ----------
    name : str, default "local"
        Name of the engine.
    parallel : int, default 1
        Number of units at a time.

    Examples
    --------
    >>> units = [Unit({"n": n}) for n in (1, 2, 3)]
    >>> [outcome.numbers for _, outcome in Local().run(lambda config: Outcome({"square": config["n"] ** 2}), units)]
    [{'square': 1}, {'square': 4}, {'square': 9}]
    """

    name: str = "local"
    parallel: int = 1

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
        for unit in units:
            with one_thread(), inside_unit():
                outcome = work(unit.config)
            yield unit, outcome


LOCAL = EngineKind(name="local", make=Local, one_worker=True)
