"""--dry-run and `netgrain plan`: what a command would cost."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from netgrain.cli.output import Answer
from netgrain.cli.parsing import engine_of_the_run
from netgrain.runtime.errors import NetgrainError

if TYPE_CHECKING:
    from netgrain.runtime.cost import Cost

EXAMPLES = """  netgrain plan run fig10
  netgrain plan run fig10 --engine ray --workers 64
  netgrain plan geometry my_models.py:Net --input 3x64x64 --members 10000
  netgrain plan reproduce --json"""
MANY = 3  # experiments from which on one unit of each stage is measured


def of_experiments(
    names: Sequence[str],
    scale: str,
    folders: Mapping[str, Path],
    out: Path,
    changes: dict[str, Any] | None = None,
) -> Answer:
    """What running these experiments would cost."""
    return answer(plan_experiments(names, scale, folders, changes), out)


def plan_experiments(
    names: Sequence[str], scale: str, folders: Mapping[str, Path], changes: dict[str, Any] | None = None
) -> Cost:
    """The costs of experiments, each as one stage if there are several."""
    from netgrain.experiments.registry import plan_experiment
    from netgrain.runtime.cost import SAMPLES, Cost
    from netgrain.runtime.progress import Bar

    whole = Cost()
    said: dict[str, list[str]] = {}
    with Bar("measuring", len(names)) as bar:
        for name in names:
            samples = 1 if len(names) >= MANY else SAMPLES
            found = plan_experiment(name, scale, folders[name], samples=samples, changes=changes)
            whole.stages += found.stages if len(names) == 1 else _together(name, found)
            for note in found.notes:
                said.setdefault(note, []).append(name)
            bar.advance()
    whole.notes = [note if len(names) == 1 else f"{', '.join(who)}: {note}" for note, who in said.items()]
    return whole


def of_geometry(sample: Callable[[], Any], sizes: tuple[int, ...], members: int | None, out: Path | None) -> Answer:
    """What sampling a geometry would cost."""
    return answer(plan_geometry(sample, math.prod(sizes), members, kept=out is not None), out or Path())


def answer(plan: Cost, out: Path) -> Answer:
    """The plan on the engine in use; what cannot fit is refused after it was printed."""
    from netgrain.runtime.engines import is_elsewhere

    engine = engine_of_the_run()
    workers, error = engine.parallel, None
    try:
        plan.check(workers, out, elsewhere=is_elsewhere(engine))
    except NetgrainError as e:
        error = str(e)
    return Answer(plan.as_dict(workers, engine.name), [plan.rows(workers, engine.name)], error=error)


def _together(name: str, plan: Cost) -> list[Any]:
    """The stages of one experiment as one line."""
    from netgrain.runtime.cost import Stage

    stages = [s for s in plan.stages if s.units]
    if not stages:
        return []
    left = max(1, sum(s.left for s in stages))
    mean = sum((s.seconds or 0.0) * s.left for s in stages) / left
    return [
        Stage(
            name,
            sum(s.units for s in stages),
            sum(s.finished for s in stages),
            mean if all(s.seconds is not None for s in stages) else None,
            max(s.longest for s in stages),
            max((s.memory for s in stages if s.memory is not None), default=None),
            sum(s.disk * s.left for s in stages) // left,
        )
    ]


def plan_geometry(sample: Callable[[], Any], d: int, members: int | None, *, kept: bool) -> Cost:
    """What sampling a geometry over d coordinates costs; `sample` runs on the engine in use."""
    from netgrain.geometry.collecting import CHUNK, MOST_MEMBERS
    from netgrain.geometry.reduction import memory_needed
    from netgrain.runtime.cost import CostEngine, duration, explore
    from netgrain.runtime.engine_in_use import using

    planner = CostEngine(stop=True)
    planner.label = "members"
    started = time.monotonic()
    with using(planner):
        explore(sample, planner.plan)
    plan = planner.plan
    if not plan.stages:
        plan.notes.append(f"there is a closed form, nothing is sampled: it took {duration(time.monotonic() - started)}")
        return plan
    if members is None:
        (first,) = plan.stages
        plan.stages = [replace(first, units=-(-MOST_MEMBERS // CHUNK))]
        plan.notes.append(f"members are added until the tolerance is reached; the plan counts all {MOST_MEMBERS}")
    plan.driver = memory_needed(d, plan.disk)
    plan.kept = kept
    return plan
