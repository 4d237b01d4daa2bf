"""Labelled samples as values: a data set, its training and test part, and what may be done to both alike."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from netgrain.runtime.errors import NetgrainError
from netgrain.runtime.samples import checked_labels, checked_samples

MOST_CLASSES = 10**6  # each gets a name
AT_ONCE = 4096  # samples converted to double precision together


@dataclass(frozen=True, eq=False, repr=False)
class Dataset:
    """Samples X (samples, *shape) in float32 with labels y (samples,) in int64; `note` tells how X was scaled.

    >>> Dataset(torch.zeros(3, 2), torch.tensor([0, 1, 1]), name="toy", classes=("cat", "dog"))
    Dataset(toy, 3 samples of shape (2,), cat 1, dog 2)
    """

    X: Tensor
    y: Tensor
    name: str = "data"
    classes: tuple[str, ...] = ()  # empty: "0", "1", … as many as the labels need
    note: str = "as given"

    def __post_init__(self) -> None:
        X = checked_samples(checked_samples(self.X).cpu().float())  # what single precision cannot hold is Inf
        y = checked_labels(self.y, len(X)).cpu()
        if not self.classes and int(y.max()) >= MOST_CLASSES:
            raise NetgrainError(
                f"labels run up to {int(y.max())}; expected 0, 1, … with less than {MOST_CLASSES} classes: number the "
                "classes one by one."
            )
        classes = tuple(self.classes) or tuple(str(label) for label in range(int(y.max()) + 1))
        if int(y.min()) < 0 or int(y.max()) >= len(classes):
            raise NetgrainError(
                f"labels run from {int(y.min())} to {int(y.max())}, expected 0 to {len(classes) - 1} "
                f"for {len(classes)} classes."
            )
        for name, value in (("X", X), ("y", y), ("classes", classes)):
            object.__setattr__(self, name, value)

    def __len__(self) -> int:
        return len(self.y)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one sample."""
        return tuple(self.X.shape[1:])

    @property
    def counts(self) -> tuple[int, ...]:
        """Samples in each class."""
        return tuple(torch.bincount(self.y, minlength=len(self.classes)).tolist())

    def subset(self, indices: Sequence[int] | Tensor) -> Dataset:
        """The samples with these indices, in this order (a boolean mask works too)."""
        chosen = torch.as_tensor(indices).cpu()
        if chosen.dtype == torch.bool:
            if chosen.shape != self.y.shape:
                raise NetgrainError(f"expected a mask of {len(self)} entries, found shape {tuple(chosen.shape)}.")
            chosen = chosen.nonzero().flatten()
        if chosen.dim() != 1 or len(chosen) == 0 or chosen.is_floating_point():
            raise NetgrainError(f"expected a non-empty list of sample indices, found shape {tuple(chosen.shape)}.")
        if int(chosen.min()) < -len(self) or int(chosen.max()) >= len(self):
            raise NetgrainError(
                f"index {int(chosen.max()) if int(chosen.max()) >= len(self) else int(chosen.min())} was asked for, "
                f"the data set has {len(self)} samples."
            )
        return replace(self, X=self.X[chosen.long()], y=self.y[chosen.long()])

    def __repr__(self) -> str:
        named = list(zip(self.classes, self.counts, strict=True))
        shown = [f"{label} {count}" for label, count in named[:10]]
        more = [f"and {len(named) - 10} more classes"] if len(named) > 10 else []
        note = [self.note] if self.note != "as given" else []
        facts = [self.name, f"{len(self)} samples of shape {self.shape}", *shown, *more, *note]
        return f"Dataset({', '.join(facts)})"


@dataclass(frozen=True, eq=False)
class Split:
    """A training and a test part with the same shape and classes."""

    train: Dataset
    test: Dataset

    def __post_init__(self) -> None:
        if self.train.shape != self.test.shape:
            raise NetgrainError(
                f"the training samples have shape {self.train.shape}, the test samples {self.test.shape}; "
                "expected the same."
            )
        if self.train.classes != self.test.classes:
            raise NetgrainError(
                f"the training part has classes {self.train.classes}, the test part {self.test.classes}; "
                "expected the same."
            )


def channels(X: Tensor) -> Tensor:
    """A view (samples, channels, entries): images (samples, C, H, W) have C channels, everything else has one."""
    return X.flatten(2) if X.dim() == 4 else X.flatten(1).unsqueeze(1)


