"""A short trial training: what a kernel at initialisation cannot see, features that are learnt, shows in a few steps.

Two designs:

    80 : 20   four fifths of the samples train, the score is that of the network on the last fifth
    halves    one half trains; the features of all its layers are read out by leave-one-out on the other half

Several learning rates are tried, each for the same number of steps, which a cost model sets. The best is the one with
the least squared error on the samples that did not train; where it is the smallest or largest rate, the result says so.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from netgrain.families.members import Family, forward, model_dtype
from netgrain.families.reading import Reading, read
from netgrain.families.sizes import operations
from netgrain.geometry.estimate import Estimate
from netgrain.learning.decompositions import Features, part_of
from netgrain.learning.layer_features import feature_plan, layer_features
from netgrain.learning.layer_grams import layer_gram
from netgrain.learning.learning_curves import scored_predictions
from netgrain.learning.leave_one_out import leave_one_out
from netgrain.learning.targets import Targets, score_of
from netgrain.learning.trial_gains import gain_of, learnt_features
from netgrain.runtime.errors import NetgrainError
from netgrain.runtime.progress import Bar
from netgrain.runtime.randomness import generator_for
from netgrain.training.checks import evaluating
from netgrain.training.settings import Settings, Trained
from netgrain.training.trained_members import train_member

Design = Literal["80:20", "halves"]
DESIGNS: dict[Design, float] = {"80:20": 0.8, "halves": 0.5}  # share of the samples that train
RATES = (3e-4, 1e-3, 3e-3, 1e-2)  # of Adam
BATCH = 50
FEW_RATES = (1e-3, 3e-3)  # where all of them cost too much: more steps show more than more rates
STEPS, FEWEST_STEPS = 300, 150
UNASKED, ASKED = (
    1e11,
    1e12,
)  # floating-point operations of all rates together: some seconds, at most a minute of one core
OVERHEAD = 3e5  # operations that a step costs for each sample of a small network, whatever its size
FITTED = 0.95  # training score below it: the network did not fit its samples
MOST_SCORED = 2500  # samples that score it: half of what a kernel is decomposed for
AT_ONCE = 256  # samples of a forward pass


@dataclass(frozen=True)
class Trial:
    """What a short training reached.

    Attributes
    ----------
    score : Estimate
        On samples that did not train, with the error of their number.
    measure : str
        Accuracy or R².
    design : {"80:20", "halves"}
        How samples were divided.
    rate : float
        The best learning rate.
    rates : dict of float to float or None
        Score at each rate; None where training diverged.
    steps : int
        Updates for each rate.
    trained_on : int
        Samples that trained.
    train_score : float
        On those samples, at the best rate.
    gain : Estimate or None
        Score minus what a kernel of random networks reads out of the same samples, with the error of the difference
        sample by sample; None where no kernel was given.
    """

    score: Estimate
    measure: str
    design: Design
    rate: float
    rates: dict[float, float | None]
    steps: int
    trained_on: int
    train_score: float
    gain: Estimate | None = None

    @property
    def learnt_features(self) -> bool:
        """Whether training gained so much over the kernel that features must have been learnt."""
        return self.gain is not None and learnt_features(self.gain)

    @property
    def at_edge(self) -> bool:
        """Whether the best rate is the smallest or the largest of more than two that were tried."""
        return len(self.rates) > len(FEW_RATES) and self.rate in (min(self.rates), max(self.rates))

    @property
    def fitted(self) -> bool:
        """Whether the network fitted the samples that trained."""
        return self.train_score >= FITTED

    @property
    def remarks(self) -> tuple[str, ...]:
        """Sentences on what limits the trial."""
        out = []
        if self.at_edge:
            which = "smallest" if self.rate == min(self.rates) else "largest"
            out.append(f"the best rate {self.rate:g} is the {which} that was tried; another may be better")
        if not self.fitted:
            out.append(
                f"after {self.steps} steps the network has a training {self.measure} of {self.train_score:.2f}: it is "
                "too small for these samples, or needs more steps"
            )
        return tuple(out)


def rates_and_steps(reading: Reading, budget: float = ASKED) -> tuple[tuple[float, ...], int]:
    """Learning rates and steps for each of them that a budget of operations allows.

    A step costs three forward passes (forward, and twice that backward) of a batch, and an overhead.

    Parameters
    ----------
    reading : Reading
        The network.
    budget : float
        Floating-point operations of all trainings.

    Returns
    -------
    tuple of float, int
        Four rates and 300 steps where they are cheap, else two and at most 300. Fewer than 150 steps mean that a trial
        is not worth it.
    """
    steps = budget / (BATCH * (3 * operations(reading) + OVERHEAD))  # in total
    rates = RATES if steps >= STEPS * len(RATES) else FEW_RATES
    return rates, min(STEPS, int(steps / len(rates)))


@dataclass(frozen=True, eq=False)
class TrialAnswers:
    """A trial with what it predicts for each sample that did not train.

    Attributes
    ----------
    trial : Trial
        The best rate's.
    rows : Tensor of shape (rows,)
        Samples that did not train.
    predictions : Tensor of shape (rows, columns)
        For these samples, as they are scored.
    own : Tensor of shape (rows, columns)
        What the network itself answers.
    """

    trial: Trial
    rows: Tensor
    predictions: Tensor
    own: Tensor


def trial_training(
    make: Family,
    X: Tensor,
    targets: Targets,
    *,
    design: Design = "halves",
    rates: tuple[float, ...] | None = None,
    steps: int | None = None,
    kernel: Tensor | Features | None = None,
    groups: Tensor | None = None,
    seed: int = 0,
    progress: bool | None = None,
) -> TrialAnswers:
    """Train a member for a few steps at several rates, and score it on other samples.

    Parameters
    ----------
    make : callable
        Returns a fresh module on every call, with an output for each class or number.
    X : Tensor of shape (samples, *input_shape)
        Samples.
    targets : Targets
        Their labels.
    design : {"80:20", "halves"}, default "halves"
        How the samples are split, and which part is scored.
    rates : tuple of float, optional
        Learning rates of Adam; by default two or four, as the cost model allows.
    steps : int, optional
        Updates for each rate; by default what the cost model allows, at least 150.
    kernel : Tensor of shape (samples, samples) or Features, optional
        Kernel of random networks, to compare with.
    groups : Tensor of shape (samples,), optional
        Samples with the same number stay in the same part.
    seed : int, default 0
        Seed of the split, the member and its batches.
    progress : bool, optional
        Show a progress bar; by default on a terminal, after two seconds.

    Returns
    -------
    TrialAnswers
        The trial at its best rate, and what it predicts sample by sample.

    Raises
    ------
    NetgrainError
        If the network does not fit the labels, or training diverges at every rate.
    """
    if design not in DESIGNS:
        raise NetgrainError(f"design expects {' or '.join(map(repr, DESIGNS))}, found {design!r}.")
    reading = read(make, X.shape[1:], seed)
    affordable, most = rates_and_steps(reading)
    rates, steps = rates or affordable, max(FEWEST_STEPS, most) if steps is None else steps
    A, B = _divided(len(X), groups, DESIGNS[design], seed)
    B = B[:MOST_SCORED]
    y, scale = _training_targets(targets, A)
    found: dict[float, Judged | None] = {}
    with Bar("trial training", len(rates), progress) as bar:
        for rate in rates:
            settings = Settings(
                optimizer="adam", lr=rate, steps=steps, batch=BATCH, loss="cross-entropy" if targets.classes else "mse"
            )
            trained = train_member(make, X[A], y[A], settings, seed=seed, i=0)
            found[rate] = (
                None if trained.diverged else _judged(trained, reading, X, targets, scale, (A, B), groups, design)
            )
            bar.advance()
    good = {rate: result for rate, result in found.items() if result is not None}
    if not good:
        raise NetgrainError(f"the trial training diverged at every rate ({', '.join(f'{r:g}' for r in rates)}).")
    best = min(good, key=lambda rate: good[rate].squared_error)
    scores = {rate: None if result is None else float(result.score) for rate, result in found.items()}
    taken = good[best]
    gain = None
    if kernel is not None:
        gain = gain_of(targets.of(B), taken.predictions, _untrained(kernel, targets, (A, B), groups, design))
    trial = Trial(taken.score, targets.measure, design, best, scores, steps, len(A), taken.train_score, gain)
    return TrialAnswers(trial, B, taken.predictions, taken.own)


def _divided(n: int, groups: Tensor | None, share: float, seed: int) -> tuple[Tensor, Tensor]:
    groups = torch.arange(n) if groups is None else groups
    count = int(groups.max()) + 1
    place = torch.randperm(count, generator=generator_for(seed, "trial training"))
    inside = place[groups] < share * count
    return inside.nonzero()[:, 0], (~inside).nonzero()[:, 0]


Scale = tuple[Tensor, Tensor] | None


def _training_targets(targets: Targets, A: Tensor) -> tuple[Tensor, Scale]:
    """What the loss takes: classes, or numbers with mean 0 and variance 1 on the samples that train."""
    if targets.classes:
        return targets.values, None
    columns = targets.columns
    mean, spread = columns[A].mean(0), columns[A].std(0).clamp(min=1e-300)
    return (columns - mean) / spread, (mean, spread)


@dataclass(frozen=True, eq=False)
class Judged:
    """A trained network on the samples that did not train, and its score on those that did."""

    squared_error: float
    score: Estimate
    predictions: Tensor  # (samples, columns), as they are scored
    own: Tensor  # (samples, columns), the network's own answers
    train_score: float


def _judged(
    trained: Trained,
    reading: Reading,
    X: Tensor,
    targets: Targets,
    scale: Scale,
    halves: tuple[Tensor, Tensor],
    groups: Tensor | None,
    design: Design,
) -> Judged:
    A, B = halves
    model, rest = trained.model(reading.make), targets.of(B)
    fit = float(score_of(targets.of(A), _answers(model, X[A], targets, scale)).value)
    own = _answers(model, X[B], targets, scale)
    if design == "80:20":
        error = float((own - rest.columns).square().sum(1).mean())
        return Judged(error, score_of(rest, own).value, own, own, fit)
    some = None if groups is None else groups[B]
    found = leave_one_out(_trained_kernel(model, X[B]), rest.columns, groups=some)
    predicted = scored_predictions(found.predictions, rest, some)
    return Judged(found.squared_error, score_of(rest, predicted).value, predicted, own, fit)


def _untrained(
    kernel: Tensor | Features,
    targets: Targets,
    halves: tuple[Tensor, Tensor],
    groups: Tensor | None,
    design: Design,
) -> Tensor:
    """What random networks predict for the samples that did not train, by as many as the trial learnt from."""
    A, B = halves
    seen = B if design == "halves" else torch.cat([A, B])
    inside, some = targets.of(seen), None if groups is None else groups[seen]
    found = leave_one_out(part_of(kernel, seen), inside.columns, groups=some)
    return scored_predictions(found.predictions, inside, some)[-len(B) :]


def _answers(model: nn.Module, X: Tensor, targets: Targets, scale: Scale) -> Tensor:
    """Probabilities of classes, or numbers on their own scale, (samples, columns)."""
    outputs = torch.cat(list(_outputs(model, X))).double()
    if scale is None:
        return outputs.softmax(1)[:, : len(targets.classes)]
    return outputs.reshape(len(X), -1) * scale[1] + scale[0]


def _outputs(model: nn.Module, X: Tensor) -> Iterator[Tensor]:
    with evaluating(model), torch.no_grad():
        for x in X.split(AT_ONCE):
            y = forward(model, x.to(model_dtype(model)))
            yield y.reshape(len(y), -1)


def _trained_kernel(model: nn.Module, X: Tensor) -> Tensor:
    """The kernel of all layers of one network as it is, (samples, samples)."""
    X = X.to(model_dtype(model))
    return layer_gram(layer_features(model, X, feature_plan(model, X[:3]), AT_ONCE), len(X))[0]
