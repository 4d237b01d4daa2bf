"""Engines that keep what they finish in a run folder: one for a whole run, one for a run folder that is only a net."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from netgrain.runtime.errors import NetgrainError
from netgrain.runtime.local import Local
from netgrain.runtime.progress import Bar
from netgrain.runtime.run_folder import RunFolder
from netgrain.runtime.units import Engine, Outcome, Unit, Work, timed


class WrappedEngine:
    """Part of an engine that leaves the work to another one."""

    engine: Engine

    @property
    def name(self) -> str:
        return self.engine.name

    @property
    def parallel(self) -> int:
        return self.engine.parallel


class Runner(WrappedEngine):
    """An engine that stores finished units in a run folder.

    Units that are already in the folder are read from it; the others run on another engine. Pass it to any function
    with an `engine` parameter.

    Parameters
    ----------
    folder : RunFolder
        Where outcomes are stored.
    engine : Engine, optional
        Where missing units run; `Local` by default.
    progress : bool, optional
        Show a progress bar; by default on a terminal, after two seconds.
    """

    def __init__(self, folder: RunFolder, engine: Engine | None = None, *, progress: bool | None = None) -> None:
        self.folder, self.engine, self.progress = folder, engine or Local(), progress
        self.computed = 0

    def run(self, work: Work, units: Sequence[Unit], ahead: int | None = None) -> Iterator[tuple[Unit, Outcome]]:
        """Outcomes of units, in order where they are read, as `Engine.run`.

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
            As they are finished where they are computed.
        """
        # files are checked first and read again in their turn, so that a large run need not fit into memory
        missing = [u for u in units if self.folder.stored(u) is None]
        absent = {u.id for u in missing}
        computed = self._computed(work, missing, ahead)
        for unit in units:
            if (name := unit.id) not in absent:
                yield unit, self._read(unit)
            while name in absent:
                found, outcome = next(computed)
                absent.discard(found.id)
                yield found, outcome

    def _computed(self, work: Work, units: Sequence[Unit], ahead: int | None) -> Iterator[tuple[Unit, Outcome]]:
        for unit, outcome in self.engine.run(partial(timed, work), units, ahead):
            self.folder.store(unit, outcome)
            self.folder.note_seconds(unit, outcome.seconds)
            self.computed += 1
            yield unit, outcome

    def _read(self, unit: Unit) -> Outcome:
        found = self.folder.stored(unit)
        if found is None:
            raise NetgrainError(f"{self.folder.unit_file(unit)} vanished while it was used; run it again.")
        return found

    def map(self, work: Work, configs: Iterable[Mapping[str, Any]], label: str = "units") -> list[Outcome]:
        """Outcomes in the order of the configurations.

        Parameters
        ----------
        work : callable
            Takes a configuration and returns its `Outcome`.
        configs : iterable of mappings
            One for each unit.
        label : str, default "units"
            What the progress bar counts.

        Returns
        -------
        list of Outcome
            One for each configuration.
        """
        units = [Unit(dict(c)) for c in configs]
        found = {u.id: o for u in units if (o := self.folder.stored(u)) is not None}
        missing = list({u.id: u for u in units if u.id not in found}.values())
        if missing and not self.folder.writable:
            raise NetgrainError(
                f"{self.folder.path} lacks {len(missing)} of {len(units)} {label}; finish the run with --resume first."
            )
        with Bar(label, len(units), self.progress) as bar:
            bar.advance(len(units) - len(missing))
            for unit, outcome in self._computed(work, missing, None):
                found[unit.id] = outcome
                bar.advance()
        return [found[u.id] for u in units]

    def has(self, configs: Iterable[Mapping[str, Any]]) -> bool:
        """Whether all of these units are finished.

        Parameters
        ----------
        configs : iterable of mappings
            One for each unit.

        Returns
        -------
        bool
            Whether each has a file.
        """
        return all(self.folder.unit_file(Unit(dict(c))).exists() for c in configs)


class ResumableEngine(WrappedEngine):
    """An engine that keeps what it finishes in a run folder, made when the first unit comes and removed when done.

    about: all that the units depend on and do not say themselves.
    """

    def __init__(self, path: Path, experiment: str, about: Mapping[str, Any], engine: Engine, *, resume: bool) -> None:
        self.path, self.experiment, self.about, self.engine, self.resume = path, experiment, about, engine, resume
        self._runner: Runner | None = None

    def run(self, work: Work, units: Sequence[Unit], ahead: int | None = None) -> Iterator[tuple[Unit, Outcome]]:
        if self._runner is None:
            config = dict(self.about)
            folder = RunFolder.create(
                self.path, experiment=self.experiment, scale="", config=config, resume=self.resume
            )
            self._runner = Runner(folder, self.engine)
        yield from self._runner.run(work, units, ahead)

    def done(self) -> None:
        """The result is safe elsewhere."""
        if self._runner is not None:
            self.close()
            shutil.rmtree(self.path, ignore_errors=True)

    def close(self) -> None:
        """Leave the folder to a later run, if there is anything in it."""
        if self._runner is not None:
            self._runner.folder.__exit__(None, None, None)
            if not any(self.path.glob("units/*")):
                shutil.rmtree(self.path, ignore_errors=True)
                with suppress(OSError):  # others have files there
                    self.path.parent.rmdir()
