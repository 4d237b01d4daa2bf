"""What a run will cost, before it starts: a few of its units are run and measured, the others counted.

Stages that depend on the results of earlier ones are found by handing the measured outcomes on in place of the real
ones; where that leads nowhere, the plan says so.
"""

from __future__ import annotations

import json
import shutil
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from safetensors.torch import save as to_bytes

from netgrain.runtime.backlog import UnitLate
from netgrain.runtime.engines import ENGINES
from netgrain.runtime.errors import NetgrainError
from netgrain.runtime.memory import begin_to_watch, free_memory, in_words, most_used
from netgrain.runtime.processes import Processes, most_workers
from netgrain.runtime.run_folder import RunFolder
from netgrain.runtime.runners import Runner
from netgrain.runtime.units import Outcome, Unit, Work

SAMPLES = 3  # units of a stage that are measured
PATIENCE = 60.0  # seconds for one of them


@dataclass(frozen=True)
class Stage:
    """Units of one kind."""

    label: str
    units: int
    finished: int  # of them, in a folder that is resumed
    seconds: float | None  # of one unit on one core; None: longer than PATIENCE
    longest: float
    memory: int | None  # bytes that a worker needs for one, beyond what it shares
    disk: int  # bytes of one outcome

    @property
    def left(self) -> int:
        return self.units - self.finished


