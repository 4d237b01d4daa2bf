"""What an experiment is: a name, a study, and the way from a configuration over a result to a figure and claims."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from netgrain.experiments.claims import Claim
    from netgrain.runtime.run_folder import Runner

SCALES = ("smoke", "laptop", "paper")
PARTS_OF_A_FILE = ("Config", "PRESETS", "run", "figure", "claims")
TYPICAL_COST = 45.0


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """A figure, a table or a sweep that can be run: one file of a study, or one row of its table.

    A file `experiments/STUDY/NAME.py` has a docstring whose first line is the title, and defines `Config`, `PRESETS`,
    `run`, `figure`, `claims` and `COST`. A study whose experiments differ only in a few values has a module `table`
    with `EXPERIMENTS`, a mapping from names to these objects.
    """

    name: str  # on the command line, such as "gc-l2"
    study: str  # the STUDY of its package: "geometry", "complexity" or "equivariant"
    title: str
    Config: Callable[..., Any]  # a frozen dataclass of JSON values
    PRESETS: Mapping[str, Any]  # scale → configuration
    run: Callable[[Any, Runner], Any]  # computes or reads every unit; the result has all that figure and claims need
    figure: Callable[[Any], Figure]  # draws the result; computes nothing
    claims: Callable[[Any], Sequence[Claim]]
    cost: float = TYPICAL_COST  # processor seconds at laptop scale, measured; it weighs the time that is left

    @classmethod
    def from_file(cls, module: ModuleType, study: str) -> Experiment:
        """The experiment that a file defines."""
        return cls(
            name=module.__name__.rpartition(".")[2].replace("_", "-"),
            study=study,
            title=(module.__doc__ or "").strip().splitlines()[0],
            cost=getattr(module, "COST", TYPICAL_COST),
            **{part: getattr(module, part) for part in PARTS_OF_A_FILE},
        )


def is_experiment(module: ModuleType) -> bool:
    """Whether a file of a study is an experiment; the others hold what experiments share."""
    return all(hasattr(module, part) for part in PARTS_OF_A_FILE)
