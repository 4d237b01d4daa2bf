"""What a change is worth: leave-one-out scores of two networks over the same samples, sample by sample.

Samples and random networks (members) are halved. Changes are chosen by one half of both and measured by the other:
the gain of the best of many would otherwise be too large, because it was chosen for its luck. Every sample is predicted
from all others in both halves; what is halved is which predictions count, and which members make the kernel.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from netgrain.families.members import Family
from netgrain.families.reading import read
from netgrain.families.sizes import operations
from netgrain.families.trace import Trace
from netgrain.geometry.estimate import Estimate
from netgrain.learning.kernel_value import KernelKind
from netgrain.learning.kernels import kernel
from netgrain.learning.learning_curves import scored_predictions
from netgrain.learning.leave_one_out import leave_one_out, predictions_at
from netgrain.learning.prediction_errors import MOST_SAMPLES
from netgrain.learning.predictions import drawn_samples
from netgrain.learning.targets import Target, Targets, check_features, targets_of
from netgrain.runtime.arguments import whole

FIXED_ERROR, ERROR_SHARE = 0.03, 0.35  # of a gain by what training does, see `model_error`
RECORD = "140 pairs of networks on 14 tuning tasks, one seed: points of accuracy predicted and reached"
BLOCKS = 4  # of members, for the jackknife
FEWEST_MEMBERS = 4  # two in each half
DECOMPOSITION = 40.0  # operations of a decomposition for each cubed sample
PASSES: dict[KernelKind, float] = {"layers": 1.0, "tangent": 6.0, "last": 1.0}
WORTH = 0.01  # of the score: a smaller gain is no reason to change anything


@dataclass(frozen=True, eq=False)
class Paired:
    """The samples that all networks are compared on, in two halves.

    Attributes
    ----------
    X : Tensor of shape (samples, *input_shape)
        In random order.
    targets : Targets
        Their labels.
    groups : Tensor of shape (samples,)
        Equal samples have equal numbers.
    members : int
        Random networks of every family, at least 4.
    seed : int
        Member i of every family depends on ``(seed, i)`` alone.
    """

    X: Tensor
    targets: Targets
    groups: Tensor
    members: int
    seed: int

    @property
    def choosing(self) -> Tensor:
        """Rows by which changes are chosen."""
        return (self.groups % 2 == 0).nonzero()[:, 0]

    @property
    def measuring(self) -> Tensor:
        """Rows by which they are measured; equal samples are in the same half."""
        return (self.groups % 2 == 1).nonzero()[:, 0]


def paired(
    X: Tensor, y: Tensor, *, target: Target | None = None, samples: int = 1000, members: int = 8, seed: int = 0
) -> Paired:
    """Samples to compare networks on: at most so many, drawn by the seed whatever their order."""
    X = check_features(X)
    drawn = drawn_samples(X, targets_of(y, len(X), target=target), samples, seed)
    return Paired(*drawn, whole("members", members, FEWEST_MEMBERS), seed)


def kinds_for(model: nn.Module) -> tuple[KernelKind, ...]:
    """Kernels that judge a network: features of all layers, and the tangent kernel where all layers are dense."""
    dense = not any(isinstance(m, nn.Conv1d | nn.Conv2d | nn.Conv3d | nn.MultiheadAttention) for m in model.modules())
    return ("layers", "tangent") if dense and any(isinstance(m, nn.Linear) for m in model.modules()) else ("layers",)


def cost_of(make: Family, shape: tuple[int, ...], samples: int, members: int, seed: int = 0) -> tuple[float, float]:
    """Operations that judging a family takes, and those of one forward pass at one sample."""
    reading = read(make, shape, seed)
    each = operations(reading)
    total = 0.0
    for kind in kinds_for(reading.model):
        total += members * samples * each * PASSES[kind] + 2 * DECOMPOSITION * samples**3
    # what cannot be traced costs what one pass of a middling network does
    return total, each if isinstance(reading.trace, Trace) else math.nan


# --- one network ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Judged:
    """How good one network is on every sample, by each half of its members.

    Attributes
    ----------
    choosing, measuring : Tensor of shape (rows,)
        For each row of that half: 1 or 0 for a class that is recognised or not, 1 − e/v for a number with squared error
        e and variance v. Their mean is the score.
    blocks : tuple of float
        Scores without one block of the measuring members each, for the jackknife.
    kind : str
        The kernel, with the smaller squared error on the choosing half.
    """

    choosing: Tensor
    measuring: Tensor
    blocks: tuple[float, ...]
    kind: str

    @property
    def score(self) -> Estimate:
        """On all samples, each by one half of the members, with the error of the samples."""
        values = torch.cat([self.choosing, self.measuring])
        return Estimate(float(values.mean()), error_of_mean(values), len(values))


def judged(make: Family, over: Paired) -> Judged:
    """Leave-one-out predictions of a family's kernels, by halves."""
    from netgrain.families.members import member

    found: list[tuple[float, Judged]] = []
    columns, halves = over.targets.columns, (over.choosing, over.measuring)
    for kind in kinds_for(member(make, over.seed, 0)):
        K = kernel(make, over.X, kind=kind, members=over.members, method="sampled", seed=over.seed, progress=False)
        assert K.parts is not None
        parts = K.parts[: over.members // 2], K.parts[over.members // 2 :]
        values, errors, ridge = [], [], 0.0
        for some, rows in zip(parts, halves, strict=True):
            loo = leave_one_out(some.mean(0), columns, groups=over.groups)
            values.append(goodness(over.targets, loo.predictions, over.groups)[rows])
            errors.append(float((columns - loo.predictions)[rows].square().sum(1).mean()))
            ridge = loo.ridge
        blocks = _jackknifed(parts[1], over, ridge)
        found.append((errors[0], Judged(values[0], values[1], blocks, kind)))
    return min(found, key=lambda pair: pair[0])[1]


def goodness(targets: Targets, predictions: Tensor, groups: Tensor | None) -> Tensor:
    """What each sample adds to a score, (samples,)."""
    shown = scored_predictions(predictions, targets, groups)
    if targets.classes:
        return (shown.argmax(1) == targets.values).double()
    columns, n = targets.columns, len(targets)
    spread = targets.variance * (n / (n - 1)) ** 2
    return 1 - (columns - shown).square().sum(1) / spread


def _jackknifed(parts: Tensor, over: Paired, ridge: float) -> tuple[float, ...]:
    """Scores without each block of members, on at most 500 of the measuring samples among themselves."""
    rows = over.measuring[:MOST_SAMPLES]
    targets, groups = over.targets.of(rows), over.groups[rows]
    whole_sum = parts.sum(0)[rows[:, None], rows]
    out = []
    for block in torch.arange(len(parts)).tensor_split(min(BLOCKS, len(parts))):
        K = (whole_sum - parts[block][:, rows[:, None], rows].sum(0)) / (len(parts) - len(block))
        out.append(float(goodness(targets, predictions_at(K, targets.columns, ridge, groups), groups).mean()))
    return tuple(out)


# --- two networks -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Gain:
    """The score of a changed network minus that of the network as it is.

    Attributes
    ----------
    value : float
        Mean difference over the measuring samples.
    samples, members, model : float
        Parts of its standard error: from the number of samples (paired), from the number of random networks (jackknife
        over paired blocks), and from what training does beyond the kernel.
    chosen_by : float
        The same difference on the choosing half, by which changes are ranked.
    n : int
        Measuring samples.

    Examples
    --------
    >>> gain = Gain(0.05, samples=0.03, members=0.0, model=0.04, chosen_by=0.06, n=100)
    >>> gain.stderr, gain.estimate.n, gain.clear
    (0.05, 100, False)
    """

    value: float
    samples: float
    members: float
    model: float
    chosen_by: float
    n: int

    @property
    def stderr(self) -> float:
        return math.sqrt(self.samples**2 + self.members**2 + self.model**2)

    @property
    def measured(self) -> float:
        """The standard error without the model's part."""
        return math.hypot(self.samples, self.members)

    @property
    def estimate(self) -> Estimate:
        return Estimate(self.value, self.stderr, self.n)

    @property
    def clear(self) -> bool:
        """Whether the 95 % interval lies above 0, and the gain is worth a change: at least one point."""
        return self.estimate.interval(0.95)[0] > 0 and self.value >= WORTH

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON: the number with its whole error, and the parts of that."""
        return {
            "value": self.value,
            "stderr": self.stderr,
            "n": self.n,
            "parts": {"samples": self.samples, "members": self.members, "model": self.model},
        }


def gain(before: Judged, after: Judged, *, choosing: Judged | None = None) -> Gain:
    """The gain of a change with its error; choosing: the changed network to choose by, where that is another one."""
    difference = after.measuring - before.measuring
    blocks = [b - a for a, b in zip(before.blocks, after.blocks, strict=True)]
    value = float(difference.mean())
    return Gain(
        value,
        error_of_mean(difference),
        _jackknife(blocks),
        model_error(value),
        float(((choosing or after).choosing - before.choosing).mean()),
        len(difference),
    )


def model_error(value: float) -> float:
    """How far gains that kernels predict are from what training gives, as a standard error.

    From differences between networks on one task, predicted and reached (RECORD): 90 % of the errors are within 1.645
    times this for predicted differences up to 10 points and beyond 20; between them the record is wider.
    """
    return math.hypot(FIXED_ERROR, ERROR_SHARE * value)


def error_of_mean(values: Tensor) -> float:
    n = len(values)
    # values that are all the same have an error, too: that of one more sample with another one
    return math.sqrt(max(float(values.var()) if n > 1 else 1.0, 1 / (n + 2)) / n)


def _jackknife(found: list[float]) -> float:
    if len(found) < 2:
        return 0.0
    mean = math.fsum(found) / len(found)
    return math.sqrt((len(found) - 1) / len(found) * math.fsum((f - mean) ** 2 for f in found))
