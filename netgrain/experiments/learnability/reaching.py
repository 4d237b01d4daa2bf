"""The score a network reaches: trained until it fits its samples or stops getting better, at the best of many rates.

The optimiser is AdamW unless another one is asked for.

An epoch whose running accuracy is at least 99 %, or after which the loss has not fallen by 1 % for `patience` epochs,
ends the training; a few epochs at a rate that falls to zero follow. The rate is the one with the best validation
accuracy; while it is the smallest or largest that was tried, the next one is tried as well.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import torch
from torch import Tensor, nn

from netgrain.families.members import Family
from netgrain.training.checks import evaluating
from netgrain.training.loop import BETAS, fresh
from netgrain.training.settings import minibatch_order

Augmentation = Callable[[Tensor, tuple[int, int, int]], Tensor]  # samples of a batch and (seed, epoch, step) → samples

FITTED = 0.99  # running accuracy over an epoch
LESS = 0.99  # a loss below that share of the best one is progress
DECAY = 0.01  # of weights, per step and rate
BATCH = 50
MOMENTUM, RIDGE = 0.9, 5e-4  # of SGD; its weight decay is part of the gradient
SMALLEST, LARGEST = 1e-5, 0.2  # rates that are never left
AT_ONCE = 500


class Optimizer(Protocol):
    """What a training needs of an optimiser."""

    def update(self, gradients: Sequence[Tensor | None], rate: float) -> None:
        """One step; a tensor without a gradient stays."""
        ...


class AdamW:
    """AdamW as in torch.optim, without the seconds that torch's own takes in a fresh process."""

    def __init__(self, tensors: Sequence[Tensor], *, decay: float = DECAY) -> None:
        self.tensors, self.decay, self.steps = list(tensors), decay, 0
        self.first = [torch.zeros_like(t) for t in self.tensors]
        self.second = [torch.zeros_like(t) for t in self.tensors]

    @torch.no_grad()
    def update(self, gradients: Sequence[Tensor | None], rate: float) -> None:
        """One step; a tensor without a gradient stays."""
        self.steps += 1
        for tensor, g, mean, square in zip(self.tensors, gradients, self.first, self.second, strict=True):
            if g is None:
                continue
            tensor.mul_(1 - rate * self.decay)
            mean.lerp_(g, 1 - BETAS[0])
            square.mul_(BETAS[1]).addcmul_(g, g, value=1 - BETAS[1])
            root = square.sqrt().div_(math.sqrt(1 - BETAS[1] ** self.steps)).add_(1e-8)
            tensor.addcdiv_(mean, root, value=-rate / (1 - BETAS[0] ** self.steps))


class Momentum:
    """SGD with momentum and weight decay as in torch.optim."""

    def __init__(self, tensors: Sequence[Tensor], *, momentum: float = MOMENTUM, decay: float = RIDGE) -> None:
        self.tensors, self.momentum, self.decay = list(tensors), momentum, decay
        self.velocities = [torch.zeros_like(t) for t in self.tensors]

    @torch.no_grad()
    def update(self, gradients: Sequence[Tensor | None], rate: float) -> None:
        """One step; a tensor without a gradient stays."""
        for tensor, g, velocity in zip(self.tensors, gradients, self.velocities, strict=True):
            if g is not None:
                velocity.mul_(self.momentum).add_(g.add(tensor, alpha=self.decay))
                tensor.sub_(velocity, alpha=rate)


class Plateau:
    """Whether a loss has stopped falling."""

    def __init__(self, patience: int) -> None:
        self.patience, self.best, self.waited = patience, math.inf, 0

    def reached(self, loss: float) -> bool:
        """Take the loss of one more epoch."""
        if loss < LESS * self.best:
            self.best, self.waited = loss, 0
        else:
            self.waited += 1
        return self.waited >= self.patience


@dataclass(frozen=True)
class Recipe:
    """How long a network is trained.

    Attributes
    ----------
    epochs : int
        At most so many, without those of the end.
    patience : int
        Epochs without progress that end it.
    cooling : int
        Epochs at a rate that falls to zero.
    """

    epochs: int
    patience: int = 10
    cooling: int = 3


@dataclass(frozen=True, eq=False)
class Reached:
    """A trained network: how it ended, and which samples it gets right."""

    model: nn.Module
    rate: float
    epochs: int
    end: str  # "fitted", "plateau", "epochs" or "diverged"
    train: float  # accuracy in eval mode

    def right(self, X: Tensor, y: Tensor) -> Tensor:
        """Which samples it gets right, (samples,) bool."""
        return outputs_of(self.model, X).argmax(1) == y


def outputs_of(model: nn.Module, X: Tensor) -> Tensor:
    """Outputs in eval mode, (samples, classes)."""
    with evaluating(model), torch.no_grad():
        return torch.cat([model(x) for x in X.split(AT_ONCE)])


