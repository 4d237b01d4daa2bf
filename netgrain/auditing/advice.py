"""Advice: changes of a network, tried on the samples without training, and ranked by the gain that is predicted.

Each change is judged beside the network as it is (`paired_gains`), as many as a fixed number of operations allows; the
best few are trained for some steps (`finalists`). Changes are ranked by one half of samples and members; the gain that
is stated is measured on the other half.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from torch import Tensor, nn

from netgrain.auditing.advised import Advice, Row
from netgrain.auditing.alignment import align
from netgrain.auditing.catalogue import Catalogue, catalogue
from netgrain.auditing.edits import Edited
from netgrain.auditing.finalists import BUDGET as TRAINED_BUDGET
from netgrain.auditing.finalists import finals
from netgrain.auditing.known_network import Change
from netgrain.auditing.paired_gains import FEWEST_MEMBERS, Gain, Judged, Paired, cost_of, gain, judged, paired
from netgrain.families.members import Family
from netgrain.families.prepared import prepared
from netgrain.geometry.estimate import Estimate
from netgrain.geometry.spectrum import FULL_LIMIT
from netgrain.geometry.value import Geometry
from netgrain.learning.learning_curves import LearningCurve
from netgrain.learning.outcome import Learnability
from netgrain.learning.prediction_errors import track_record
from netgrain.learning.targets import FEWEST_SAMPLES, Target
from netgrain.runtime.errors import NetgrainError
from netgrain.runtime.progress import Bar

BUDGET = 4e11  # operations of all changes
USUAL = 20  # changes that the budget should be enough for
SAMPLES = (1000, 700, 500, 350, 250, 150)
MEMBERS = 8
TWICE = 2  # as many samples, for "more samples"
NO_ERROR = 1.645  # errors beyond which a change fitted on labels is offered


def advise(
    make: Family,
    X: Tensor,
    y: Tensor,
    *,
    target: Target | None = None,
    expected: Learnability | None = None,
    G: Geometry | None = None,
    samples: int | None = None,
    members: int | None = None,
    budget: float | None = BUDGET,
    trained: float | None = TRAINED_BUDGET,
    seed: int = 0,
    progress: bool | None = None,
) -> Advice:
    """Changes of a network that would raise its score, ranked by predicted gain.

    Kernels of a few random networks predict every sample from all others, with each change and without it. The best
    changes, and those whose effect kernels cannot see, are then trained for a few hundred steps on half of the samples,
    like the unchanged network, and their features predict the other half. One half of those predictions selects a
    change, the other measures its gain.

    Parameters
    ----------
    make : callable
        Returns a fresh module on every call.
    X : Tensor of shape (samples, *input_shape)
        Samples as the network gets them.
    y : Tensor of shape (samples,)
        Classes as whole numbers, or numbers.
    target : {"classes", "numbers"}, optional
        Whether y holds classes or numbers; needed for floating-point labels with few values.
    expected : Learnability, optional
        The expected score, if you have it already. It provides the score before any change, and the gain from more
        samples.
    G : Geometry, optional
        The family's geometry; `align` is tried only if you pass it.
    samples, members : int, optional
        Number of samples and of random networks behind each estimate; by default as many as the budget allows, at most
        1,000 and 8.
    budget : float, default 4e11
        Number of operations for all kernels in total; None tries the whole catalogue of changes.
    trained : float or None, default 1e12
        Number of operations for all short trainings in total; 0 skips them, None allows four times the default.
    seed : int, default 0
        All randomness depends on this seed alone.

    Returns
    -------
    Advice
        The ranking.

    Other Parameters
    ----------------
    progress : bool, optional
        Show a progress bar; by default on a terminal, after two seconds.

    Raises
    ------
    NetgrainError
        If `learnability` rejects the labels or samples.

    See Also
    --------
    learnability : The score without a change.

    Examples
    --------
    The label is which of two neighbours is larger, and the mean over both of them hides it:

    >>> import torch
    >>> X = torch.randn(200, 1, 2, generator=torch.Generator().manual_seed(0))
    >>> def make():
    ...     return nn.Sequential(nn.AvgPool1d(2), nn.Flatten(), nn.Linear(1, 16), nn.ReLU(), nn.Linear(16, 2))
    >>> found = advise(make, X, (X[:, 0, 0] > X[:, 0, 1]).long())
    >>> bool(found.first.gain.value > 0.3), found.rows[0].gain.clear, found.unfit
    (True, True, 0)
    """
    make = prepared(make, tuple(X.shape[1:]))
    over, known = to_try(make, X, y, target=target, samples=samples, members=members, budget=budget, seed=seed)
    shape = tuple(over.X.shape[1:])
    changes = [*known.changes, *aligned_changes(make, over, G)]
    _, each = cost_of(make, shape, len(over.X), over.members, seed)
    spent, left, failed = 0.0, 0, 0
    found: list[tuple[Change, Gain]] = []
    ratios: dict[str, float] = {}
    with Bar("changes", len(changes) + 2, progress) as bar:
        plain = judged(make, over)
        bar.advance()
        for change in changes:
            bar.advance(0, note=change.change)
            cost, own = cost_of(change.family, shape, len(over.X), over.members, seed)
            cost *= 2 if change.choosing is not None else 1
            if budget is not None and spent + cost > budget:
                left += 1
                continue
            spent += cost
            try:
                by_kernel = _tried(change, plain, over)
            except NetgrainError:  # features that are the same for all samples, weights that are not finite
                failed += 1
                continue
            if change.choosing is None or by_kernel.value > NO_ERROR * by_kernel.measured:
                found.append((change, by_kernel))
                ratios[change.change] = own / each
            bar.advance()
        bar.advance(0, note="short trainings")
        last = finals(make, found, over, budget=trained)
    before = _before(plain, expected)
    told = [(c, last.gains.get(c.change, g)) for c, g in found if c.change not in last.failed]
    rows = [_row(c, g, before, ratios[c.change], trained=c.change in last.gains) for c, g in told]
    if expected is not None:
        rows.append(_more_samples(expected, before))
    rows.sort(key=lambda row: (not row.trained, -row.gain.chosen_by))
    tried, unfit = len(changes) - left - failed, known.unfit + failed + len(last.failed)
    counts = (len(over.X), over.members, last.steps, last.rates)
    return Advice(tuple(rows), over.targets.measure, tried, left, unfit, budget, *counts)


def to_try(
    make: Family,
    X: Tensor,
    y: Tensor,
    *,
    target: Target | None = None,
    samples: int | None = None,
    members: int | None = None,
    budget: float | None = BUDGET,
    seed: int = 0,
) -> tuple[Paired, Catalogue]:
    """The samples that `advise` compares networks on, and the catalogue that is fitted to them; nothing is judged."""
    samples, members = settled(make, X, budget, samples=samples, members=members, seed=seed)
    over = paired(X, y, target=target, samples=max(samples, FEWEST_SAMPLES), members=members, seed=seed)
    return over, catalogue(make, over.X)


def tried_change(
    make: Family, change: Change, over: Paired, *, plain: Judged | None = None, expected: Learnability | None = None
) -> Row:
    """One change beside the network as it is: what `what_if` and an audit say of a change of the user's."""
    shape = tuple(over.X.shape[1:])
    plain = judged(make, over) if plain is None else plain
    found = gain(plain, judged(change.family, over))
    _, own = cost_of(change.family, shape, len(over.X), over.members, over.seed)
    _, each = cost_of(make, shape, len(over.X), over.members, over.seed)
    return _row(change, found, _before(plain, expected), own / each)


