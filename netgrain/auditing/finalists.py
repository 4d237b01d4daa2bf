"""The last choice among changes: a short training of the best few.

Kernels of random networks judge every change in a moment, and see nothing of what training makes of it: features that
must be learnt, weights that start too small or too large. So the best few changes and the network as it is are trained
for the same few steps on one half of the samples, and judged on the other half: by their own answers, and by what their
features tell.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from netgrain.auditing.known_network import Change
from netgrain.auditing.paired_gains import Gain, Paired, error_of_mean
from netgrain.families.members import Family
from netgrain.families.reading import read
from netgrain.families.sizes import operations
from netgrain.learning.trials import BATCH, FEW_RATES, FEWEST_STEPS, OVERHEAD, RATES, STEPS, trial_training
from netgrain.runtime.errors import NetgrainError

BUDGET = 1e12  # operations of all trainings: about half a minute of one core
MOST, ENOUGH = 8, 4  # changes that are trained, and so many that fewer rates or steps pay
UNSEEN = ("initial gain", "norm")  # kinds whose effect on training kernels cannot see: the best of each is trained
# Over 142 differences between two networks on one of validity's tuning tasks least squares gives 0.91 for a trial's and
# 0.04 for a kernel's. A trial here is judged on a quarter of the samples: it counts for less, and the kernel for more.
TRAINED, UNTRAINED = 0.7, 0.1
# of such a gain by what a whole training does: 91 % of those differences are within 1.645 times that
FIXED_ERROR, ERROR_SHARE = 0.03, 0.35

Steps = tuple[tuple[float, ...], int]  # learning rates, and updates for each


@dataclass(frozen=True, eq=False)
class Finals:
    """Changes that were trained, with gains that count it, and what was spent.

    Attributes
    ----------
    gains : dict of str to Gain
        By change.
    failed : tuple of str
        Changes with which training diverged at every rate.
    rates, steps : int
        Learning rates, and updates for each.
    """

    gains: Mapping[str, Gain]
    failed: tuple[str, ...] = ()
    rates: int = 0
    steps: int = 0


def finals(
    make: Family, found: Sequence[tuple[Change, Gain]], over: Paired, *, budget: float | None = BUDGET
) -> Finals:
    """Train the network as it is and the best changes, as many as the budget allows.

    Parameters
    ----------
    make : callable
        The family as it is.
    found : sequence of (Change, Gain)
        Changes with the gains that kernels predict.
    over : Paired
        The samples they were judged on.
    budget : float or None
        Operations of all trainings; None for four times the usual.

    Returns
    -------
    Finals
        Empty where the budget is not enough for one change.
    """
    chosen, (rates, steps) = affordable(make, contenders(found), over, 4 * BUDGET if budget is None else budget)
    if not chosen:
        return Finals({})
    plain = _plain(make, over, (rates, steps))
    gains, failed = {}, []
    for change, by_kernel in chosen:
        try:
            after = trained_goodness(change.family, over, (rates, steps))
            choosing = after if change.choosing is None else trained_goodness(change.choosing, over, (rates, steps))
        except NetgrainError:  # diverged at every rate
            failed.append(change.change)
            continue
        gains[change.change] = final_gain(plain, after, choosing, by_kernel, over)
    return Finals(gains, tuple(failed), len(rates), steps)


def contenders(found: Sequence[tuple[Change, Gain]]) -> list[tuple[Change, Gain]]:
    """The best by kernels, and the best of each kind that kernels cannot judge, in the order of the kernels."""
    ordered = sorted(found, key=lambda row: -row[1].chosen_by)
    unseen = [next((row for row in ordered if row[0].kind == kind), None) for kind in UNSEEN]
    extra = [row for row in unseen if row is not None]
    best = [row for row in ordered if row not in extra][: MOST - len(extra)]
    # what kernels cannot judge comes early, so that a small budget does not leave it out
    return [*best[:2], *extra, *best[2:]]


def affordable(
    make: Family, wanted: Sequence[tuple[Change, Gain]], over: Paired, budget: float
) -> tuple[list[tuple[Change, Gain]], Steps]:
    """Those of the changes that the budget allows, and rates and steps: fewer of them if that leaves room for more."""
    each = [_step(change.family, over) * (1 if change.choosing is None else 2) for change, _ in wanted]
    options: list[Steps] = [(RATES, STEPS), (FEW_RATES, STEPS), (FEW_RATES, FEWEST_STEPS)]
    room: list[tuple[Change, Gain]] = []
    for option in options:
        count = len(option[0]) * option[1]
        left = budget - count * _step(make, over)
        room = []
        for row, step in zip(wanted, each, strict=True):
            if count * step <= left:
                left -= count * step
                room.append(row)
        if len(room) >= min(ENOUGH, len(wanted)):
            break
    return room, option


def _step(family: Family, over: Paired) -> float:
    """Operations of one update."""
    return BATCH * (3 * operations(read(family, over.X.shape[1:], over.seed)) + OVERHEAD)


def trained_goodness(family: Family, over: Paired, how: Steps) -> Tensor:
    """What each sample adds to a score, (samples,); NaN for those that train."""
    rates, steps = how
    found = trial_training(
        family, over.X, over.targets, rates=rates, steps=steps, groups=over.groups, seed=over.seed, progress=False
    )
    # features may be good though the network cannot use them, and a network may lack the steps that its features need
    read_out, own = (_goodness(over, found.rows, p) for p in (found.predictions, found.own))
    return (read_out + own) / 2


def _plain(make: Family, over: Paired, how: Steps) -> Tensor:
    """The same of the network as it is; one that cannot be trained is as good as guessing."""
    try:
        return trained_goodness(make, over, how)
    except NetgrainError:
        columns = over.targets.columns
        return _goodness(over, torch.arange(len(columns)), columns.mean(0).expand_as(columns))


def _goodness(over: Paired, rows: Tensor, predictions: Tensor) -> Tensor:
    targets = over.targets.of(rows)
    out = torch.full((len(over.targets),), float("nan"), dtype=torch.float64)
    if targets.classes:
        out[rows] = (predictions.argmax(1) == targets.values).double()
    else:
        out[rows] = 1 - (targets.columns - predictions).square().sum(1) / over.targets.variance
    return out


def final_gain(plain: Tensor, after: Tensor, choosing: Tensor, by_kernel: Gain, over: Paired) -> Gain:
    """A gain from short trainings and kernels together: chosen by one half of the samples, measured on the other."""
    measured = _both(after - plain, over.measuring)
    value = TRAINED * float(measured.mean()) + UNTRAINED * by_kernel.value
    chose = _both(choosing - plain, over.choosing)
    return Gain(
        value,
        # the same samples are behind both, so that errors may add up
        TRAINED * error_of_mean(measured) + UNTRAINED * by_kernel.samples,
        UNTRAINED * by_kernel.members,
        (FIXED_ERROR**2 + (ERROR_SHARE * value) ** 2) ** 0.5,
        TRAINED * float(chose.mean()) + UNTRAINED * by_kernel.chosen_by,
        len(measured),
    )


def _both(difference: Tensor, rows: Tensor) -> Tensor:
    """Differences on those of the rows that did not train."""
    there = difference[rows]
    return there[there.isfinite()]
