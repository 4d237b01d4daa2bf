"""What an experiment is: a name, a study, and the way from a configuration over a result to a figure and claims."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from netgrain.experiments.claims import Claim
    from netgrain.runtime.runners import Runner

SCALES = ("smoke", "laptop", "paper")
OWN_SCALES = ("smoke", "laptop", "overnight")  # of studies of our own, which have no paper to follow
PARTS_OF_A_FILE = ("Config", "PRESETS", "run", "figure", "claims")
TYPICAL_COST = 45.0


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """A figure, a table or a sweep that can be run.

    It is one file of a study, or one row of the table of a study.

    A file ``experiments/STUDY/NAME.py`` has a docstring whose first line is the title, and defines `Config`,
    `PRESETS`, `run`, `figure`, `claims`, `COST` and `COVERS`. A study whose experiments differ only in a few values has
    a module ``table`` with ``EXPERIMENTS``, a mapping from names to these objects.

    Attributes
    ----------
    name : str
        Its name on the command line, for example ``"gc-l2"``.
    study : {"geometry", "complexity", "equivariant", "learnability"}
        The study it belongs to.
    title : str
        What it shows, in one line.
    Config : type
        A frozen dataclass of JSON values.
    PRESETS : mapping of str to Config
        The configuration at each scale: ``"smoke"``, ``"laptop"``, and ``"paper"`` or, for studies of our own,
        ``"overnight"``.
    run : callable
        ``run(config, runner)`` computes or reads every unit; its result has all that figure and claims need.
    figure : callable
        ``figure(result)`` draws the result and computes nothing.
    claims : callable
        ``claims(result)`` judges what the paper says.
    cost : float
        Processor seconds at laptop scale, measured; it weighs the time that is left.
    covers : tuple of int
        Numbers of the statements of the sources that it settles, as listed in docs/coverage.md.
    overview_panels : callable, optional
        ``overview_panels(result)`` gives what the picture of a whole study shows of it.
    """

    name: str
    study: str
    title: str
    Config: Callable[..., Any]
    PRESETS: Mapping[str, Any]
    run: Callable[[Any, Runner], Any]
    figure: Callable[[Any], Figure]
    claims: Callable[[Any], Sequence[Claim]]
    cost: float = TYPICAL_COST
    covers: tuple[int, ...] = ()
    overview_panels: Callable[[Any], Sequence[Any]] | None = None

    @classmethod
    def from_file(cls, module: ModuleType, study: str) -> Experiment:
        """Make the experiment that a file defines.

        Parameters
        ----------
        module : module
            The imported file.
        study : str
            The study of its package.

        Returns
        -------
        Experiment
            Its parts as attributes.
        """
        return cls(
            name=module.__name__.rpartition(".")[2].replace("_", "-"),
            study=study,
            title=(module.__doc__ or "").strip().splitlines()[0],
            cost=getattr(module, "COST", TYPICAL_COST),
            covers=getattr(module, "COVERS", ()),
            overview_panels=getattr(module, "overview_panels", None),
            **{part: getattr(module, part) for part in PARTS_OF_A_FILE},
        )


def is_experiment(module: ModuleType) -> bool:
    """Whether a file of a study is an experiment; the others hold what experiments share."""
    return all(hasattr(module, part) for part in PARTS_OF_A_FILE)