def scores_of(
    make: Family,
    change: Change,
    X: Tensor,
    y: Tensor,
    *,
    target: Target | None = None,
    samples: int | None = None,
    seed: int = 0,
) -> Row:
    """Expected scores before and after one change, on as many samples as the budget of a catalogue allows."""
    n, members = settled(make, X, BUDGET, samples=samples, seed=seed)
    over = paired(X, y, target=target, samples=max(n, FEWEST_SAMPLES), members=members, seed=seed)
    return tried_change(make, change, over)


def settled(
    make: Family,
    X: Tensor,
    budget: float | None,
    *,
    samples: int | None = None,
    members: int | None = None,
    seed: int = 0,
) -> tuple[int, int]:
    """Samples and members such that the budget is enough for the usual number of changes."""
    if budget is None:
        return samples or SAMPLES[0], members or MEMBERS
    wishes = [(n, m) for n in SAMPLES for m in (MEMBERS, FEWEST_MEMBERS)]
    wishes = [(samples or n, members or m) for n, m in wishes]
    for n, m in wishes:
        if USUAL * cost_of(make, tuple(X.shape[1:]), min(n, len(X)), m, seed)[0] <= budget:
            return n, m
    return wishes[-1]


def _tried(change: Change, plain: Judged, over: Paired) -> Gain:
    after = judged(change.family, over)
    return gain(plain, after, choosing=None if change.choosing is None else judged(change.choosing, over))


