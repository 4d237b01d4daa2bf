"""What the callbacks share: their tracker, and points out of a data loader without disturbing it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    DistributedSampler,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
)

from netgrain.complexity.estimators import Estimator
from netgrain.complexity.functions import Of
from netgrain.complexity.tracker import ComplexityTracker, scalars
from netgrain.runtime.errors import NetgrainError, install
from netgrain.runtime.randomness import derived_seed, seeded

WHOLE = (RandomSampler, SequentialSampler, DistributedSampler)  # go through all of a data set


class MissingExtra(NetgrainError, ImportError):
    """A framework that is not installed, and how to install it."""

    def __init__(self, framework: str, extra: str) -> None:
        super().__init__(f"{framework} is not installed; install it with: {install(extra)}.")


@dataclass(frozen=True, eq=False)
class TrackerOptions:
    """Those of `ComplexityTracker` that callbacks take, too."""

    every: int
    of: Of
    layer: str | None
    points: int | None
    estimator: Estimator
    rel_error: float
    seed: int
    X_test: Tensor | None = None


class TrackerInside:
    """A ComplexityTracker inside somebody else's training loop: its options, how it is made, and what is new.

    A callback prepares one with the user's options, makes the tracker when there is a model, and logs `new_scalars`.
    """

    X: Any
    y: Tensor | None
    tracker: ComplexityTracker | None

    def prepare(self, X: Any, y: Tensor | None, options: TrackerOptions) -> None:
        """Keep the user's inputs and options; those of the tracker are checked when it is made."""
        if X is None and y is not None:
            raise NetgrainError("labels y were given without their inputs; pass both, as in ComplexityCallback(X, y).")
        self.X, self.y, self.tracker, self.options = X, y, None, options

    def made(
        self, model: nn.Module, X: Tensor, y: Tensor | None, kind: type[ComplexityTracker] = ComplexityTracker
    ) -> ComplexityTracker:
        """A tracker on these points; labels that the user did not give and that do not fit are left out."""
        try:
            return kind(model, X, y, **vars(self.options))
        except NetgrainError:
            if self.y is not None or y is None:
                raise
            return kind(model, X, None, **vars(self.options))  # labels nobody gave, of another kind of task

    def new_scalars(self, step: int, *, force: bool = False) -> dict[str, float] | None:
        """What a step gives that was not measured before, under the names of a log."""
        if self.tracker is None or step in self.tracker.steps:  # several batches may share a step of the optimiser
            return None
        row = self.tracker(step, force=force)
        return None if row is None else scalars(row)


def random_batch(loader: Any, count: int | None, seed: int, *, any_sampler: bool = False) -> Any | None:
    """A batch of `count` random samples (None: all), the same for every shuffling; None where there is no way to them.

    The samples are read from the data set and put together by the loader's own collate_fn. The loader is not iterated:
    that would move its shuffling on, and the training with it. A streaming data set, or a sampler that might leave
    samples out on purpose (any_sampler=False), gives None.
    """
    if not isinstance(loader, DataLoader) or isinstance(loader.dataset, IterableDataset):
        return None
    order: Any = loader.batch_sampler
    while hasattr(order, "batch_sampler"):  # accelerate wraps it
        order = order.batch_sampler
    simple = isinstance(order, BatchSampler) and isinstance(order.sampler, WHOLE)
    if order is None or not (simple or any_sampler) or not hasattr(loader.dataset, "__len__"):
        return None
    with seeded(derived_seed(seed, "samples")):  # random augmentations draw from generators that belong to the training
        chosen = torch.randperm(len(loader.dataset))[:count].sort().values.tolist()
        return loader.collate_fn([loader.dataset[i] for i in chosen])


def labels(y: Any, points: int) -> Tensor | None:
    """y, if these are class labels."""
    classes = isinstance(y, Tensor) and y.shape == (points,) and not y.is_floating_point() and not y.is_complex()
    return y if classes else None


def inputs_and_labels(batch: Any) -> tuple[Tensor, Tensor | None]:
    """x and y of a batch x, (x,) or (x, y, …); labels that are no classes are left out."""
    parts = batch if isinstance(batch, Sequence) and not isinstance(batch, str) else [batch]
    if not parts or not isinstance(parts[0], Tensor):
        found = type(batch if parts is not batch or not parts else parts[0]).__name__
        raise NetgrainError(
            f"expected batches x or (x, y) with a tensor x, found {found}; pass the inputs to the callback, "
            "as in ComplexityCallback(X, y)."
        )
    return parts[0], labels(parts[1], len(parts[0])) if len(parts) > 1 else None
