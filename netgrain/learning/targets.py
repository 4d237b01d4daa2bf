"""Labels as columns of numbers, the bad input that is refused first, and the score of predictions.

Classes become one-hot columns, numbers stay as they are. A score is an accuracy or R² = 1 − error/(error of the mean),
where the mean is that of the other samples: (n/(n − 1))² times the variance.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from netgrain.geometry.estimate import Estimate
from netgrain.runtime.errors import NetgrainError
from netgrain.runtime.samples import RENUMBER, checked_samples, may_be_classes, tensor_of

Target = Literal["classes", "numbers"]
FEWEST_SAMPLES = 20
FEWEST_IN_CLASS = 5  # a class with fewer samples has no score of its own
MOST_CLASSES = 1000


@dataclass(frozen=True, eq=False)
class Targets:
    """Labels of samples, as classes or as numbers.

    Parameters
    ----------
    values : Tensor of shape (samples,) or (samples, outputs)
        Positions of classes in `classes` (int64), or numbers (float64).
    classes : tuple of str
        Names of the classes in the order of their labels; empty for numbers.

    See Also
    --------
    targets_of : Checks labels and makes this value.

    Examples
    --------
    >>> targets_of([3, 3, 7, 3] * 5)
    Targets(20 samples, 2 classes, largest share 75%)
    """

    values: Tensor
    classes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.values)

    @property
    def kind(self) -> Target:
        """Whether these are classes or numbers."""
        return "classes" if self.classes else "numbers"

    @property
    def measure(self) -> str:
        """Name of the score: accuracy or R²."""
        return "accuracy" if self.classes else "R²"

    @property
    def counts(self) -> tuple[int, ...]:
        """Samples in each class."""
        return tuple(torch.bincount(self.values, minlength=len(self.classes)).tolist()) if self.classes else ()

    @property
    def chance(self) -> float:
        """Score of the best constant answer: the largest share of a class, or 0 for R²."""
        return max(self.counts) / len(self) if self.classes else 0.0

    @property
    def columns(self) -> Tensor:
        """One-hot vectors or numbers, shape (samples, columns), in float64."""
        if self.classes:
            return torch.nn.functional.one_hot(self.values, len(self.classes)).double()
        return self.values.reshape(len(self), -1)

    @property
    def variance(self) -> float:
        """Mean squared distance of the columns from their mean."""
        columns = self.columns
        return float((columns - columns.mean(0)).square().sum(1).mean())

    def of(self, rows: Tensor) -> Targets:
        """The labels of some of the samples.

        Parameters
        ----------
        rows : Tensor of shape (samples,)
            Indices of samples.

        Returns
        -------
        Targets
            The selected labels, with the same classes.
        """
        return Targets(self.values[rows], self.classes)

    def __repr__(self) -> str:
        if not self.classes:
            return f"Targets({len(self)} samples, numbers)"
        return f"Targets({len(self)} samples, {len(self.classes)} classes, largest share {self.chance:.0%})"


@dataclass(frozen=True)
class Score:
    """How good predictions are, with the error that the number of samples leaves.

    Attributes
    ----------
    value : Estimate
        Accuracy, or R² for numbers.
    balanced : Estimate or None
        Mean of the classes' own accuracies; None for numbers.
    per_class : dict of str to Estimate or None
        Share of the samples of a class that are recognised; None for a class of fewer than 5 samples.
    chance : float
        Score of the best constant answer.
    """

    value: Estimate
    balanced: Estimate | None
    per_class: dict[str, Estimate | None]
    chance: float


def score_of(targets: Targets, predictions: Tensor) -> Score:
    """Score of predictions: accuracy of the largest column, or R² for numbers.

    Parameters
    ----------
    targets : Targets
        The true labels.
    predictions : Tensor of shape (samples, columns)
        A prediction for each column of ``targets.columns``, made without the sample.

    Returns
    -------
    Score
        Standard errors are those of the samples: √(a(1 − a)/n) for an accuracy a.

    Examples
    --------
    Three of four are right.

    >>> targets = Targets(torch.tensor([0, 0, 1, 1]), ("a", "b"))
    >>> float(score_of(targets, torch.tensor([[1.0, 0], [1, 0], [0, 1], [1, 0]])).value)
    0.75
    """
    n = len(targets)
    if not targets.classes:
        return Score(explained_share(targets, predictions), None, {}, 0.0)
    right = (predictions.argmax(1) == targets.values).double()
    per_class: dict[str, Estimate | None] = {}
    for j, (name, count) in enumerate(zip(targets.classes, targets.counts, strict=True)):
        enough = count >= FEWEST_IN_CLASS
        per_class[name] = _share(float(right[targets.values == j].mean()), count) if enough else None
    scored = [e for e in per_class.values() if e is not None]
    balanced = None
    if scored:
        spread = math.sqrt(math.fsum(e.stderr**2 for e in scored)) / len(scored)
        balanced = Estimate(math.fsum(scored) / len(scored), spread, n)
    return Score(_share(float(right.mean()), n), balanced, per_class, targets.chance)


def _share(share: float, n: int) -> Estimate:
    # the error of a share of 0 or 1 is not zero: that of one more sample of the other kind
    inside = min(max(share, 1 / (n + 2)), 1 - 1 / (n + 2))
    return Estimate(share, math.sqrt(inside * (1 - inside) / n), n)


def explained_share(targets: Targets, predictions: Tensor) -> Estimate:
    """R² over all columns, of classes as well: 1 − error/(error of the mean of the other samples).

    Parameters
    ----------
    targets : Targets
        The true labels.
    predictions : Tensor of shape (samples, columns)
        Made without the sample.

    Returns
    -------
    Estimate
        With the error of the number of samples.
    """
    n, columns = len(targets), targets.columns
    error = (columns - predictions).square().sum(1)
    spread = (columns - columns.mean(0)).square().sum(1) * (n / (n - 1)) ** 2
    share = float(error.mean() / spread.mean())
    slope = (error - share * spread) / spread.mean()  # of a ratio of means, sample by sample
    return Estimate(1 - share, float(slope.std()) / math.sqrt(n), n)


# --- bad input --------------------------------------------------------------------------------------------------------


def targets_of(y: Any, samples: int | None = None, *, target: Target | None = None) -> Targets:
    """Labels as classes or numbers, checked.

    Parameters
    ----------
    y : array of shape (samples,), or (samples, outputs) for numbers
        Whole numbers are classes, other numbers are numbers.
    samples : int, optional
        Number of samples they belong to.
    target : {"classes", "numbers"}, optional
        What is meant; needed for floating-point labels with few values.

    Returns
    -------
    Targets
        The labels.

    Raises
    ------
    NetgrainError
        For labels that are not finite, all the same, too few, or that could be meant in two ways.

    Examples
    --------
    >>> targets_of([0, 1] * 10).columns[:2].tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    if target not in (None, "classes", "numbers"):
        raise NetgrainError(f"target expects 'classes', 'numbers' or None, found {target!r}.")
    y = tensor_of(y, "y").cpu()
    if y.dim() == 2 and y.shape[1] == 1:
        y = y[:, 0]
    if y.dim() not in (1, 2) or (samples is not None and len(y) != samples) or y.numel() == 0:
        expected = "one label" if samples is None else f"{samples} labels, one"
        raise NetgrainError(f"y has shape {tuple(y.shape)}, expected {expected} for each sample of X.")
    if y.is_complex():
        raise NetgrainError(f"y holds complex numbers ({y.dtype}), expected classes or real numbers.")
    if y.is_floating_point() and not bool(torch.isfinite(y).all()):
        bad = ~torch.isfinite(y.reshape(len(y), -1)).all(1)
        raise NetgrainError(
            f"y holds {int(bad.sum())} labels that are NaN or Inf, the first at index {int(bad.nonzero()[0])}; "
            "drop those samples."
        )
    if len(y) < FEWEST_SAMPLES:
        raise NetgrainError(f"learnability needs at least {FEWEST_SAMPLES} samples, found {len(y)}; add samples.")
    kind = target or _kind(y)
    return _classes(y) if kind == "classes" else _numbers(y)