def aligned_changes(make: Family, over: Paired, G: Geometry | None) -> Iterator[Change]:
    """`align`, fitted on the labels of one half for the other."""
    if G is None or not over.targets.classes or G.d != over.X[0].numel() or G.d > FULL_LIMIT:
        return  # of larger inputs nobody looks at all directions
    turned: list[nn.Module] = []
    for rows in (over.choosing, over.measuring):
        try:
            turned.append(align(G, over.X[rows], over.targets.values[rows], seed=over.seed))
        except NetgrainError:  # no direction carries the label
            return
    measured, choosing = (Edited(make, {}, module) for module in turned)
    says = "the label turned onto the directions the network reacts to"
    yield Change(says, "put align(G, X_train, y_train) before the network", "align", measured, choosing)


def _before(plain: Judged, expected: Learnability | None) -> Estimate:
    """The score without a change: the audit's own where there is one."""
    if expected is not None:
        return expected.score
    score = plain.score
    return Estimate(float(score), math.hypot(score.stderr, track_record().kernel.standard), score.n)


def _row(change: Change, found: Gain, before: Estimate, ratio: float, *, trained: bool = False) -> Row:
    after = _after(before, found)
    return Row(change.change, change.action, change.kind, found, before, after, ratio, change.family, trained)


def _after(before: Estimate, found: Gain) -> Estimate:
    return Estimate(min(float(before) + found.value, 1.0), math.hypot(before.stderr, found.stderr), before.n)


def _more_samples(expected: Learnability, before: Estimate) -> Row:
    value, error = gain_by_samples(expected.curve, TWICE)
    n = expected.curve.sizes[-1]
    found = Gain(value, error, 0.0, 0.0, value, expected.curve.scores[-1].n)
    more = (TWICE - 1) * expected.about.given if n == expected.about.given else TWICE * n - n
    return Row(
        f"{TWICE * n:,} samples instead of {n:,}",
        f"collect about {more:,} more samples",
        "samples",
        found,
        before,
        _after(before, found),
        float(TWICE),
        trained=True,
    )


def gain_by_samples(curve: LearningCurve, times: int) -> tuple[float, float]:
    """What so many times the samples add by the learning curve, with the error of its points and of its law."""
    n = curve.sizes[-1]
    gains = []
    for floor in (True, False):
        laws = curve.laws(floor=floor)
        gains.append(laws.at(n) - laws.at(times * n))
    value = float(gains[0][0] + gains[1][0]) / 2
    spread = float(((gains[0] + gains[1])[1:] / 2).std())
    return value, math.hypot(spread, float((gains[0][0] - gains[1][0]).abs()) / 2)
