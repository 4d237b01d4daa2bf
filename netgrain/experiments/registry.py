"""Every experiment by its name: find it, choose its scale, run it into a folder, plan its cost."""

from __future__ import annotations

import importlib
import pkgutil
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

from netgrain.experiments.claims import Claim
from netgrain.experiments.contract import Experiment, is_experiment
from netgrain.runtime.cost import SAMPLES, Cost, CostEngine, PlanningRunner, explore
from netgrain.runtime.errors import NetgrainError, known_name
from netgrain.runtime.files import write_whole
from netgrain.runtime.run_folder import RunFolder
from netgrain.runtime.runners import Runner
from netgrain.runtime.units import Engine

PACKAGES = ("grain", "heuristics", "equivariance", "learnability")  # one per study: the papers in order, then our own


@dataclass(frozen=True)
class Finished:
    """An experiment that was run, or read from its folder.

    Attributes
    ----------
    name : str
        Name of the experiment.
    folder : Path
        Where its units, ``claims.json`` and ``figure.png`` are.
    claims : list of Claim
        What came out.
    computed : int
        Number of units that had to be computed; the others were in the folder.
    panels : list
        What the picture of the whole study shows of it.
    """

    name: str
    folder: Path
    claims: list[Claim]
    computed: int
    panels: list[Any] = field(default_factory=list)


def names() -> list[str]:
    """Names of all experiments, sorted.

    Returns
    -------
    list of str
        One name for each file or table row, with dashes where a file has underscores.

    See Also
    --------
    find : The experiment of a name.

    Examples
    --------
    >>> names()[:2]
    ['advice', 'eq-ccq200']
    """
    return sorted(everything(), key=_natural)


def everything() -> dict[str, Experiment]:
    """Every experiment by name: files of the studies that define one, and rows of their tables."""
    found: dict[str, Experiment] = {}
    for package in _packages():
        for file in _files(package):
            found |= _experiments_in(package, file)
    return found


def studies() -> dict[str, str]:
    """Name → title of every study, in the order of the papers."""
    return {package.STUDY: package.TITLE for package in _packages()}


def own_studies() -> set[str]:
    """Studies that follow no paper; a reproduction runs them only when they are asked for."""
    return {package.STUDY for package in _packages() if not getattr(package, "OF_A_PAPER", True)}


def _packages() -> list[ModuleType]:
    return [importlib.import_module(f"netgrain.experiments.{name}") for name in PACKAGES]


def _files(package: ModuleType) -> list[str]:
    return [module.name for module in pkgutil.iter_modules(package.__path__)]


def _experiments_in(package: ModuleType, file: str) -> dict[str, Experiment]:
    module = importlib.import_module(f"{package.__name__}.{file}")
    if file == "table":
        return dict(module.EXPERIMENTS)
    if not is_experiment(module):
        return {}
    experiment = Experiment.from_file(module, package.STUDY)
    return {experiment.name: experiment}


def _natural(name: str) -> tuple[str, int]:
    digits = "".join(c for c in name if c.isdigit())
    return name.rstrip("0123456789"), int(digits or 0)


def find(name: str) -> Experiment:
    """Find an experiment by its name.

    Only its own file is imported, or the tables of the studies.

    Parameters
    ----------
    name : str
        A name of `names`; underscores count as dashes.

    Returns
    -------
    Experiment
        Its configurations and the functions that run, draw and judge it.

    Raises
    ------
    NetgrainError
        If there is no such experiment; the message names the nearest one.

    See Also
    --------
    run_experiment : Run it into a folder.

    Examples
    --------
    >>> find("fig9").study, sorted(find("fig9").PRESETS)
    ('geometry', ['laptop', 'paper', 'smoke'])
    """
    name = name.replace("_", "-")
    file = name.replace("-", "_")
    for package in _packages():
        for candidate in {file, "table"} & set(_files(package)):
            found = _experiments_in(package, candidate)
            if name in found:
                return found[name]
    return everything()[known_name("experiment", name, names())]


def title(name: str) -> str:
    return find(name).title


def preset(name: str, scale: str, changes: dict[str, Any] | None = None) -> Any:
    """The configuration of a scale, with some fields changed."""
    experiment = find(name)
    known_name("scale", scale, experiment.PRESETS)
    values = {**asdict(experiment.PRESETS[scale]), **(changes or {})}
    return experiment.Config(**values)


