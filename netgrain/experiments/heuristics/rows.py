"""One heuristic as a row of the table: its sweeps, what is claimed of them, and the experiment they make."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from netgrain.complexity.sweeps import SweepCurve
from netgrain.experiments.claims import Claim
from netgrain.experiments.contract import Experiment
from netgrain.experiments.heuristics import STUDY
from netgrain.experiments.heuristics.orders import monotone
from netgrain.experiments.heuristics.panels import Panel
from netgrain.experiments.heuristics.protocol import Protocol, Scale, along, presets
from netgrain.experiments.heuristics.starts import Fresh, Starts
from netgrain.runtime.run_folder import Runner

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, kw_only=True)
class Sweep:
    """Trainings that differ in one value, a measure of them, and the order that is claimed of it.

    Sweeps of one row with the same label are the same trainings, measured in different ways.
    """

    label: str
    vary: Literal["strength", "lr", "batch", "scale", "corrupted"] = "strength"  # of Protocol or of its settings
    setting: str  # the same in words, along the axis of the panel
    grid: tuple[float, ...]
    paper_grid: tuple[float, ...] | None = None  # for the paper's network; None: the same

    regularizer: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)  # of Settings, where not plain SGD at a rate of 0.1
    protocol: Mapping[str, Any] = field(default_factory=dict)  # fields of Protocol, where not the default
    steps: int | None = None  # of perceptrons, where all are trained for the same time

    panel: str  # title
    claim: str
    sign: Literal[1, -1] = -1  # 1: the measure rises with the setting
    paper: str = "falls"
    all_runs: bool = False  # the order is also claimed of all runs together, seeds mixed
    measure: str = "complexity"

    def protocols(self, config: Scale) -> dict[float, Protocol]:
        """The training of every value at this scale."""
        grid = self.grid if config.small or self.paper_grid is None else self.paper_grid
        return {value: self._protocol(config, value) for value in config.thinned(grid)}

    def _protocol(self, config: Scale, value: float) -> Protocol:
        settings = {"lr": 0.1, **self.settings}
        changes = {"regularizer": self.regularizer, **self.protocol}
        if self.steps is not None and config.small:
            settings["steps"] = min(self.steps, config.steps)
        if "samples" in changes:
            changes["samples"] = min(changes["samples"], config.samples)
        (settings if self.vary in ("lr", "batch") else changes)[self.vary] = value
        return config.protocol(settings, **changes)

    def claims(self, curve: SweepCurve) -> list[Claim]:
        found = [monotone(curve, self.claim, self.sign, measure=self.measure, paper=self.paper)]
        if self.all_runs:
            name = f"{self.claim}, all runs together"
            found.append(monotone(curve, name, self.sign, all_runs=True, paper=self.paper))
        return found


@dataclass(frozen=True, eq=False)
class Curves:
    """What the sweeps of a row found."""

    config: Scale
    curves: dict[str, SweepCurve]  # by the label of the sweep
    fresh: Fresh | None  # networks before training, if the row asks for them


@dataclass(frozen=True, kw_only=True)
class Heuristic:
    """A row of the table."""

    name: str  # on the command line
    title: str
    cost: float  # processor seconds at laptop scale; smoke takes a second or two, paper needs a GPU
    steps: int = 2000  # of each training on a laptop; a ceiling where training stops at a loss
    sweeps: tuple[Sweep, ...]
    starts: Starts | None = None

    def experiment(self) -> Experiment:
        """The row as `netgrain run` knows it."""
        return Experiment(
            name=self.name,
            study=STUDY,
            title=self.title,
            cost=self.cost,
            Config=Scale,
            PRESETS=presets(self.steps),
            run=self.run,
            figure=self.figure,
            claims=self.claims,
            overview_panels=self.panels,
        )

    def run(self, config: Scale, runner: Runner) -> Curves:
        fresh = None if self.starts is None else self.starts.measured(runner, self.name, config)
        trainings = {sweep.label: sweep.protocols(config) for sweep in self.sweeps}
        curves = {label: along(runner, self.name, p, config.seeds, label) for label, p in trainings.items()}
        return Curves(config, curves, fresh)

    def claims(self, result: Curves) -> list[Claim]:
        found = [c for sweep in self.sweeps for c in sweep.claims(result.curves[sweep.label])]
        if result.fresh is None:
            return found
        return [*result.fresh.scale_claims(), *found, *result.fresh.scheme_claims()]

    def figure(self, result: Curves) -> Figure:
        from netgrain.experiments.heuristics.drawing import draw

        return draw(self.panels(result))

    def panels(self, result: Curves) -> list[Panel]:
        panels = [Panel(s.panel, result.curves[s.label], s.setting, s.measure) for s in self.sweeps]
        if result.fresh is not None:
            panels.insert(0, Panel("Initial scale, at the start", result.fresh.curve, "scale of the weights, He = 1"))
        return panels
