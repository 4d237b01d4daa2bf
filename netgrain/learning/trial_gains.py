"""What a trial training says beside a kernel: its gain on the same samples, a warning, and one number from both."""

from __future__ import annotations

import math

from torch import Tensor

from netgrain.geometry.estimate import Estimate
from netgrain.learning.targets import Targets

BEYOND = 1.645  # errors of a difference that is no accident: one-sided, 95%
# chosen on 74 pairs of 16 tuning tasks: the four that the kernel underrated by 10 points or more gained that much,
# and four of the 70 others
LEARNT = 0.05
GROWTH = 0.5  # share of what a kernel gains by the samples that trained which a trained network gains, too; same pairs


def gain_of(targets: Targets, after: Tensor, before: Tensor) -> Estimate:
    """Difference of two scores on the same samples, with its error sample by sample.

    Parameters
    ----------
    targets : Targets
        The true labels.
    after, before : Tensor of shape (samples, columns)
        Predictions.

    Returns
    -------
    Estimate
        In accuracy or R².

    Examples
    --------
    Of four samples one more is right.

    >>> import torch
    >>> targets = Targets(torch.tensor([0, 0, 1, 1]), ("a", "b"))
    >>> zero, one = torch.tensor([1.0, 0.0]), torch.tensor([0.0, 1.0])
    >>> float(gain_of(targets, torch.stack([zero, zero, one, zero]), torch.stack([zero, one, one, zero])))
    0.25
    """
    n, columns = len(targets), targets.columns
    if targets.classes:
        right = [(p.argmax(1) == targets.values).double() for p in (after, before)]
        gained = right[0] - right[1]
    else:
        spread = (columns - columns.mean(0)).square().sum(1).mean()
        gained = ((before - columns).square().sum(1) - (after - columns).square().sum(1)) / spread
    # the error of a difference that no sample shows is not zero: that of one sample that changed
    return Estimate(float(gained.mean()), max(float(gained.std()), 1 / math.sqrt(n)) / math.sqrt(n), n)


def learnt_features(gain: Estimate) -> bool:
    """Whether a trial gained so much over the kernel that features must have been learnt.

    Parameters
    ----------
    gain : Estimate
        Of a trial.

    Returns
    -------
    bool
        Whether it is at least five points and no accident.
    """
    return float(gain) >= LEARNT and float(gain) > BEYOND * gain.stderr


def combined(kernel: float, trial: float, gain: float) -> float:
    """One score from the kernel's and the trial's.

    The trial's features came from half of the samples and were read out by the other half. All samples teach a kernel
    something more, kernel − (trial − gain), and a trained network about half of that.

    Parameters
    ----------
    kernel : float
        Score of the kernel with all samples.
    trial, gain : float
        Score of the trial, and by how much it is above the kernel on the same samples.

    Returns
    -------
    float
        At most 1.

    Examples
    --------
    The kernel reads out 70% with half of the samples and 74% with all; training reaches 80% with half of them.

    >>> round(combined(0.74, 0.8, 0.1), 3)
    0.82
    """
    return min(trial + GROWTH * (kernel - (trial - gain)), 1.0)
