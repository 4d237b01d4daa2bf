"""A sweep over a user's own family: train at every value and seed, and see how complexity follows."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from netgrain.complexity.estimators import geometric_complexity
from netgrain.complexity.variants import margins
from netgrain.families.members import Family, forward, member
from netgrain.geometry.estimate import Estimate, mean
from netgrain.runtime.devices import best_device, checked_device
from netgrain.runtime.engines import engine_for
from netgrain.runtime.errors import NetgrainError
from netgrain.runtime.processes import Processes
from netgrain.runtime.progress import Bar
from netgrain.runtime.randomness import derived_seed
from netgrain.runtime.units import Engine, Outcome, Unit, in_order
from netgrain.training.checks import checked
from netgrain.training.loop import accuracy, full_loss
from netgrain.training.regularizers.base import Regularizer
from netgrain.training.settings import Settings, Trained
from netgrain.training.trained_members import train_member


def sweep(
    make: Family,
    X: Tensor,  # (samples, *input_shape)
    y: Tensor,  # (samples,) labels, or floating-point targets for "sse" and "mse"
    values: Sequence[float],
    settings: Settings,
    *,
    regularizer: Callable[[float], Regularizer] | None = None,
    field: str | None = None,
    test: tuple[Tensor, Tensor] | None = None,
    seeds: int = 3,
    points: int | None = 1000,
    engine: Engine | str | None = None,
    workers: int | None = None,
    device: torch.device | str | None = None,
    progress: bool | None = None,
) -> SweepCurve:
    """Geometric complexity after training, along the values of a sweep.

    The sweep is over the strengths of a regulariser or the values of a setting. Compare at the same loss, with
    ``Settings(stop_at_loss=..., stop_every=10)``: runs that miss it are flagged and left out of ``rho``. A seed has the
    same initial weights and batches at every value, and the curve compares within seeds.

    Parameters
    ----------
    make : callable
        Returns a fresh module on every call.
    X : Tensor of shape (samples, *input_shape)
        Training samples.
    y : Tensor of shape (samples,)
        Labels, or floating-point targets for "sse" and "mse".
    values : sequence of float
        Strengths or values to compare; at least two different ones.
    settings : Settings
        How networks are trained.
    regularizer : callable, optional
        Makes a regulariser from a strength, such as the class ``L2`` itself.
    field : str, optional
        Instead of `regularizer`, the name of a setting that takes the values, such as ``"lr"``.
    test : tuple of Tensor, optional
        Samples and labels for the test accuracy.
    seeds : int, default 3
        Number of trainings at each value.
    points : int, optional
        Training inputs at which complexity is measured, in eval mode (default 1000; None: all).
    engine : Engine or str, optional
        Where networks are trained.
    workers : int, optional
        Number of workers of the engine.
    device : torch.device or str, optional
        Device for training.
    progress : bool, optional
        Show a progress bar; by default on a terminal, after two seconds.

    Returns
    -------
    SweepCurve
        Numbers at every value and seed, and rank correlations within seeds.

    References
    ----------
    .. [1] Dherin, Munn, Rosca, Barrett, "Why neural networks find simple solutions: the many
       regularizers of geometric complexity", arXiv 2209.13083.

    Examples
    --------
    Weight decay makes complexity fall.

    >>> import torch
    >>> from netgrain.training.regularizers.norms import L2
    >>> X = torch.randn(40, 3, generator=torch.Generator().manual_seed(0))
    >>> line = lambda: torch.nn.Linear(3, 2)
    >>> settings = Settings(steps=200, batch=None, lr=0.1)
    >>> curve = sweep(line, X, (X[:, 0] > 0).long(), [0.001, 0.01, 0.1], settings, regularizer=L2, workers=1)
    >>> curve.per_seed()
    [-1.0, -1.0, -1.0]
    """
    if (regularizer is None) == (field is None):
        raise NetgrainError(
            "expected one of regularizer= (such as L2) and field= (such as 'lr'), to say what is swept."
        )
    if field is not None and field not in Settings.__dataclass_fields__:
        known = ", ".join(Settings.__dataclass_fields__)
        raise NetgrainError(f"Settings has no field '{field}'; expected one of {known}.")
    if len(set(values)) < 2 or seeds < 1:
        raise NetgrainError(f"expected at least two different values and one seed, found {list(values)} and {seeds}.")
    chosen = [settings if field is None else Settings(**{**settings.as_dict(), field: v}) for v in values]
    if regularizer is not None:
        for v in values:
            regularizer(v)  # a bad strength is said before anything is trained
    X, y = checked(member(make, 0, 0), X, y, settings.loss)

    place = best_device() if device is None else checked_device(device)
    via = engine_for(engine, workers, place) or Processes()

    def task(unit: Mapping[str, Any]) -> Outcome:
        seed, j = unit["seed"], unit["value"]
        penalty = None if regularizer is None else regularizer(values[j])
        for part in penalty.parts if penalty is not None else ():
            part.generator.manual_seed(derived_seed(seed, "regularizer"))
        trained = train_member(make, X, y, chosen[j], seed=seed, i=0, regularizer=penalty, device=place)
        return Outcome(measured(trained, make, (X, y), test, chosen[j], points, device=place))

    units = [Unit({"seed": seed, "value": j}) for seed in range(seeds) for j in range(len(values))]
    numbers = []
    with Bar("trainings", len(units), progress) as bar:
        for found in in_order(via.run(task, units), units):
            numbers.append(found.numbers)
            bar.advance()
    return curve_of(tuple(values), numbers, seeds)


MEASURES = ("complexity", "margin_complexity", "accuracy", "train_loss", "steps")


def curve_of(values: tuple[float, ...], numbers: list[dict[str, Any]], seeds: int) -> SweepCurve:
    """The curve of outcomes in the order seeds × values."""
    rows = [numbers[s * len(values) : (s + 1) * len(values)] for s in range(seeds)]
    return SweepCurve(
        values,
        {m: [[math.nan if n[m] is None else float(n[m]) for n in row] for row in rows] for m in MEASURES},
        [[not n["diverged"] and n["reached"] is not False for n in row] for row in rows],
    )


def measured(
    trained: Trained,
    make: Family,
    train: tuple[Tensor, Tensor],
    test: tuple[Tensor, Tensor] | None,
    settings: Settings,
    points: int | None,
    device: torch.device | str = "cpu",
) -> dict[str, Any]:
    """The numbers of one training, taken on a device; None where it diverged or a number cannot be had."""
    facts = {"steps": trained.steps, "reached": trained.reached, "diverged": trained.diverged}
    if trained.diverged:
        return {**dict.fromkeys(MEASURES), **facts}
    model = trained.model(make).to(device)
    X, y = train
    train_loss = full_loss(model, X, y, settings)
    if not math.isfinite(train_loss):  # in eval mode, with running statistics that went astray
        return {**dict.fromkeys(MEASURES), **facts, "diverged": True}
    some = torch.arange(len(X))
    if points is not None and points < len(X):
        generator = torch.Generator().manual_seed(derived_seed(0, "points"))  # the same points for every seed
        some = torch.randperm(len(X), generator=generator)[:points]
    complexity = geometric_complexity(model, X[some], progress=False)
    margin = None if y.is_floating_point() else median_margin(model, X[some], y[some])
    return {
        **facts,
        "complexity": complexity.value,
        "margin_complexity": complexity / margin**2 if margin is not None and margin > 0 else None,
        "accuracy": None if test is None else accuracy(model, *test),
        "train_loss": train_loss,
    }


def median_margin(model: nn.Module, X: Tensor, y: Tensor) -> float:
    """The median of f_y − max over the other classes."""
    weight = next(model.parameters())
    with torch.no_grad():
        outputs = torch.cat([forward(model, x.to(weight)).cpu() for x in X.split(1024)])
    return float(margins(outputs, y).median())


Rows = list[list[float]]  # (seeds, values)


@dataclass(frozen=True, eq=False, repr=False)
class SweepCurve:
    """Numbers of trainings at every value of a sweep and every seed; runs that missed their target loss are flagged.

    Seeds differ in level more than many effects are large, so `rho` is paired: Spearman's rank correlation of value
    and number within each seed, averaged. Runs that diverged or stopped before the target loss was met are left out of
    it (`missed`): networks at different losses cannot be compared.
    """

    values: tuple[float, ...]
    numbers: Mapping[str, Rows]  # measure → (seeds, values); NaN where a training diverged
    good: list[list[bool]] = field(default_factory=list)  # finished, and at the target loss where there is one

    @property
    def seeds(self) -> int:
        return len(self.good)

    @property
    def missed(self) -> int:
        """Runs that diverged or did not reach the target loss."""
        return sum(not g for row in self.good for g in row)

    def per_seed(self, measure: str = "complexity") -> list[float]:
        """Spearman's rho of value and measure in each seed; NaN where fewer than three runs are left."""
        return [
            spearman(
                [v for v, g in zip(self.values, good, strict=True) if g],
                [r for r, g in zip(row, good, strict=True) if g],
            )
            for row, good in zip(self.numbers[measure], self.good, strict=True)
        ]

    def rho(self, measure: str = "complexity") -> Estimate:
        """Mean of the seeds' rho with its standard error; `interval()` is the 95 % interval over seeds."""
        return mean([r for r in self.per_seed(measure) if not math.isnan(r)])

    def pooled(self, measure: str = "complexity") -> Estimate:
        """Spearman's rho of all runs together, with its standard error by leaving out one seed at a time."""

        def of(seeds: Sequence[int]) -> float:
            pairs = [
                (v, r)
                for s in seeds
                for v, r, g in zip(self.values, self.numbers[measure][s], self.good[s], strict=True)
                if g
            ]
            return spearman([v for v, _ in pairs], [r for _, r in pairs])

        n = self.seeds
        whole = of(range(n))
        if n < 2:
            return Estimate(whole, math.nan, n)
        left = [of([s for s in range(n) if s != out]) for out in range(n)]
        centre = sum(left) / n
        return Estimate(whole, math.sqrt((n - 1) / n * sum((x - centre) ** 2 for x in left)), n)

    def means(self, measure: str = "complexity") -> list[Estimate]:
        """Mean over seeds at each value, of the good runs."""
        rows = self.numbers[measure]
        return [mean([rows[s][j] for s in range(self.seeds) if self.good[s][j]]) for j in range(len(self.values))]

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {"values": list(self.values), "numbers": dict(self.numbers), "good": self.good}

    def __repr__(self) -> str:
        along = " → ".join(f"{m.value:.3g}" for m in self.means())
        missed = f", {self.missed} runs missed" if self.missed else ""
        size = f"{len(self.values)} values × {self.seeds} seeds"
        return f"SweepCurve({size}, complexity {along}, rho {self.rho()!r}{missed})"


def spearman(x: Sequence[float], y: Sequence[float]) -> float:
    """Rank correlation, ties at their mean rank; NaN for fewer than three pairs or no variation.

    >>> spearman([1, 2, 3, 4], [10, 20, 40, 30])
    0.8
    """
    if len(x) < 3 or len(set(x)) < 2 or len(set(y)) < 2:
        return math.nan
    a, b = _ranks(x), _ranks(y)
    centre = (len(x) - 1) / 2
    top = sum((p - centre) * (q - centre) for p, q in zip(a, b, strict=True))
    return top / math.sqrt(sum((p - centre) ** 2 for p in a) * sum((q - centre) ** 2 for q in b))


def _ranks(values: Sequence[float]) -> list[float]:
    return [sum(w < v for w in values) + (sum(w == v for w in values) - 1) / 2 for v in values]
