"""The geometric complexity of a model while it trains: a few numbers every so many steps of any loop."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from netgrain.complexity.checks import checked_labels, checked_points
from netgrain.complexity.estimators import BATCH, Effort, Estimator, mean_slope
from netgrain.complexity.functions import Of, map_of
from netgrain.complexity.variants import margins
from netgrain.families.failures import NotFinite, check_not_lazy
from netgrain.geometry.estimate import Estimate
from netgrain.runtime.arguments import found, whole
from netgrain.runtime.errors import GrainWarning, NetgrainError
from netgrain.runtime.packed import read_packed, write_packed
from netgrain.runtime.randomness import derived_seed
from netgrain.training.tracking import LAYOUT, NOTHING, Line, Panel, Row, Tracker, architecture, digest, steady

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


class ComplexityTracker(Tracker):
    """Geometric complexity of a model in any training loop; call it with the step.

    Measures GC = (1/n) Σᵢ ‖∂f/∂x (xᵢ)‖²_F on fixed points, GC over the summed variance of the outputs and, with labels,
    the median margin (f_y − the largest other), GC over its square (nan while it is not positive) and the accuracy.

    The model is measured in eval mode and in its own precision, autocast or not, torch.no_grad() or not. Modes,
    gradients, buffers and random states are left as found; only numbers are stored. A model that has diverged gives nan
    and one warning; the tracker never stops a training.

    Parameters
    ----------
    model : torch.nn.Module
        The network, in train or eval mode.
    X : Tensor of shape (samples, *input_shape)
        Points of which a fixed random subset is measured.
    y : Tensor of shape (samples,), optional
        Labels, needed for the margin, GC over its square, and the accuracy.
    X_test : Tensor of shape (samples, *input_shape), optional
        Held-out points, needed for their GC and the gap.
    every : int, default 10
        Measure at the first call and whenever a multiple of it is reached.
    of : {"logits", "softmax", "log-softmax", "centred", "fisher"} or callable, default "logits"
        What is differentiated; margins and accuracy are of the logits in any case.
    layer : str, optional
        Name of a submodule: the map from the input to its output is measured instead.
    points : int or None, default 256
        Size of the subset, chosen by `seed`; None takes all.
    estimator : {"auto", "exact", "forward", "vjp", "jvp", "outputs"}, default "auto"
        How ‖J‖² is computed, as in `geometric_complexity`.
    rel_error : float, default 0.02
        Relative standard error that random vectors aim at.
    seed : int, default 0
        Seed of everything random.
    log : callable, optional
        Called as ``log(dict of floats, step)`` after every measurement; `to_tensorboard` makes one.

    See Also
    --------
    netgrain.GeometryTracker : The geometry itself while models train.
    netgrain.complexity.geometric_complexity : The number that is tracked.

    Examples
    --------
    With f = a·x the complexity is 2a² and the margin at (1, 0) is a.

    >>> net = nn.Linear(2, 2, bias=False)
    >>> tracker = ComplexityTracker(net, torch.tensor([[1.0, 0.0], [0.0, 1.0]]), torch.tensor([0, 1]), every=5)
    >>> for step in range(6):
    ...     _ = net.weight.data.copy_((1.0 + step) * torch.eye(2))
    ...     _ = tracker(step)
    >>> tracker.steps, [gc.value for gc in tracker.history["gc"]], tracker.history["gc_per_margin"][1].value
    ([0, 5], [2.0, 72.0], 2.0)
    """

    labels, made_of = NAMES, "model, data and options"

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
        estimator: Estimator = "auto",
        rel_error: float = 0.02,
        seed: int = 0,
        log: Log | None = None,
    ) -> None:
        if log is not None and not callable(log):
            raise NetgrainError(
                f"log expects a callable log(dict, step), found {type(log).__name__}; "
                "for a SummaryWriter pass log=to_tensorboard(writer)."
            )
        super().__init__(every)
        self.log = log
        if not isinstance(model, nn.Module):
            raise NetgrainError(f"expected a torch.nn.Module, found {found(model)}.")
        check_not_lazy(model, "the model")
        self.model, self.of, self.layer = model, of, layer
        self.effort = Effort(estimator, rel_error, seed=seed, progress=False)
        X = self._checked(X)
        chosen = _subset(len(X), points, derived_seed(seed, "complexity points"))
        self.X = X[chosen]  # what is measured; a copy
        self.y = None if y is None else checked_labels(y, len(X))[chosen]
        self.X_test: Tensor | None = None
        if X_test is not None:
            X_test = self._checked(X_test)
            self.X_test = X_test[_subset(len(X_test), points, derived_seed(seed, "complexity test points"))]
        self._check_model()
        self._values = {name: [] for name in self.names}
        self._warned = False

    # --- measuring --------------------------------------------------------------------------------------------

    def __call__(self, step: int, *, loss: Tensor | float | None = None, force: bool = False) -> Row | None:
        """Measure if it is time to, and return what was found; force: measure at this step in any case.

        loss: kept beside the numbers. A step that was measured already (by a run that this one resumes) is not
        measured again.
        """
        row, new = self._step(step, force, {"loss": loss})
        if row is not None and new:
            self._warn_once(self.steps[-1], row, loss is not None)
            if self.log is not None:
                self.log(scalars(row), self.steps[-1])
        return row

    def measure(self) -> Row:
        """The measurements of the model as it is now; they are not stored."""
        with self._steady():
            X = self._inputs(self.X)
            gc = self._complexity(X)
            found = {"gc": gc}
            if "gc_per_variance" in self.names:
                found["gc_per_variance"] = _over(gc, self._variance(X))
            if self.y is not None:
                outputs = self._values_of(X, "logits", None)
                margin = margins(outputs, self.y) if outputs is not None else torch.tensor([math.nan])
                middle = float(margin.quantile(0.5))
                found["gc_per_margin"] = _over(gc, middle**2 if middle > 0 else math.nan)
                found["margin"] = Estimate(middle)
                found["accuracy"] = Estimate(math.nan if math.isnan(middle) else float((margin > 0).double().mean()))
            if self.X_test is not None:
                found["gc_test"] = test = self._complexity(self._inputs(self.X_test))
                n = min(gc.n, test.n) or max(gc.n, test.n)  # 0 is exact
                found["gap"] = Estimate(test.value - gc.value, math.hypot(gc.stderr, test.stderr), n)
        return found

    def _measured(self) -> Row:
        return self.measure()

    def _steady(self) -> AbstractContextManager[None]:
        return steady([self.model], derived_seed(self.effort.seed, "complexity"))

    def _complexity(self, X: Tensor) -> Estimate:
        try:
            found = mean_slope(self.model, X, self.effort, self.of, self.layer)
        except NetgrainError:
            if not self._diverged(X):
                raise
            return NOTHING
        return Estimate(found.value, found.stderr, found.n)

    def _diverged(self, X: Tensor) -> bool:
        """Whether weights, outputs or input gradients are no longer finite: the cause lies in the training."""
        if any(p.is_floating_point() and not bool(torch.isfinite(p.detach()).all()) for p in self.model.parameters()):
            return True
        try:
            with map_of(self.model, X, self.of, self.layer) as f:
                for part in torch.arange(f.n).split(BATCH):
                    x = f.points(part).requires_grad_(True)
                    y = f.call(x)
                    rows = torch.autograd.grad(y.sum(), x, allow_unused=True)[0] if y.requires_grad else None
                    if rows is not None and not bool(torch.isfinite(rows).all()):
                        return True
        except NotFinite:
            return True
        return False

    def _variance(self, X: Tensor) -> float:
        """Σ_c Var(f_c) over the points."""
        y = self._values_of(X, self.of, self.layer)
        return float(y.var(0, correction=0).sum()) if y is not None else math.nan

    def _values_of(self, X: Tensor, of: Of, layer: str | None) -> Tensor | None:
        """Outputs (n, k) in float64; None where the weights have diverged."""
        try:
            with map_of(self.model, X, of, layer) as f:
                return f.outputs(BATCH)
        except NetgrainError:
            if not self._diverged(X):
                raise
            return None

    def _inputs(self, X: Tensor) -> Tensor:
        """The points as the model is given them; embeddings that train along are looked up here."""
        return X

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

    # --- what was found ---------------------------------------------------------------------------------------

    @property
    def names(self) -> list[str]:
        """Names of the numbers in a row."""
        names = ["gc"]
        # the vector whose Jacobian gives the Fisher trace is no output of the network: its variance means nothing
        names += ["gc_per_variance"] if self.of != "fisher" else []
        names += ["gc_per_margin", "margin", "accuracy"] if self.y is not None else []
        return names + (["gc_test", "gap"] if self.X_test is not None else [])

    def panels(self) -> list[Panel]:
        """The panels of `plot`: complexity, its normalised versions, accuracy and loss.

        Accuracy and loss are drawn if they are known.
        """
        complexity = [Line("gc", "measured on X", 0), Line("gc_test", "held out", 1, dashed=True)]
        relative = [
            Line("gc", NAMES["gc"], 0),
            Line("gc_per_variance", NAMES["gc_per_variance"], 2),
            Line("gc_per_margin", NAMES["gc_per_margin"], 3),
        ]
        accuracy = "accuracy" in self._values
        outcome = [Line("accuracy", NAMES["accuracy"], 0), Line("loss", NAMES["loss"], 6, own_axis=accuracy)]
        panels = [
            Panel("Geometric complexity", self._known(complexity), log=True),
            Panel("Relative to the first value", self._known(relative), relative=True, log=True),
            Panel("Labels met, and loss", self._known(outcome), share=accuracy),
        ]
        return [panel for panel in panels if panel.lines]

    def _known(self, lines: list[Line]) -> list[Line]:
        return [line for line in lines if line.name in self._values]

    def __repr__(self) -> str:
        return f"ComplexityTracker({', '.join([f'{len(self.X)} points', *self._facts(['gc'])])})"

    # --- files ------------------------------------------------------------------------------------------------

    def _identity(self) -> dict[str, Any]:
        return {
            "layout": LAYOUT,
            "architecture": architecture(self.model),
            "X": _fingerprint(self.X),
            "y": _fingerprint(self.y),
            "X_test": _fingerprint(self.X_test),
            "of": self.of if isinstance(self.of, str) else getattr(self.of, "__name__", "custom"),
            "layer": self.layer,
            "estimator": self.effort.estimator,
            "rel_error": self.effort.rel_error,
            "seed": self.effort.seed,
        }

    def state_dict(self) -> dict[str, Any]:
        """History as plain values, for a checkpoint of your own."""
        return self._state()

    def load_state_dict(self, state: dict[str, Any], *, source: str = "the state") -> None:
        """Resume a history; an error if model, points or options are different.

        Parameters
        ----------
        state : dict
            What `state_dict` returned.
        source : str, default "the state"
            What messages call it.
        """
        self._resume(state, source)

    def save(self, path: str | Path) -> Path:
        """Write the history to one safetensors file, from which `load` resumes.

        Parameters
        ----------
        path : str or Path
            The file.

        Returns
        -------
        Path
            The file.
        """
        return write_packed(path, "complexity tracker", self.state_dict(), {})

    @classmethod
    def load(
        cls,
        path: str | Path,
        model: nn.Module,
        X: Tensor,
        y: Tensor | None = None,
        *,
        X_test: Tensor | None = None,
        every: int | None = None,
        of: Of = "logits",
        layer: str | None = None,
        points: int | None = 256,
        estimator: Estimator = "auto",
        rel_error: float = 0.02,
        seed: int = 0,
        log: Log | None = None,
    ) -> ComplexityTracker:
        """Resume from the history in a file, with the same data and options.

        Parameters
        ----------
        path : str or Path
            A file that `save` wrote.
        model : torch.nn.Module
            The network, in train or eval mode.
        X : Tensor of shape (samples, *input_shape)
            Points of which a fixed random subset is measured.
        y : Tensor of shape (samples,), optional
            Labels, needed for the margin, GC over its square, and the accuracy.
        X_test : Tensor of shape (samples, *input_shape), optional
            Held-out points, needed for their GC and the gap.
        every : int, optional
            As in the file, by default.
        of : {"logits", "softmax", "log-softmax", "centred", "fisher"} or callable, default "logits"
            What is differentiated; margins and accuracy are of the logits in any case.
        layer : str, optional
            Name of a submodule: the map from the input to its output is measured instead.
        points : int or None, default 256
            Size of the subset, chosen by `seed`; None takes all.
        estimator : {"auto", "exact", "forward", "vjp", "jvp", "outputs"}, default "auto"
            How ‖J‖² is computed, as in `geometric_complexity`.
        rel_error : float, default 0.02
            Relative standard error that random vectors aim at.
        seed : int, default 0
            Seed of everything random.
        log : callable, optional
            Called as ``log(dict of floats, step)`` after every measurement; `to_tensorboard` makes one.

        Returns
        -------
        ComplexityTracker
            A tracker with the history of the file.

        Raises
        ------
        NetgrainError
            If the file belongs to another model, other points or other options.
        """
        state, _ = read_packed(path, "complexity tracker")
        tracker = cls(
            model,
            X,
            y,
            X_test=X_test,
            every=state["every"] if every is None else every,
            of=of,
            layer=layer,
            points=points,
            estimator=estimator,
            rel_error=rel_error,
            seed=seed,
            log=log,
        )
        tracker._resume(state, path)
        return tracker

    # --- checks -----------------------------------------------------------------------------------------------

    def _checked(self, X: Tensor) -> Tensor:
        return checked_points(X)

    def _check_model(self) -> None:
        """What cannot work is said when the tracker is made, not in the middle of a training."""
        with torch.inference_mode(False), self._steady():
            X = self._inputs(self.X)
            with map_of(self.model, X, self.of, self.layer):
                pass
            if self.X_test is not None and self.X_test.shape[1:] != self.X.shape[1:]:
                raise NetgrainError(
                    f"X_test has inputs of shape {tuple(self.X_test.shape[1:])}, X of {tuple(self.X.shape[1:])}; "
                    "expected the same."
                )
            if self.y is not None:
                with map_of(self.model, X) as f:
                    outputs = f.k
                checked_labels(self.y, len(self.y), outputs, logit=True)


def to_tensorboard(writer: Any) -> Log:
    """A ``log=`` that writes scalars to a TensorBoard SummaryWriter.

    Parameters
    ----------
    writer : torch.utils.tensorboard.SummaryWriter
        Anything with ``add_scalar(name, value, step)``.

    Returns
    -------
    callable
        ``log(dict of floats, step)``.

    Examples
    --------
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


def _subset(available: int, points: int | None, seed: int) -> Tensor:
    if points is None or available <= whole("points", points, 1):
        return torch.arange(available)
    return torch.randperm(available, generator=torch.Generator().manual_seed(seed))[:points].sort().values


def _over(gc: Estimate, unit: float) -> Estimate:
    if not unit > 0:
        return NOTHING
    return Estimate(gc.value / unit, gc.stderr / unit, gc.n)


def _fingerprint(X: Tensor | None) -> str | None:
    return None if X is None else f"{tuple(X.shape)} {digest(X)}"
