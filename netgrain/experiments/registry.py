"""Experiments: one file each, found by being here. `netgrain list` shows them, `netgrain run NAME` runs one."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol, cast

from netgrain.experiments.claims import Claim
from netgrain.runtime.cost import SAMPLES, Cost, CostEngine, PlanningRunner, explore
from netgrain.runtime.errors import NetgrainError, known_name
from netgrain.runtime.files import write_whole
from netgrain.runtime.run_folder import RunFolder, Runner
from netgrain.runtime.units import Engine

SCALES = ("smoke", "laptop", "paper")
STUDIES = ("grain", "heuristics", "equivariance")
PREFIXES = ("fig", "tab", "gc_", "eq_")


class Experiment(Protocol):
    """What the file of an experiment defines (its docstring: title, claim, cost at each scale)."""

    __name__: str
    __doc__: str | None
    Config: Any  # frozen dataclass of JSON values, with presets in PRESETS
    PRESETS: dict[str, Any]

    def run(self, config: Any, runner: Runner) -> Any:
        """Compute or read every unit; the result holds all that the figure and the claims need."""
        ...

    def figure(self, result: Any) -> Any:
        """A matplotlib Figure of the result; computes nothing."""
        ...

    def claims(self, result: Any) -> list[Claim]: ...


@dataclass(frozen=True)
class Finished:
    """A run that was made or read."""

    name: str
    folder: Path
    claims: list[Claim]
    computed: int  # units that had to be computed


def names() -> list[str]:
    """All experiments, by the names of their files, with dashes where the file has underscores."""
    return sorted(_homes(), key=_natural)


def _homes() -> dict[str, str]:
    """Where each experiment is."""
    found: dict[str, str] = {}
    for study in STUDIES:
        package = importlib.import_module(f"netgrain.experiments.{study}")
        for module in pkgutil.iter_modules(package.__path__):
            if module.name.startswith(PREFIXES):
                found[module.name.replace("_", "-")] = f"netgrain.experiments.{study}.{module.name}"
    return found


def _natural(name: str) -> tuple[str, int]:
    digits = "".join(c for c in name if c.isdigit())
    return name.rstrip("0123456789"), int(digits or 0)


def find(name: str) -> Experiment:
    name = name.replace("_", "-")
    known_name("experiment", name, names())
    return cast(Experiment, importlib.import_module(_homes()[name]))


def title(name: str) -> str:
    return (find(name).__doc__ or "").strip().splitlines()[0]


def preset(name: str, scale: str, changes: dict[str, Any] | None = None) -> Any:
    """The configuration of a scale, with some fields changed."""
    experiment = find(name)
    known_name("scale", scale, experiment.PRESETS)
    values = {**asdict(experiment.PRESETS[scale]), **(changes or {})}
    return experiment.Config(**values)


def run_experiment(
    name: str,
    scale: str,
    out: str | Path,
    *,
    engine: Engine | None = None,
    resume: bool = False,
    changes: dict[str, Any] | None = None,
    progress: bool | None = None,
) -> Finished:
    """Run an experiment into a folder (or finish the one that is there), then draw and judge from the folder."""
    config = preset(name, scale, changes)
    with RunFolder.create(out, experiment=name, scale=scale, config=asdict(config), resume=resume) as folder:
        runner = Runner(folder, engine, progress=progress)
        return _conclude(name, folder, runner, find(name).run(config, runner))


def conclude_again(out: str | Path) -> Finished:
    """Redraw the figure and judge the claims of a finished run from its folder alone."""
    folder = RunFolder.open(out)
    name, asked = folder.about.get("experiment"), folder.about.get("config")
    if not isinstance(name, str) or not isinstance(asked, dict):
        raise NetgrainError(f"{folder.path / 'run.json'} does not say what was run; expected one of netgrain run.")
    experiment = find(name)
    try:
        config = experiment.Config(**asked)
    except (TypeError, ValueError) as e:
        raise NetgrainError(f"{folder.path} was made with another configuration of {name} ({e}); run it again.") from e
    runner = Runner(folder)
    return _conclude(name, folder, runner, experiment.run(config, runner))


def _conclude(name: str, folder: RunFolder, runner: Runner, result: Any) -> Finished:
    from netgrain.geometry.plots import png

    experiment = find(name)
    claims: Sequence[Claim] = experiment.claims(result)
    folder.write_json("claims.json", [{"experiment": name, **c.as_dict()} for c in claims])
    write_whole(folder.path / "figure.png", png(experiment.figure(result)))
    return Finished(name, folder.path, list(claims), runner.computed)


def plan_experiment(name: str, scale: str, out: Path, *, samples: int = SAMPLES) -> Cost:
    """The stages of an experiment, as far as they can be seen from here."""
    from netgrain.experiments.registry import find, preset

    config = preset(name, scale)
    planner = CostEngine(samples=samples)
    explore(partial(find(name).run, config, PlanningRunner(out, planner)), planner.plan)
    if any(f.startswith("most_") for f in vars(config)):
        planner.plan.notes.append("seeds are added while claims are undecided; the plan counts the first ones")
    return planner.plan
