"""One heuristic as a row of the table: its sweeps, what is claimed of them, and the experiment they make."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from netgrain.complexity.sweeps import SweepCurve
from netgrain.experiments.claims import Basis, Claim
from netgrain.experiments.contract import Experiment
from netgrain.experiments.heuristics import STUDY
from netgrain.experiments.heuristics.orders import monotone
from netgrain.experiments.heuristics.panels import Panel
from netgrain.experiments.heuristics.protocol import Protocol, Scale, along, presets
from netgrain.experiments.heuristics.starts import Fresh, Starts
from netgrain.experiments.image_sets import images_found
from netgrain.runtime.runners import Runner

if TYPE_CHECKING:
    from matplotlib.figure import Figure


CONV_STEPS = 800  # where all convolutional networks are trained for the same time


@dataclass(frozen=True, kw_only=True)
class Convolutional:
    """What is different where the small convolutional network is trained in the place of the perceptron."""

    grid: tuple[float, ...]
    settings: Mapping[str, Any] = field(default_factory=lambda: {"lr": 0.2})  # without a loss to stop at: CONV_STEPS
    panel: str | None = None  # where the protocol is another one


@dataclass(frozen=True, kw_only=True)
class Sweep:
    """Trainings that differ in one value, a measure of them, and the order that is claimed of it.

    Sweeps of one row with the same label are the same trainings, measured in different ways.
    """

    label: str
    network: Literal["perceptron", "convnet"] = "perceptron"  # at paper scale there is one network, for the first
    vary: Literal["strength", "lr", "batch", "scale", "corrupted", "repeat"] = "strength"  # of Protocol or its settings
    setting: str  # the same in words, along the axis of the panel
    grid: tuple[float, ...]
    paper_grid: tuple[float, ...] | None = None  # for the paper's network; None: the same

    regularizer: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)  # of Settings, where not plain SGD at a rate of 0.1
    protocol: Mapping[str, Any] = field(default_factory=dict)  # fields of Protocol, where not the default
    steps: int | None = None  # of small networks, where all are trained for the same time

    panel: str  # title
    claim: str
    sign: Literal[1, -1, 0] = -1  # 1: the measure rises with the setting; 0: there is no order
    paper: str = "falls"
    basis: Basis = "paper"
    all_runs: bool = False  # the order is also claimed of all runs together, seeds mixed
    measure: str = "complexity"
    convolutional: Convolutional | None = None  # the same of the other small network

    def beside(self) -> list[Sweep]:
        """This sweep, and the one of the convolutional network if there is one."""
        if self.convolutional is None:
            return [self]
        found = replace(
            self,
            label=f"{self.label}, convolutional",
            network="convnet",
            grid=self.convolutional.grid,
            settings=self.convolutional.settings,
            protocol={},
            steps=None if "stop_at_loss" in self.convolutional.settings else CONV_STEPS,
            panel=self.convolutional.panel or self.panel,
            all_runs=False,
            convolutional=None,
        )
        return [self, found]

    def protocols(self, config: Scale, images: str = "digits") -> dict[float, Protocol]:
        """The training of every value at this scale; images: those of convolutional networks."""
        grid = self.grid if config.small or self.paper_grid is None else self.paper_grid
        return {value: self._protocol(config, value, images) for value in config.thinned(grid)}

    def _protocol(self, config: Scale, value: float, images: str) -> Protocol:
        settings = {"lr": 0.1, **self.settings}
        changes = {"regularizer": self.regularizer, **self.protocol}
        if self.steps is not None and config.small:
            settings["steps"] = min(self.steps, config.steps if self.network == "perceptron" else config.conv_steps)
        if "samples" in changes:
            changes["samples"] = min(changes["samples"], config.samples)
        (settings if self.vary in ("lr", "batch") else changes)[self.vary] = value
        if self.network == "convnet":
            return config.convolutional(images, settings, **changes)
        return config.protocol(settings, **changes)

    def claims(self, curve: SweepCurve, images: str) -> list[Claim]:
        subject = "" if self.network == "perceptron" else f"ConvNet on {images}"
        asked = partial(monotone, curve, sign=self.sign, paper=self.paper, basis=self.basis, subject=subject)
        found = [asked(self.claim, measure=self.measure)]
        if self.all_runs:
            found.append(asked(f"{self.claim}, all runs together", all_runs=True))
        return found


@dataclass(frozen=True, eq=False)
class Curves:
    """What the sweeps of a row found."""

    config: Scale
    curves: dict[str, SweepCurve]  # by the label of the sweep
    fresh: Fresh | None  # networks before training, if the row asks for them
    images: str = "digits"  # of convolutional networks


@dataclass(frozen=True, kw_only=True)
class Heuristic:
    """A row of the table."""

    name: str  # on the command line
    title: str
    cost: float  # processor seconds at laptop scale; smoke takes a second or two, paper needs a GPU
    steps: int = 2000  # of each training on a laptop; a ceiling where training stops at a loss
    sweeps: tuple[Sweep, ...]
    starts: Starts | None = None
    covers: tuple[int, ...] = ()  # statements of the source, as docs/coverage.md counts them

    def experiment(self) -> Experiment:
        """The row as `netgrain run` knows it."""
        return Experiment(
            name=self.name,
            study=STUDY,
            title=self.title,
            cost=self.cost,
            covers=self.covers,
            Config=Scale,
            PRESETS=presets(self.steps),
            run=self.run,
            figure=self.figure,
            claims=self.claims,
            overview_panels=self.panels,
        )

    def sweeps_at(self, config: Scale) -> tuple[Sweep, ...]:
        """The sweeps of a scale: where the paper's network takes the place of small ones, every sweep once."""
        every = [s for sweep in self.sweeps for s in sweep.beside()]
        return tuple(s for s in every if config.small or s.network == "perceptron")

    def run(self, config: Scale, runner: Runner) -> Curves:
        fresh = None if self.starts is None else self.starts.measured(runner, self.name, config)
        sweeps = self.sweeps_at(config)
        convolves = any(s.network == "convnet" for s in sweeps)
        images = images_found(runner, config.images) if convolves else "digits"
        seeds = {"perceptron": config.seeds, "convnet": config.conv_seeds}
        trainings = {s.label: (s.protocols(config, images), seeds[s.network]) for s in sweeps}
        curves = {label: along(runner, self.name, p, n, label) for label, (p, n) in trainings.items()}
        return Curves(config, curves, fresh, images)

    def claims(self, result: Curves) -> list[Claim]:
        sweeps = self.sweeps_at(result.config)
        found = [c for s in sweeps for c in s.claims(result.curves[s.label], result.images)]
        if result.fresh is None:
            return found
        return [*result.fresh.scale_claims(), *found, *result.fresh.scheme_claims()]

    def figure(self, result: Curves) -> Figure:
        from netgrain.experiments.heuristics.drawing import draw

        return draw(self.panels(result))

    def panels(self, result: Curves) -> list[Panel]:
        names = {"perceptron": "perceptron" if result.config.small else "", "convnet": f"ConvNet, {result.images}"}
        panels = [
            Panel(s.panel, result.curves[s.label], s.setting, s.measure, network=names[s.network])
            for s in self.sweeps_at(result.config)
        ]
        if result.fresh is not None:
            panels.insert(0, Panel("Initial scale, at the start", result.fresh.curve, "scale of the weights, He = 1"))
        return panels