def _kind(y: Tensor) -> Target:
    if not y.is_floating_point() and y.dim() == 1:
        return "classes"
    if values := may_be_classes(y):
        raise NetgrainError(
            f"y holds {y.dtype} of shape {tuple(y.shape)} with only {values} different values, which may be classes or "
            "numbers; pass target='classes' (after y.argmax(1), if they are one-hot) or target='numbers'."
        )
    return "numbers"


def _classes(y: Tensor) -> Targets:
    if y.dim() != 1:
        raise NetgrainError(f"y has shape {tuple(y.shape)}, expected one class for each sample; pass y.argmax(1).")
    names, positions, counts = torch.unique(y, return_inverse=True, return_counts=True)
    if len(names) == 1:
        raise NetgrainError(
            f"all {len(y)} samples have the label {names[0].item():g}; expected at least two classes: add samples of "
            "another class."
        )
    if len(names) > MOST_CLASSES or int(counts.max()) == 1:
        raise NetgrainError(
            f"y holds {len(names)} different classes for {len(y)} samples, expected at most {MOST_CLASSES} with "
            f"several samples each; pass target='numbers' if they are numbers, or merge classes ({RENUMBER})."
        )
    if y.is_floating_point():
        return Targets(positions, tuple(f"{v:g}" for v in names.tolist()))
    return Targets(positions, tuple(str(int(v)) for v in names.tolist()))


def _numbers(y: Tensor) -> Targets:
    y = y.double()
    if bool((y == y[0]).all()):
        raise NetgrainError(
            f"all {len(y)} samples have the same target {y.flatten()[0].item():g}; expected them to differ."
        )
    return Targets(y)


def check_features(X: Tensor) -> Tensor:
    """Samples in floating point, finite, and not all the same.

    Parameters
    ----------
    X : Tensor of shape (samples, *input_shape)
        Samples.

    Returns
    -------
    Tensor of the shape of X
        On the CPU.
    """
    X = checked_samples(X).cpu()
    if bool((X[:1] == X).all()):
        raise NetgrainError(f"all {len(X)} samples of X are the same; expected features that differ between samples.")
    return X
