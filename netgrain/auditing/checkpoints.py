"""A trained network beside fresh ones of its family: what it reacts to, where it is steep, how far it moved."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from netgrain.auditing.pattern_sizes import part_energies, part_names
from netgrain.auditing.ratios import ratio_of_means
from netgrain.auditing.slopes import Slopes, slopes_of
from netgrain.geometry.estimate import Estimate, mean_of
from netgrain.runtime.randomness import generator_for

EXACT_OUTPUTS = 10  # up to here each output has a row of its own, where the budget allows it
VECTORS = 2  # random rows of a sample, where it does not
SLOPES_WORK, ANSWERS_WORK, MAPS_WORK = 3e11, 3.2e11, 2.2e11  # floating-point operations: 5 to 12 s of one core each
MOST_SAMPLES, FEWEST_SAMPLES = 200, 8  # at which slopes are taken
MOST_ANSWERS, FEWEST_ANSWERS = 2000, 32
MOST_MAPS, FEWEST_MAPS, PASSES = 16, 4, 10  # images, and passes that the map of one takes
MEMBERS, FEWER_MEMBERS = 4, 2  # fresh networks beside it, each at a quarter as many samples


@dataclass(frozen=True)
class Effort:
    """How much is looked at: counts by a fixed cost model, never by the clock."""

    answers: int  # samples that are answered
    samples: int  # at which the slopes of the trained network are taken
    fresh_samples: int  # and of each fresh one
    members: int
    vectors: int | None  # rows of a sample; None: one for each output
    maps: int  # images with a map

    @classmethod
    def for_network(cls, operations: float, outputs: int) -> Effort:
        """What the budget allows for a network of so many operations and outputs.

        >>> Effort.for_network(1e6, 10)
        Effort(answers=2000, samples=200, fresh_samples=50, members=4, vectors=None, maps=16)
        >>> Effort.for_network(3.5e9, 10)
        Effort(answers=91, samples=19, fresh_samples=8, members=2, vectors=2, maps=6)
        """
        rows, members, vectors = outputs, MEMBERS, None
        if outputs > EXACT_OUTPUTS or operations * (1 + outputs) * MOST_SAMPLES * (1 + MEMBERS / 4) > SLOPES_WORK:
            rows, members, vectors = VECTORS, FEWER_MEMBERS, VECTORS
            if outputs <= VECTORS:
                rows, vectors = outputs, None
        count = SLOPES_WORK / (operations * (1 + rows) * (1 + members / 4))
        samples = int(min(MOST_SAMPLES, max(FEWEST_SAMPLES, count)))
        return cls(
            answers=int(min(MOST_ANSWERS, max(FEWEST_ANSWERS, ANSWERS_WORK / operations))),
            samples=samples,
            fresh_samples=max(FEWEST_SAMPLES, samples // 4),
            members=members,
            vectors=vectors,
            maps=int(min(MOST_MAPS, max(FEWEST_MAPS, MAPS_WORK / (PASSES * operations)))),
        )


@dataclass(frozen=True, eq=False)
class Steepest:
    """The steepest of some samples, and how much of the whole they hold."""

    order: Tensor  # (count,) places among the samples, the steepest first
    values: Tensor  # (count,) ‖J‖² relative to the median sample
    top_share: Estimate  # of the whole steepness in the steepest tenth of the samples


def steepest(values: Tensor, count: int) -> Steepest:
    """The samples with the largest ‖J‖².

    >>> steepest(torch.tensor([1.0, 9.0, 1.0, 3.0, 1.0]), 2).order.tolist()
    [1, 3]
    """
    order = values.argsort(descending=True, stable=True)
    top = torch.zeros(len(values), dtype=torch.float64)
    top[order[: max(1, round(len(values) / 10))]] = 1.0
    share = ratio_of_means([values * top], [values])
    middle = float(values.median()) or 1.0
    return Steepest(order[:count], values[order[:count]] / middle, share)


@dataclass(frozen=True)
class Part:
    """Shares of one part of the input space: of what the trained network reacts to, of fresh ones, of the data."""

    name: str
    trained: Estimate
    fresh: Estimate
    data: Estimate


def parts_of(trained: Slopes, fresh: Sequence[Slopes], X: Tensor, features: Sequence[str] = ()) -> list[Part]:
    """How reactions and data are spread over the parts of `part_names`; none where there are none."""
    names = part_names(trained.shape, features)
    if not names:
        return []
    centred = (X - X.mean(0)).flatten(1)
    after, data = trained.parts(), part_energies(centred, trained.shape)
    before = torch.stack([s.parts().mean(0) for s in fresh]) if fresh else torch.full((1, len(names)), math.nan)
    return [
        Part(
            name,
            ratio_of_means([after[:, b]], [after.sum(1)]),
            ratio_of_means([before[:, b]], [before.sum(1)]),
            ratio_of_means([data[:, b]], [data.sum(1)]),
        )
        for b, name in enumerate(names)
    ]


def random_samples(X: Tensor, count: int, seed: int) -> Tensor:
    """Places of so many random samples, ascending; those of a smaller count are among those of a larger one."""
    return torch.randperm(len(X), generator=generator_for(seed, "audit trained"))[:count].sort().values


def slopes_beside(
    model: nn.Module, fresh: Sequence[nn.Module], X: Tensor, effort: Effort, *, seed: int = 0
) -> tuple[Slopes, list[Slopes]]:
    """The slopes of the trained network at these samples, and of each fresh one at the first of them."""
    few = X[:: max(1, len(X) // effort.fresh_samples)][: effort.fresh_samples]
    return slopes_of(model, X, vectors=effort.vectors, seed=seed), [
        slopes_of(one, few, vectors=effort.vectors, seed=seed + i) for i, one in enumerate(fresh)
    ]


def weight_distance(trained: nn.Module, fresh: Sequence[nn.Module]) -> Estimate:
    """How far the weights are from fresh ones, relative to how far fresh ones are from each other.

    √(mean ‖θ − θ_i‖² / mean ‖θ_i − θ_j‖²) over the parameters that are drawn at random. It is 1 for a network that is
    fresh itself, or that moved less than its own draw was large; constants, such as zero biases, do not count.

    >>> fresh = [nn.Linear(100, 100) for _ in range(3)]
    >>> 0.98 < weight_distance(nn.Linear(100, 100), fresh) < 1.02
    True
    """
    if len(fresh) < 2:
        return Estimate(math.nan, math.nan, 0)
    own = dict(trained.named_parameters())
    drawn = [dict(one.named_parameters()) for one in fresh]
    away, apart = [], []
    for i, weights in enumerate(drawn):
        other = drawn[(i + 1) % len(drawn)]
        random = [n for n, w in weights.items() if not torch.equal(w, other[n])]
        away.append(sum(_squared(own[n], weights[n]) for n in random))
        apart.append(sum(_squared(other[n], weights[n]) for n in random))
    ratio = ratio_of_means([torch.tensor(away)], [torch.tensor(apart)])
    if not float(ratio) > 0:
        return ratio
    return Estimate(math.sqrt(ratio), ratio.stderr / (2 * math.sqrt(ratio)), ratio.n)


def _squared(a: Tensor, b: Tensor) -> float:
    return float((a.detach().cpu().double() - b.detach().cpu().double()).square().sum())


def over_members(values: Sequence[float]) -> Estimate:
    """Mean over fresh networks with the error over them."""
    return mean_of(torch.tensor(list(values), dtype=torch.float64))