def in_variant(name: str, variant: str | None) -> dict[str, Any]:
    """The changes of a configuration that choose the text's settings or those of the authors' code.

    >>> in_variant("fig4", "code"), in_variant("tab1", "text"), in_variant("fig9", None)
    ({'variant': 'code'}, {'variants': ('text',)}, {})
    """
    if variant is None:
        return {}
    known = set(asdict(find(name).PRESETS["smoke"]))
    if not {"variant", "variants"} & known:
        raise NetgrainError(f"{name} has no variants: the text and the authors' code agree on it; leave --variant out.")
    if variant not in ("text", "code"):
        raise NetgrainError(f"variant expects 'text' or 'code', got {variant!r}.")
    return {"variant": variant} if "variant" in known else {"variants": (variant,)}


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
    """Run an experiment into a folder, draw its figure and judge its claims.

    Parameters
    ----------
    name : str
        A name of `names`, for example ``"fig9"``.
    scale : {"smoke", "laptop", "paper", "overnight"}
        ``"smoke"`` takes seconds and shows only that it runs; ``"laptop"`` takes minutes on two cores; ``"paper"``
        needs a GPU. Studies of our own have ``"overnight"``, hours on two cores, in the place of ``"paper"``.
    out : str or Path
        The run folder; it must not hold a run unless you resume it.
    engine : Engine, optional
        Where units are computed; by default in this process. The result does not depend on it.
    resume : bool, default False
        Finish the run in the folder; units that are there are not computed again.
    changes : dict, optional
        Fields of the configuration that differ from the preset.
    progress : bool, optional
        Show a progress bar; by default on a terminal, after two seconds.

    Returns
    -------
    Finished
        The folder and the claims.

    Raises
    ------
    NetgrainError
        If the name or the scale is not known, if data are missing, or if the folder holds another run.

    See Also
    --------
    conclude_again : Redraw and judge from the folder alone.
    reproduce : Run many experiments.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     finished = run_experiment("gc-double-descent", "smoke", f"{folder}/run", progress=False)
    >>> finished.name, finished.computed > 0
    ('gc-double-descent', True)
    """
    config = preset(name, scale, changes)
    with RunFolder.create(out, experiment=name, scale=scale, config=asdict(config), resume=resume) as folder:
        return _concluded(find(name), config, Runner(folder, engine, progress=progress))


def conclude_again(out: str | Path) -> Finished:
    """Redraw the figure and judge the claims of a finished run from its folder.

    Parameters
    ----------
    out : str or Path
        The folder of a run.

    Returns
    -------
    Finished
        The claims as the present code judges them; ``claims.json`` and ``figure.png`` are written anew.

    Raises
    ------
    NetgrainError
        If the folder holds no run of an experiment, or one with another configuration.

    See Also
    --------
    run_experiment : Run an experiment into a folder.
    """
    folder = RunFolder.open(out)
    name, asked = folder.about.get("experiment"), folder.about.get("config")
    if not isinstance(name, str) or not isinstance(asked, dict):
        raise NetgrainError(f"{folder.path / 'run.json'} does not say what was run; expected one of netgrain run.")
    experiment = find(name)
    try:
        config = experiment.Config(**asked)
    except (TypeError, ValueError) as e:
        raise NetgrainError(f"{folder.path} was made with another configuration of {name} ({e}); run it again.") from e
    return _concluded(experiment, config, Runner(folder))


def _concluded(experiment: Experiment, config: Any, runner: Runner) -> Finished:
    from netgrain.geometry.plots import png

    name, folder, result = experiment.name, runner.folder, experiment.run(config, runner)
    claims = list(experiment.claims(result))
    folder.write_json("claims.json", [{"experiment": name, **c.as_dict()} for c in claims])
    write_whole(folder.path / "figure.png", png(experiment.figure(result)))
    panels = [] if experiment.overview_panels is None else list(experiment.overview_panels(result))
    return Finished(name, folder.path, claims, runner.computed, panels)


def plan_experiment(
    name: str, scale: str, out: Path, *, samples: int = SAMPLES, changes: dict[str, Any] | None = None
) -> Cost:
    """The stages of an experiment, as far as they can be seen from here."""
    config = preset(name, scale, changes)
    planner = CostEngine(samples=samples)
    explore(partial(find(name).run, config, PlanningRunner(out, planner)), planner.plan)
    if any(f.startswith("most_") for f in vars(config)):
        planner.plan.notes.append("seeds are added while claims are undecided; the plan counts the first ones")
    return planner.plan