def channel_moments(X: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and population standard deviation of each channel, float64 (channels,); exactly 0 for a constant one."""
    view = channels(X)
    count = view.shape[0] * view.shape[2]
    mean = sum((part.double().sum((0, 2)) for part in view.split(AT_ONCE)), torch.zeros(1)) / count
    centred = ((part.double() - mean[:, None]).square().sum((0, 2)) for part in view.split(AT_ONCE))
    std = (sum(centred, torch.zeros(1)) / count).sqrt()
    constant = view.amax((0, 2)) == view.amin((0, 2))
    return mean, torch.where(constant, torch.zeros_like(std), std)


def standardised(split: Split) -> Split:
    """Mean 0 and standard deviation 1 for each channel of the training part; the test part is treated with the same.

    A constant channel is centred and not scaled.
    """
    mean, std = channel_moments(split.train.X)
    scale = torch.where(std == 0, torch.ones_like(std), std)
    numbers = f"mean {_listed(mean)}, std {_listed(std)}"

    def apply(data: Dataset) -> Dataset:
        X = torch.empty_like(data.X)
        for source, target in zip(channels(data.X).split(AT_ONCE), channels(X).split(AT_ONCE), strict=True):
            target.copy_((source.double() - mean[:, None]) / scale[:, None])
        before = "" if data.note == "as given" else f"{data.note}; "
        return replace(data, X=X, note=f"{before}standardised per channel with training statistics: {numbers}")

    return Split(apply(split.train), apply(split.test))


def resized(dataset: Dataset, size: int) -> Dataset:
    """Images (C, H, W) averaged over equal areas down to size × size; size must divide H and W."""
    if len(dataset.shape) != 3:
        raise NetgrainError(f"expected images of shape (channels, height, width), found {dataset.shape}.")
    c, h, w = dataset.shape
    if size < 1 or h % size or w % size:
        raise NetgrainError(f"size {size} was asked for; expected a divisor of the image size {h} × {w}.")
    if (h, w) == (size, size):
        return dataset
    X = dataset.X.reshape(len(dataset), c, size, h // size, size, w // size).mean((3, 5))
    before = "" if dataset.note == "as given" else f"{dataset.note}; "
    return replace(dataset, X=X, note=f"{before}area-averaged from {h} × {w} to {size} × {size}")


def as_binary(dataset: Dataset, ones: Collection[int], classes: tuple[str, str] = ("0", "1")) -> Dataset:
    """Two classes out of many: label 1 for the classes in `ones`, 0 for all others."""
    wrong = [label for label in ones if not 0 <= label < len(dataset.classes)]
    if wrong or not ones:
        raise NetgrainError(
            f"expected class numbers from 0 to {len(dataset.classes) - 1}, found {sorted(wrong) if wrong else 'none'}."
        )
    y = torch.isin(dataset.y, torch.tensor(sorted(ones))).long()
    return replace(dataset, y=y, classes=classes)


def balanced(dataset: Dataset, per_class: int, *, seed: int = 0) -> Dataset:
    """`per_class` random samples of every class, shuffled."""
    if per_class < 1 or per_class > min(dataset.counts):
        raise NetgrainError(
            f"{per_class} samples per class were asked for, expected 1 to {min(dataset.counts)} "
            f"(the smallest class of {dataset.name})."
        )
    generator = generator_for(seed, "balanced")
    rows = []
    for label in range(len(dataset.classes)):
        members = (dataset.y == label).nonzero().flatten()
        rows.append(members[torch.randperm(len(members), generator=generator)[:per_class]])
    chosen = torch.cat(rows)
    return dataset.subset(chosen[torch.randperm(len(chosen), generator=generator)])


def generator_for(seed: int, *labels: str) -> torch.Generator:
    """An own random generator for one use of randomness, a function of the seed and the labels alone."""
    if isinstance(seed, bool) or not isinstance(seed, int):
        raise NetgrainError(f"expected a whole number as seed, found {seed!r}.")
    digest = hashlib.blake2b(repr((seed, "data", *labels)).encode(), digest_size=8).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest, "little") >> 1)


def _listed(numbers: Tensor) -> str:
    return ", ".join(f"{value:.4g}" for value in numbers.tolist())