def train_until(
    make: Family,
    X: Tensor,
    y: Tensor,
    rate: float,
    recipe: Recipe,
    *,
    seed: int,
    optimizer: Callable[[Sequence[Tensor]], Optimizer] = AdamW,
    augment: Augmentation | None = None,
) -> Reached:
    """Train one member at one rate until it fits, stands still or diverges.

    augment: what is done to every batch; the accuracy that ends the training is then that on augmented samples.
    """
    model, tensors = fresh(make, seed, 0, torch.device("cpu"))
    if X.dim() == 4:  # narrow convolutions take a quarter less time with channels last
        X = X.contiguous(memory_format=torch.channels_last)
        for tensor in tensors:
            if tensor.dim() == 4:
                tensor.data = tensor.data.contiguous(memory_format=torch.channels_last)
    state, plateau = optimizer(tensors), Plateau(recipe.patience)
    end, epoch = "epochs", 0
    for epoch in range(1, recipe.epochs + 1):
        loss, accuracy = _epoch(model, tensors, state, X, y, lambda _: rate, (seed, epoch), augment)
        if not math.isfinite(loss):
            return Reached(model, rate, epoch, "diverged", math.nan)
        if accuracy >= FITTED or plateau.reached(loss):
            end = "fitted" if accuracy >= FITTED else "plateau"
            break
    for late in range(recipe.cooling):
        falling = partial(_cooled, rate, late, recipe.cooling)
        _epoch(model, tensors, state, X, y, falling, (seed, epoch + 1 + late), augment)
    train = float((outputs_of(model, X).argmax(1) == y).double().mean())
    return Reached(model, rate, epoch, end, train)


def _cooled(rate: float, late: int, epochs: int, share: float) -> float:
    """The rate in epoch `late` of so many, of which this share is over: down to zero in a line.

    >>> _cooled(0.1, 0, 2, 0.0), _cooled(0.1, 1, 2, 0.5)
    (0.1, 0.025)
    """
    return rate * (1 - (late + share) / epochs)


def _epoch(
    model: nn.Module,
    tensors: Sequence[Tensor],
    optimizer: Optimizer,
    X: Tensor,
    y: Tensor,
    rate: Callable[[float], float],
    number: tuple[int, int],
    augment: Augmentation | None,
) -> tuple[float, float]:
    """Mean loss and accuracy of one pass through the samples. rate: of the share of the epoch that is over."""
    batch = min(BATCH, len(X))
    order = minibatch_order(len(X), seed=number[0], i=0, epoch=number[1])
    steps, loss, right = len(X) // batch, 0.0, 0
    model.train()
    for step in range(steps):
        rows = order[step * batch : (step + 1) * batch]
        outputs = model(X[rows] if augment is None else augment(X[rows], (*number, step)))
        value = nn.functional.cross_entropy(outputs, y[rows])
        optimizer.update(torch.autograd.grad(value, tensors, allow_unused=True), rate(step / steps))
        loss += float(value.detach())
        right += int((outputs.argmax(1) == y[rows]).sum())
    return loss / steps, right / (steps * batch)


def best_rate(
    score: Callable[[float], float], rates: Sequence[float], *, limits: tuple[float, float] = (SMALLEST, LARGEST)
) -> tuple[float, dict[float, float]]:
    """The rate with the best score, and all that were tried; more are tried while the best one is at the edge.

    A score of NaN is the worst. Of equal scores the rate nearest to the middle of the grid is taken.

    >>> best_rate(lambda rate: -abs(rate - 0.09), [0.001, 0.00316])[0]
    0.1
    """
    found = {rate: score(rate) for rate in rates}
    while True:
        best = _best(found)
        low, high = min(found), max(found)
        nearby = ([_half_decades(low, -1)] if best == low else []) + ([_half_decades(high, 1)] if best == high else [])
        more = [rate for rate in nearby if limits[0] <= rate <= limits[1]]
        if not more or math.isnan(found[best]):
            return best, found
        found |= {rate: score(rate) for rate in more}


def _half_decades(rate: float, count: int) -> float:
    """The rate so many half decades away, with three digits."""
    return float(f"{10 ** ((round(2 * math.log10(rate)) + count) / 2):.3g}")


def _best(found: dict[float, float]) -> float:
    middle = sum(math.log(rate) for rate in found) / len(found)

    def key(rate: float) -> tuple[float, float]:
        score = found[rate]
        return -math.inf if math.isnan(score) else score, -abs(math.log(rate) - middle)

    return max(found, key=key)


def at_edge(rate: float, found: dict[float, float]) -> bool:
    """Whether the best rate is still the smallest or largest, because there is no further one."""
    return len(found) > 1 and rate in (min(found), max(found))
