"""The geometric complexity of a model while it trains: a few numbers every so many steps of any loop."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import Tensor, nn

from netgrain.complexity.functions import Of
from netgrain.complexity.meter import NOTHING, Meter, Row
from netgrain.geometry.estimate import Estimate
from netgrain.runtime.arguments import whole
from netgrain.runtime.errors import GrainWarning, NetgrainError
from netgrain.runtime.packed import read_packed, write_packed

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Log = Callable[[dict[str, float], int], object]

PREFIX = "complexity/"  # of the names of scalars in a log
NAMES = {
    "gc": "geometric complexity",
    "gc_per_variance": "GC / variance of the outputs",
    "gc_per_margin": "GC / (median margin)²",
    "margin": "median margin",
    "accuracy": "accuracy",
    "gc_test": "geometric complexity, held out",
    "gap": "GC held out − GC",
    "loss": "loss",
}


class ComplexityTracker(Meter):
    """Measures the geometric complexity of a model in any training loop; call it with the step.

    GC = (1/n) Σᵢ ‖∂f/∂x (xᵢ)‖²_F on a fixed random subset of X: `points` of them, chosen by `seed` (None: all). With it
    come GC over the summed variance of the outputs, with labels y the median margin (f_y − the largest other), GC over
    its square (nan while it is not positive) and the accuracy, and with X_test= the same GC there and the gap.

    every: measured at the first call and whenever a multiple of it is reached. of, layer, estimator, rel_error: as in
    `geometric_complexity`; margins and accuracy are of the logits whatever these say. log: called with a dict of plain
    floats and the step, after every measurement (`to_tensorboard` makes one).

    The model is measured in eval mode and in its own precision, autocast or not, torch.no_grad() or not. Modes,
    gradients, buffers and random states are left as found; nothing but numbers is kept. A model that has diverged gives
    nan and one warning: a training is not ended by being watched.

    >>> import torch
    >>> net = nn.Linear(2, 2, bias=False)
    >>> tracker = ComplexityTracker(net, torch.tensor([[1.0, 0.0], [0.0, 1.0]]), torch.tensor([0, 1]), every=5)
    >>> for step in range(6):
    ...     _ = net.weight.data.copy_((1.0 + step) * torch.eye(2))
    ...     _ = tracker(step)
    >>> tracker.steps, [gc.value for gc in tracker.history["gc"]], tracker.history["gc_per_margin"][1].value
    ([0, 5], [2.0, 72.0], 2.0)
    """

    def __init__(
        self,
        model: nn.Module,
        X: Tensor,  # (n, *input_shape)
        y: Tensor | None = None,  # (n,)
        *,
        X_test: Tensor | None = None,
        every: int = 10,
        of: Of = "logits",
        layer: str | None = None,
        points: int | None = 256,
        estimator: str = "auto",
        rel_error: float = 0.02,
        seed: int = 0,
        log: Log | None = None,
    ) -> None:
        if log is not None and not callable(log):
            raise NetgrainError(
                f"log expects a callable log(dict, step), found {type(log).__name__}; "
                "for a SummaryWriter pass log=to_tensorboard(writer)."
            )
        self.every, self.log = whole("every", every, 1), log
        super().__init__(
            model,
            X,
            y,
            X_test=X_test,
            of=of,
            layer=layer,
            points=points,
            estimator=estimator,
            rel_error=rel_error,
            seed=seed,
        )
        self.steps: list[int] = []
        self._values: dict[str, list[Estimate]] = {name: [] for name in self.names}
        self._warned = False

    # --- measuring --------------------------------------------------------------------------------------------

    def __call__(self, step: int, *, loss: Tensor | float | None = None, force: bool = False) -> Row | None:
        """Measure if it is time to, and return what was found; force: measure at this step in any case.

        loss: kept beside the numbers. A step that was measured already (by a run that this one resumes) is not
        measured again.
        """
        step = whole("step", step, 0)
        if step in self.steps:
            return self._row(self.steps.index(step))
        if self.steps and step < self.steps[-1]:
            raise NetgrainError(
                f"step {step} comes after step {self.steps[-1]} was measured; expected steps in order. "
                "Start a new tracker for a new training."
            )
        # a multiple may be jumped over: some loops count several steps at once
        if self.steps and not force and step // self.every == self.steps[-1] // self.every:
            return None
        found = self.measure()
        if loss is not None and "loss" not in self._values:
            self._values["loss"] = [NOTHING for _ in self.steps]
        if "loss" in self._values:
            found["loss"] = (
                NOTHING if loss is None else Estimate(float(loss.detach() if isinstance(loss, Tensor) else loss))
            )
        self._warn_once(step, found, loss is not None)
        for name, value in found.items():
            self._values[name].append(value)
        self.steps.append(step)
        if self.log is not None:
            self.log(scalars(found), step)
        return found

    def _warn_once(self, step: int, found: Row, with_loss: bool) -> None:
        lost = [name for name in ("gc", *(["loss"] if with_loss else [])) if not math.isfinite(found[name])]
        if lost and not self._warned:
            self._warned = True
            words = " and the ".join(NAMES[name] for name in lost)
            warnings.warn(
                f"the {words} at step {step} is not finite: the training has diverged; nan is recorded from here on "
                "while that lasts.",
                GrainWarning,
                stacklevel=3,
            )

    labels = NAMES

    # --- what was found ---------------------------------------------------------------------------------------

    @property
    def history(self) -> dict[str, list[Estimate]]:
        """One Estimate per measured step (`steps`) for each of the names in `NAMES` that is measured."""
        return {name: list(values) for name, values in self._values.items()}

    def as_dict(self) -> dict[str, list[Any]]:
        """The same as plain values for JSON, the steps under "step"."""
        return {"step": list(self.steps)} | {n: [v.as_dict() for v in values] for n, values in self._values.items()}

    def _row(self, i: int) -> Row:
        return {name: values[i] for name, values in self._values.items()}

    def plot(self, *, log_steps: bool = False) -> Figure:
        """The complexity with its 95 % band, its normalised versions, and how well the labels are met."""
        from netgrain.training.tracker_plots import draw_complexity

        return draw_complexity(self, log_steps=log_steps)

    def __repr__(self) -> str:
        facts = [f"{len(self.X)} points", f"every {self.every} steps"]
        if self.steps:
            facts.append(f"{len(self.steps)} measured up to step {self.steps[-1]}")
            facts.append(f"{NAMES['gc']} {self._values['gc'][-1]!r}")
        return f"ComplexityTracker({', '.join(facts)})"

    # --- files ------------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """The history and what it belongs to, as plain values: for a checkpoint of your own."""
        values = {n: [[v.value, v.stderr, v.n] for v in vs] for n, vs in self._values.items()}
        return {"identity": self._identity(), "every": self.every, "steps": list(self.steps), "values": values}

    def load_state_dict(self, state: dict[str, Any], *, source: str = "the state") -> None:
        """Go on with a history; one of another model, other points or other options is refused."""
        theirs = state["identity"]
        for key, ours in self._identity().items():
            if theirs.get(key) != ours:
                raise NetgrainError(
                    f"{source} belongs to another tracker: expected {key} {ours}, found {theirs.get(key)}; "
                    "pass the model, data and options it was made with."
                )
        self.steps = list(state["steps"])
        values = state["values"]  # in the order of the alphabet, if they come from a file
        self._values = {name: [Estimate(*row) for row in values[name]] for name in NAMES if name in values}

    def save(self, path: str | Path) -> Path:
        """The history in one safetensors file; `load` goes on from it."""
        return write_packed(path, "complexity tracker", self.state_dict(), {})

    @classmethod
    def load(
        cls, path: str | Path, model: nn.Module, X: Tensor, y: Tensor | None = None, **options: Any
    ) -> ComplexityTracker:
        """Go on with the history of a file, with the model as trained so far, the same data and the same options."""
        state, _ = read_packed(path, "complexity tracker")
        tracker = cls(model, X, y, **({"every": state["every"]} | options))
        tracker.load_state_dict(state, source=str(path))
        return tracker


def to_tensorboard(writer: Any) -> Log:
    """A `log=` that writes scalars to a torch.utils.tensorboard.SummaryWriter.

    >>> class Writer:
    ...     def add_scalar(self, name, value, step):
    ...         print(step, name, value)
    >>> to_tensorboard(Writer())({"complexity/gc": 2.0}, 10)
    10 complexity/gc 2.0
    """
    if not callable(getattr(writer, "add_scalar", None)):
        raise NetgrainError(
            f"expected a SummaryWriter with a method add_scalar(name, value, step), found {type(writer).__name__}."
        )

    def log(row: dict[str, float], step: int) -> None:
        for name, value in row.items():
            writer.add_scalar(name, value, step)

    return log


def scalars(row: Row) -> dict[str, float]:
    """A row as plain floats under the names of a log, the error of the complexity beside it.

    >>> scalars({"gc": Estimate(3.0, 0.1, 9), "accuracy": Estimate(0.5)})
    {'complexity/gc': 3.0, 'complexity/gc_stderr': 0.1, 'complexity/accuracy': 0.5}
    """
    found: dict[str, float] = {}
    for name, value in row.items():
        found[PREFIX + name] = value.value
        if name == "gc":
            found[PREFIX + "gc_stderr"] = value.stderr
    return found