@dataclass
class Cost:
    """Stages, and what may come after them."""

    stages: list[Stage] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    driver: int = 0  # bytes that the process which collects needs, beyond what it has now
    kept: bool = True  # outcomes go to disk

    @property
    def units(self) -> int:
        return sum(s.units for s in self.stages)

    def seconds(self, workers: int, engine: str = "processes") -> float:
        """On the clock, with so many workers as fast as this machine's cores."""
        busy = (max(s.longest, s.left * s.seconds / workers) for s in self.stages if s.left and s.seconds is not None)
        return sum(busy) + (ENGINES[engine].start_up if self.stages and engine in ENGINES else 0.0)

    @property
    def unit_memory(self) -> int:
        return max((s.memory or 0 for s in self.stages), default=0)

    def memory(self, workers: int) -> int:
        """Bytes on this machine with so many workers."""
        return self.driver + workers * self.unit_memory

    @property
    def disk(self) -> int:
        return sum(s.left * s.disk for s in self.stages) if self.kept else 0

    def check(self, workers: int, out: Path, *, elsewhere: bool = False) -> None:
        """Refuse what cannot fit, with the number and the knob."""
        free = free_memory()
        most = int((free - self.driver) // self.unit_memory) if self.unit_memory else workers
        if not elsewhere and self.memory(workers) > free:
            with_all = f"{in_words(self.memory(workers))} of memory with {_count(workers, 'worker')}"
            need = f"{with_all}, {in_words(free)} are free"
            if most < 1:
                raise NetgrainError(
                    f"this needs {need}, and one unit alone does not fit; choose a smaller input, fewer points "
                    "per member or a smaller scale, or a larger machine."
                )
            raise NetgrainError(f"this needs {need}; use --workers {most}.")
        there = next(p for p in (out.absolute(), *out.absolute().parents) if p.exists())
        if self.disk > (space := shutil.disk_usage(there).free):
            raise NetgrainError(
                f"this writes {in_words(self.disk)} into {out}, {in_words(space)} are free; use --out on another disk."
            )

    def as_dict(self, workers: int, engine: str) -> dict[str, Any]:
        return {
            "stages": [
                {
                    "label": s.label,
                    "units": s.units,
                    "finished": s.finished,
                    "seconds_per_unit": s.seconds,
                    "memory_per_unit": s.memory,
                    "disk_per_unit": s.disk,
                }
                for s in self.stages
            ],
            "units": self.units,
            "memory_per_unit": self.unit_memory,
            "memory": self.memory(workers),
            "free_memory": free_memory(),
            "disk": self.disk,
            "engine": engine,
            "workers": workers,
            "seconds": {str(n): round(self.seconds(n, engine), 2) for n in sorted({1, most_workers(), workers, 64})},
            "notes": self.notes,
        }

    def rows(self, workers: int, engine: str) -> list[tuple[str, str]]:
        """Lines for a person."""
        notes = [("note", text) for text in self.notes]
        if not self.stages:
            return notes
        rows = []
        for s in self.stages:
            done = f" ({s.finished} finished)" if s.finished else ""
            each = f"longer than {PATIENCE:.0f} s each" if s.seconds is None else f"{duration(s.seconds)} each"
            memory = "" if s.memory is None else f", {in_words(s.memory)} of memory"
            disk = f", {in_words(s.disk)} on disk" if self.kept else ""
            rows.append((s.label, f"{_count(s.units, 'unit')}{done}, {each}{memory}{disk}"))
        if len(self.stages) > 1:
            rows.append(("in all", _count(self.units, "unit")))
        if self.kept:
            rows.append(("disk", in_words(self.disk)))
        free = in_words(free_memory())
        rows.append(
            ("memory", f"{in_words(self.memory(workers))} with {_count(workers, 'worker')}; {free} are free here")
        )
        if all(s.seconds is not None for s in self.stages):
            named = sorted({1, most_workers(), workers})
            for n in sorted({*named, 8, 64}):
                remark = "" if n in named else ", if their cores are as fast"
                rows.append((f"time, {_count(n, 'worker')}", f"about {duration(self.seconds(n, engine))}{remark}"))
        return rows + notes


class CostEngine:
    """An engine that runs a few units to see what they cost, and gives their outcomes back for all."""

    name, parallel = "plan", 1

    def __init__(self, *, samples: int = SAMPLES, stop: bool = False) -> None:
        self.samples, self.stop = samples, stop  # stop: after the first stage, which is all there is
        self.plan = Cost()
        self.label, self.finished = "units", 0

    def run(self, work: Work, units: Sequence[Unit], ahead: int | None = None) -> Iterator[tuple[Unit, Outcome]]:
        if not units:
            return
        found: dict[int, _Measured] = {}
        for i in _spread(len(units), self.samples):
            if (m := _measured(work, units[i])) is None:
                break
            found[i] = m
        seconds = sum(m.seconds for m in found.values()) / len(found) if found else None
        self.plan.stages.append(
            Stage(
                self.label,
                len(units) + self.finished,
                self.finished,
                seconds,
                max((m.seconds for m in found.values()), default=0.0),
                max((m.memory for m in found.values() if m.memory is not None), default=None),
                max((m.disk for m in found.values()), default=0),
            )
        )
        if self.stop:
            raise EndOfPlan
        if not found:
            raise EndOfPlan(f"one of the {self.label} takes longer than {PATIENCE:.0f} s; what follows is not known")
        for i, unit in enumerate(units):
            yield unit, found[min(found, key=lambda j: abs(i - j))].outcome


class EndOfPlan(Exception):
    """Nothing more can be found out without doing the work."""


class PlanningRunner(Runner):
    """Counts what a run would compute; nothing is written, and what a folder holds already is read."""

    def __init__(self, out: Path, planner: CostEngine) -> None:
        there = (out / "run.json").is_file()
        super().__init__(RunFolder.open(out) if there else RunFolder(out, {}, None), planner, progress=False)
        self.planner = planner

    def map(self, work: Work, configs: Iterable[Mapping[str, Any]], label: str = "units") -> list[Outcome]:
        asked = [Unit(dict(c)) for c in configs]
        units = list({u.id: u for u in asked}.values())
        found = {u.id: o for u in units if (o := self.folder.stored(u)) is not None}
        self.planner.label, self.planner.finished = label, len(found)
        missing = [u for u in units if u.id not in found]
        if not missing:
            self.planner.plan.stages.append(Stage(label, len(units), len(units), 0.0, 0.0, None, 0))
        found |= {u.id: o for u, o in self.planner.run(work, missing)}
        return [found[u.id] for u in asked]

    def has(self, configs: Iterable[Mapping[str, Any]]) -> bool:
        return all(self.folder.stored(Unit(dict(c))) is not None for c in configs)


def explore(run: Callable[[], Any], plan: Cost) -> None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            run()
    except EndOfPlan as e:
        plan.notes += [str(e)] if str(e) else []
    except Exception as e:
        if not plan.stages:
            raise
        # outcomes that stand in for others need not make sense together
        plan.notes.append(f"what comes after {plan.stages[-1].label} depends on its results ({type(e).__name__})")


# --- measuring ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Measured:
    outcome: Outcome
    seconds: float
    memory: int | None
    disk: int


def _measured(work: Work, unit: Unit) -> _Measured | None:
    """One unit in a process of its own; None if it takes too long."""
    engine = Processes(1, deadline=PATIENCE, attempts=1)
    try:
        ((_, found),) = engine.run(partial(_watched, work), [unit])
    except UnitLate:
        return None
    numbers = found.numbers["numbers"]
    disk = len(json.dumps(numbers)) + len(to_bytes(dict(found.arrays))) + 300
    return _Measured(Outcome(numbers, found.arrays), found.numbers["seconds"], found.numbers["memory"], disk)


def _watched(work: Work, config: Mapping[str, Any]) -> Outcome:
    begin_to_watch()
    before = most_used()
    started = time.monotonic()
    found = work(config)
    seconds = time.monotonic() - started
    after = most_used()
    memory = None if before is None or after is None else max(0, after - before)
    return Outcome({"numbers": found.numbers, "seconds": seconds, "memory": memory}, found.arrays)


def _spread(count: int, samples: int) -> list[int]:
    """
    >>> _spread(10, 3), _spread(2, 3), _spread(5, 1)
    ([0, 4, 9], [0, 1], [0])
    """
    some = min(samples, count)
    return sorted({round(i * (count - 1) / max(some - 1, 1)) for i in range(some)})


def duration(seconds: float) -> str:
    """
    >>> duration(0.02), duration(75), duration(7300)
    ('0.02 s', '1.2 min', '2.0 h')
    """
    if seconds < 60:
        return f"{seconds:.2g} s"
    return f"{seconds / 60:.1f} min" if seconds < 3600 else f"{seconds / 3600:.1f} h"


def _count(n: int, what: str) -> str:
    return f"{n} {what}" if n == 1 else f"{n} {what}s"
