"""The complexity numbers of a model as it is now, on fixed points; the model and the loop around it notice nothing."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from netgrain.complexity.checks import check_effort, checked_labels, checked_points
from netgrain.complexity.estimators import BATCH, ESTIMATORS, geometric_complexity
from netgrain.complexity.functions import Of, map_of
from netgrain.complexity.variants import margins
from netgrain.families.failures import NotFinite, check_not_lazy
from netgrain.geometry.estimate import Estimate
from netgrain.runtime.arguments import found, whole
from netgrain.runtime.errors import NetgrainError, known_name
from netgrain.runtime.randomness import derived_seed, seeded
from netgrain.training.geometry_tracker import _evaluating

Row = dict[str, Estimate]

NOTHING = Estimate(math.nan, math.nan)
LAYOUT = 1  # of the identity in a file; another one is refused, not guessed at


class Meter:
    """Measures one row of numbers: geometric complexity, its normalised versions, margin, accuracy, gap.

    A `ComplexityTracker` is a meter with a history; the options are those of the tracker.

    >>> net = nn.Linear(2, 2, bias=False)
    >>> _ = net.weight.data.copy_(torch.eye(2))
    >>> row = Meter(net, torch.tensor([[1.0, 0.0], [-1.0, 0.0]])).measure()
    >>> row["gc"].value, row["gc_per_variance"].value  # the outputs vary by 1 and 0
    (2.0, 2.0)
    """

    def __init__(
        self,
        model: nn.Module,
        X: Tensor,  # (n, *input_shape)
        y: Tensor | None = None,  # (n,)
        *,
        X_test: Tensor | None = None,
        of: Of = "logits",
        layer: str | None = None,
        points: int | None = 256,
        estimator: str = "auto",
        rel_error: float = 0.02,
        seed: int = 0,
    ) -> None:
        if not isinstance(model, nn.Module):
            raise NetgrainError(f"expected a torch.nn.Module, found {found(model)}.")
        check_not_lazy(model, "the model")
        check_effort(rel_error, None, 1)
        self.model, self.of, self.layer = model, of, layer
        self.estimator, self.rel_error, self.seed = known_name("estimator", estimator, ESTIMATORS), rel_error, seed
        X = self._checked(X)
        chosen = _subset(len(X), points, derived_seed(seed, "complexity points"))
        self.X = X[chosen]  # what is measured; a copy
        self.y = None if y is None else checked_labels(y, len(X))[chosen]
        self.X_test: Tensor | None = None
        if X_test is not None:
            X_test = self._checked(X_test)
            self.X_test = X_test[_subset(len(X_test), points, derived_seed(seed, "complexity test points"))]
        self._check_model()

    def measure(self) -> Row:
        """What the model is now, kept nowhere."""
        if torch.is_inference_mode_enabled():
            raise NetgrainError("gradients cannot be taken in torch.inference_mode(); call it outside of that.")
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

    @contextmanager
    def _steady(self) -> Iterator[None]:
        """Eval mode, gradients on, autocast off, generators of its own; all as before afterwards."""
        place = next((p.device.type for p in self.model.parameters()), "cpu")
        with (
            seeded(derived_seed(self.seed, "complexity")),
            torch.enable_grad(),
            torch.autocast(place, enabled=False),
            _evaluating([self.model]),
        ):
            yield

    def _complexity(self, X: Tensor) -> Estimate:
        try:
            found = geometric_complexity(
                self.model,
                X,
                estimator=self.estimator,
                rel_error=self.rel_error,
                of=self.of,
                layer=self.layer,
                seed=self.seed,
                progress=False,
            )
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

    @property
    def names(self) -> list[str]:
        """Of the numbers in a row."""
        names = ["gc"]
        # the vector whose Jacobian gives the Fisher trace is no output of the network: its variance means nothing
        names += ["gc_per_variance"] if self.of != "fisher" else []
        names += ["gc_per_margin", "margin", "accuracy"] if self.y is not None else []
        return names + (["gc_test", "gap"] if self.X_test is not None else [])

    def _identity(self) -> dict[str, Any]:
        shapes = repr([(n, tuple(p.shape)) for n, p in self.model.named_parameters()])
        return {
            "layout": LAYOUT,
            "architecture": hashlib.sha256(shapes.encode()).hexdigest()[:16],
            "X": _fingerprint(self.X),
            "y": _fingerprint(self.y),
            "X_test": _fingerprint(self.X_test),
            "of": self.of if isinstance(self.of, str) else getattr(self.of, "__name__", "custom"),
            "layer": self.layer,
            "estimator": self.estimator,
            "rel_error": self.rel_error,
            "seed": self.seed,
        }

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


def _subset(available: int, points: int | None, seed: int) -> Tensor:
    if points is None or available <= whole("points", points, 1):
        return torch.arange(available)
    return torch.randperm(available, generator=torch.Generator().manual_seed(seed))[:points].sort().values


def _over(gc: Estimate, unit: float) -> Estimate:
    if not unit > 0:
        return NOTHING
    return Estimate(gc.value / unit, gc.stderr / unit, gc.n)


def _fingerprint(X: Tensor | None) -> str | None:
    if X is None:
        return None
    numbers = X.detach().cpu().double().contiguous().numpy().tobytes()
    return f"{tuple(X.shape)} {hashlib.sha256(numbers).hexdigest()[:8]}"
