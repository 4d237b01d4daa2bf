"""What trackers share: when a step is measured, the history of estimates, its panels and what a file belongs to."""

from __future__ import annotations

import hashlib
import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor, nn

from netgrain.geometry.estimate import Estimate
from netgrain.runtime.arguments import whole
from netgrain.runtime.errors import NetgrainError
from netgrain.runtime.randomness import seeded
from netgrain.training.checks import evaluating

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Row = dict[str, Estimate]
Beside = Mapping[str, Tensor | float | None]

LAYOUT = 1  # of the identity in a file; another one is refused, not guessed at
NOTHING = Estimate(math.nan, math.nan)


@dataclass(frozen=True)
class Line:
    """One curve of a panel."""

    name: str  # in the history
    label: str
    colour: int  # place in the palette of `tracker_plots`
    dashed: bool = False  # it often lies on another curve
    naive: bool = True  # its plug-in values are drawn, too
    own_axis: bool = False  # of another unit than the others: on the right


@dataclass(frozen=True)
class Panel:
    """One picture of a tracker, as data: what is drawn, and how."""

    title: str
    lines: Sequence[Line]
    relative: bool = False  # each curve over its first value
    log: bool = False
    share: bool = False  # values from 0 to 1
    dotted: str = ""  # what dotted curves are, in the legend


class Tracker(ABC):
    """Measures something about models in any training loop; call it with the step.

    A kind of tracker says what it measures (`_measured`), what its numbers are called (`labels`), how they are drawn
    (`panels`) and what its history belongs to (`_identity`).
    """

    labels: ClassVar[Mapping[str, str]]
    made_of: ClassVar[str]  # what is to be the same where a history is resumed

    def __init__(self, every: int) -> None:
        self.every = whole("every", every, 1)
        self.steps: list[int] = []
        self._values: dict[str, list[Estimate]] = {}

    @abstractmethod
    def _measured(self) -> Row:
        """The numbers of the models as they are now."""

    @abstractmethod
    def panels(self) -> list[Panel]:
        """What `plot` draws."""

    @abstractmethod
    def _identity(self) -> dict[str, Any]:
        """What the history belongs to; every part is readable or a short hash."""

    # --- measuring --------------------------------------------------------------------------------------------

    def _due(self, step: int, force: bool) -> bool:
        """Whether a step is measured: the first one, and then whenever a multiple of `every` was reached.

        A multiple may be jumped over, because some loops count several steps at once.
        """
        if self.steps and step < self.steps[-1]:
            raise NetgrainError(
                f"step {step} comes after step {self.steps[-1]} was measured; expected steps in order. "
                "Start a new tracker for a new training."
            )
        return force or not self.steps or step // self.every != self.steps[-1] // self.every

    def _step(self, step: int, force: bool, beside: Beside | None = None) -> tuple[Row | None, bool]:
        """The row of a step, and whether it is new; a step that was measured already is not measured again.

        beside: numbers of the caller's own that are kept with the row, None where there is none at this step. They
        are read here and not before, because reading one waits for the GPU.
        """
        step = whole("step", step, 0)
        if step in self.steps:
            return self._row(self.steps.index(step)), False
        if not self._due(step, force):
            return None, False
        found = self._measured()
        for name, number in (beside or {}).items():
            if number is not None:
                found[name] = Estimate(float(number.detach() if isinstance(number, Tensor) else number))
        found |= {name: NOTHING for name in self._values if name not in found}
        for name, value in found.items():
            self._values.setdefault(name, [NOTHING] * len(self.steps)).append(value)
        self.steps.append(step)
        return found, True

    def _row(self, i: int) -> Row:
        return {name: values[i] for name, values in self._values.items()}

    # --- what was found ---------------------------------------------------------------------------------------

    @property
    def history(self) -> dict[str, list[Estimate]]:
        """One Estimate per measured step (`steps`) for each number that is measured, by name."""
        return {name: list(values) for name, values in self._values.items()}

    def as_dict(self) -> dict[str, list[Any]]:
        """The history as plain values for JSON, the steps under "step"."""
        return {"step": list(self.steps)} | {n: [v.as_dict() for v in values] for n, values in self._values.items()}

    def plot(self, *, log_steps: bool = False) -> Figure:
        """Draw the history, with 95% bands.

        Parameters
        ----------
        log_steps : bool, default False
            Draw the steps on a logarithmic axis, linear up to `every`.

        Returns
        -------
        matplotlib.figure.Figure
            One axis for each panel.
        """
        from netgrain.training.tracker_plots import draw

        return draw(self, log_steps=log_steps)

    def _facts(self, latest: Sequence[str]) -> list[str]:
        """For the repr: how often, how far, and the latest of some numbers."""
        facts = [f"every {self.every} steps"]
        if self.steps:
            facts.append(f"{len(self.steps)} measured up to step {self.steps[-1]}")
            facts += [f"{self.labels[name]} {self._values[name][-1]!r}" for name in latest]
        return facts

    # --- files ------------------------------------------------------------------------------------------------

    def _state(self) -> dict[str, Any]:
        """The history as plain values, and what it belongs to."""
        values = {n: [[v.value, v.stderr, v.n, v.plug_in] for v in vs] for n, vs in self._values.items()}
        return {"identity": self._identity(), "every": self.every, "steps": list(self.steps), "values": values}

    def _resume(self, state: Mapping[str, Any], source: str | Path) -> None:
        """Take over a history as it was saved; one of another model, other points or options is refused."""
        theirs = state["identity"]
        for key, ours in self._identity().items():
            if theirs.get(key) != ours:
                raise NetgrainError(
                    f"{source} belongs to another tracker: expected {key} {ours}, found {theirs.get(key)}; "
                    f"pass the {self.made_of} it was made with."
                )
        self.steps = list(state["steps"])
        # in the order of `labels`: a file sorts them
        values = state["values"]
        self._values = {name: [Estimate(*row) for row in values[name]] for name in self.labels if name in values}


def architecture(model: nn.Module) -> str:
    """A short hash of the names and shapes of the weights."""
    shapes = repr([(n, tuple(p.shape)) for n, p in model.named_parameters()])
    return hashlib.sha256(shapes.encode()).hexdigest()[:16]


def digest(X: Tensor) -> str:
    """A short hash of numbers."""
    return hashlib.sha256(X.detach().cpu().double().contiguous().numpy().tobytes()).hexdigest()[:8]


@contextmanager
def steady(models: Sequence[nn.Module], seed: int) -> Iterator[None]:
    """Eval mode, gradients on, autocast off, generators of its own; all as before afterwards."""
    if torch.is_inference_mode_enabled():
        raise NetgrainError("gradients cannot be taken in torch.inference_mode(); call the tracker outside of it.")
    place = next((p.device.type for model in models for p in model.parameters()), "cpu")
    with seeded(seed), torch.enable_grad(), torch.autocast(place, enabled=False), evaluating(*models):
        yield
