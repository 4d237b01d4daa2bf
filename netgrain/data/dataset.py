"""Samples and their labels as values: a data set, its training and test part, and what may be done to both alike."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor

from netgrain.runtime.arguments import whole
from netgrain.runtime.errors import NetgrainError
from netgrain.runtime.randomness import derived_seed
from netgrain.runtime.samples import checked_labels, checked_numbers, checked_samples

MOST_CLASSES = 10**6  # each gets a name
AT_ONCE = 4096  # samples converted to double precision together
AS_GIVEN = "as given"

Target = Literal["classes", "numbers", "none"]


@dataclass(frozen=True, eq=False, repr=False)
class Dataset:
    """Samples as a value, with classes or numbers as labels, or without labels.

    Parameters
    ----------
    X : Tensor of shape (samples, *shape)
        Finite floating-point samples; kept as float32 on the CPU.
    y : Tensor of shape (samples,), or (samples, outputs) for numbers, optional
        Whole numbers are classes 0, 1, …, kept as int64; floating-point labels are numbers to predict, kept as
        float32; None if the samples have no labels.
    name : str, default "data"
        What reports call it.
    classes : tuple of str, optional
        Names of the classes 0, 1, …; by default the numbers themselves. Empty unless labels are classes.
    note : str, default "as given"
        What was done to the numbers in X.
    features : tuple of str, optional
        Names of the entries of a sample, one for each.

    Attributes
    ----------
    target : {"classes", "numbers", "none"}
        What the labels are.
    labels : Tensor
        `y`, or an error where there are no labels.
    outputs : int or None
        Outputs that a network needs: one for each class (at least 2) or number; None without labels.
    shape : tuple of int
        Shape of one sample.
    counts : tuple of int
        Samples in each class; empty unless labels are classes.

    Raises
    ------
    NetgrainError
        If samples, labels, classes and features do not fit together.

    See Also
    --------
    load : Data sets from names, files, folders, tensors and torch data sets.

    Examples
    --------
    >>> Dataset(torch.zeros(3, 2), torch.tensor([0, 1, 1]), name="toy", classes=("cat", "dog"))
    Dataset(toy, 3 samples of shape (2,), cat 1, dog 2)
    >>> Dataset(torch.zeros(2, 2), torch.tensor([0.5, 2.0])).target
    'numbers'
    """

    X: Tensor
    y: Tensor | None = None
    name: str = "data"
    classes: tuple[str, ...] = ()  # empty: "0", "1", … as many as the labels need
    note: str = AS_GIVEN
    features: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        X = checked_samples(checked_samples(self.X).cpu().float())  # what single precision cannot hold is Inf
        y, classes = self._checked_target(len(X))
        entries = math.prod(X.shape[1:])
        if self.features and len(self.features) != entries:
            raise NetgrainError(
                f"{len(self.features)} feature names came with samples of {entries} entries; "
                "expected one name for each entry."
            )
        for name, value in (("X", X), ("y", y), ("classes", classes), ("features", tuple(self.features))):
            object.__setattr__(self, name, value)

    def _checked_target(self, samples: int) -> tuple[Tensor | None, tuple[str, ...]]:
        """Labels as they are kept, and the names of the classes."""
        if self.y is not None and (not self.y.is_floating_point() or self.classes):
            return self._checked_classes(checked_labels(self.y, samples).cpu())
        if self.classes:
            raise NetgrainError(f"{len(self.classes)} classes came without labels; expected y, or no classes.")
        return (None if self.y is None else checked_numbers(self.y, samples).cpu().float()), ()

    def _checked_classes(self, y: Tensor) -> tuple[Tensor, tuple[str, ...]]:
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
        return y, classes

    def __len__(self) -> int:
        return len(self.X)

    @property
    def target(self) -> Target:
        """What the labels are: classes, numbers, or none."""
        if self.y is None:
            return "none"
        return "numbers" if self.y.is_floating_point() else "classes"

    @property
    def labels(self) -> Tensor:
        """The labels, which must be there."""
        if self.y is None:
            raise NetgrainError(f"{self.name} has no labels, and they are needed here; expected samples with labels.")
        return self.y

    @property
    def outputs(self) -> int | None:
        """Number of outputs that a network for these labels needs; None without labels."""
        if self.y is None:
            return None
        return max(len(self.classes), 2) if self.target == "classes" else self.y[0].numel()

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one sample."""
        return tuple(self.X.shape[1:])

    @property
    def counts(self) -> tuple[int, ...]:
        """Samples in each class; empty unless labels are classes."""
        if self.target != "classes":
            return ()
        return tuple(torch.bincount(self.labels, minlength=len(self.classes)).tolist())

    def subset(self, indices: Sequence[int] | Tensor) -> Dataset:
        """Return the samples with these indices, in this order.

        Parameters
        ----------
        indices : sequence of int, or Tensor
            Indices, negative ones from the end; or a boolean mask over all samples.

        Returns
        -------
        Dataset
            The chosen samples, with the same name, classes and note.

        Raises
        ------
        NetgrainError
            If there are no indices, or one is beyond the samples.
        """
        chosen = torch.as_tensor(indices).cpu()
        if chosen.dtype == torch.bool:
            if chosen.shape != (len(self),):
                raise NetgrainError(f"expected a mask of {len(self)} entries, found shape {tuple(chosen.shape)}.")
            chosen = chosen.nonzero().flatten()
        if chosen.dim() != 1 or len(chosen) == 0 or chosen.is_floating_point():
            raise NetgrainError(f"expected a non-empty list of sample indices, found shape {tuple(chosen.shape)}.")
        if int(chosen.min()) < -len(self) or int(chosen.max()) >= len(self):
            raise NetgrainError(
                f"index {int(chosen.max()) if int(chosen.max()) >= len(self) else int(chosen.min())} was asked for, "
                f"the data set has {len(self)} samples."
            )
        return replace(self, X=self.X[chosen.long()], y=None if self.y is None else self.y[chosen.long()])

    def __repr__(self) -> str:
        named = list(zip(self.classes, self.counts, strict=True))
        shown = [f"{label} {count}" for label, count in named[:10]]
        if self.y is None:
            shown = ["no labels"]
        elif self.target == "numbers":
            shown = [f"numbers from {float(self.y.min()):.4g} to {float(self.y.max()):.4g}"]
        more = [f"and {len(named) - 10} more classes"] if len(named) > 10 else []
        note = [self.note] if self.note != AS_GIVEN else []
        facts = [self.name, f"{len(self)} samples of shape {self.shape}", *shown, *more, *note]
        return f"Dataset({', '.join(facts)})"


@dataclass(frozen=True, eq=False)
class Split:
    """Training and test part of a data set, with the same shape and classes.

    Parameters
    ----------
    train : Dataset
        Samples to learn from.
    test : Dataset
        Samples to judge by.

    Raises
    ------
    NetgrainError
        If shapes or classes differ.
    """

    train: Dataset
    test: Dataset

    def __post_init__(self) -> None:
        if self.train.shape != self.test.shape:
            raise NetgrainError(
                f"the training samples have shape {self.train.shape}, the test samples {self.test.shape}; "
                "expected the same."
            )
        if self.train.target != self.test.target:
            raise NetgrainError(
                f"the labels of the training part are {self.train.target}, those of the test part {self.test.target}; "
                "expected the same kind."
            )
        if self.train.classes != self.test.classes:
            raise NetgrainError(
                f"the training part has classes {self.train.classes}, the test part {self.test.classes}; "
                "expected the same."
            )


def then(note: str, done: str) -> str:
    """A note with what was done next."""
    return done if note == AS_GIVEN else f"{note}; {done}"


def channels(X: Tensor) -> Tensor:
    """A view (samples, channels, entries) of what is scaled alike.

    The entries of a table (samples, features) are channels of their own; images (samples, C, H, W) have C of them,
    everything else has one.
    """
    if X.dim() == 2:
        return X.unsqueeze(2)
    return X.flatten(2) if X.dim() == 4 else X.flatten(1).unsqueeze(1)


def channel_moments(X: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and population standard deviation of each channel, float64 (channels,); a constant has exactly its own."""
    view = channels(X)
    count = view.shape[0] * view.shape[2]
    mean = sum((part.double().sum((0, 2)) for part in view.split(AT_ONCE)), torch.zeros(1)) / count
    centred = ((part.double() - mean[:, None]).square().sum((0, 2)) for part in view.split(AT_ONCE))
    std = (sum(centred, torch.zeros(1)) / count).sqrt()
    highest = view.amax((0, 2))
    constant = highest == view.amin((0, 2))
    return torch.where(constant, highest.double(), mean), torch.where(constant, torch.zeros_like(std), std)


def standardised(dataset: Dataset, like: Dataset | None = None) -> Dataset:
    """Samples with mean 0 and standard deviation 1, per channel or feature.

    This is the one rule for all data: each channel of images (C, H, W) and each feature of a table
    has its own mean and population standard deviation; samples of any other shape count as one
    channel. What is constant is centred and not scaled.

    Parameters
    ----------
    dataset : Dataset
        The samples to scale.
    like : Dataset, optional
        The training part whose statistics are used; by default the data set's own.

    Returns
    -------
    Dataset
        The same samples, scaled; its note tells the statistics.

    Examples
    --------
    The first feature has mean 2 and standard deviation 1, the second is constant:

    >>> data = Dataset(torch.tensor([[1.0, 5.0], [3.0, 5.0]]), torch.tensor([0, 1]))
    >>> standardised(data).X.tolist()
    [[-1.0, 0.0], [1.0, 0.0]]
    >>> standardised(data).note
    'standardised per feature, 1 constant one set to 0'
    """
    mean, std = channel_moments((dataset if like is None else like).X)
    scale = torch.where(std == 0, torch.ones_like(std), std)
    # in rows, whatever the order of the old ones: `channels` would copy what it cannot show as a view, and write there
    X = torch.empty_like(dataset.X, memory_format=torch.contiguous_format)
    for source, target in zip(channels(dataset.X).split(AT_ONCE), channels(X).split(AT_ONCE), strict=True):
        target.copy_((source.double() - mean[:, None]) / scale[:, None])
    table, constant = dataset.X.dim() == 2, int((std == 0).sum())
    done = f"standardised per {'feature' if table else 'channel'}"
    done += "" if like is None else " with training statistics"
    done += "" if table else f": mean {_listed(mean)}, std {_listed(std)}"
    if constant and like is None:
        done += f", {constant} constant {'one' if constant == 1 else 'ones'} set to 0"
    return replace(dataset, X=X, note=then(dataset.note, done))


def resized(dataset: Dataset, size: int) -> Dataset:
    """Images averaged over equal areas to size × size.

    Parameters
    ----------
    dataset : Dataset
        Images of shape (C, H, W).
    size : int
        Side of the new images.

    Returns
    -------
    Dataset
        Images of shape (C, size, size); every pixel of the old ones counts with the area it shares.

    Raises
    ------
    NetgrainError
        If the samples are no images, or `size` is not positive.

    Examples
    --------
    >>> images = Dataset(torch.arange(16.0).reshape(1, 1, 4, 4), torch.tensor([0]))
    >>> resized(images, 2).X.tolist()
    [[[[2.5, 4.5], [10.5, 12.5]]]]
    """
    if len(dataset.shape) != 3:
        raise NetgrainError(f"size expects images of shape (channels, height, width), found samples {dataset.shape}.")
    h, w = dataset.shape[1:]
    if size < 1:
        raise NetgrainError(f"size must be at least 1, found {size}; the images are {h} × {w}.")
    if (h, w) == (size, size):
        return dataset
    done = f"area-averaged from {h} × {w} to {size} × {size}"
    return replace(dataset, X=area_resized(dataset.X, size), note=then(dataset.note, done), features=())


def area_resized(X: Tensor, size: int | tuple[int, int]) -> Tensor:
    """Images (samples, C, H, W) averaged to size × size or (height, width), pixels weighted by the area they share.

    >>> area_resized(torch.tensor([[[[0.0, 3.0, 6.0]]]]), 2)[0, 0, 0].tolist()  # (0 + 3/2) / 1.5, (3/2 + 6) / 1.5
    [1.0, 5.0]
    """
    n, c, h, w = X.shape
    to_h, to_w = (size, size) if isinstance(size, int) else size
    if h % to_h == 0 and w % to_w == 0:
        return X.reshape(n, c, to_h, h // to_h, to_w, w // to_w).mean((3, 5))
    rows, columns = _shares(h, to_h).to(X), _shares(w, to_w).to(X)
    return torch.einsum("ih,nchw,jw->ncij", rows, X, columns).contiguous()


def _shares(n: int, size: int) -> Tensor:
    """(size, n): which share of target cell i is source cell j."""
    edges = torch.arange(size + 1, dtype=torch.float64) * n / size
    source = torch.arange(n, dtype=torch.float64)
    overlap = torch.minimum(edges[1:, None], source + 1) - torch.maximum(edges[:-1, None], source)
    return overlap.clamp(min=0) * (size / n)


def chosen_indices(n: int, limit: int | None, seed: int) -> Tensor:
    """Indices, ascending, of at most `limit` random samples of n."""
    if limit is None or limit >= n:
        return torch.arange(n)
    return torch.randperm(n, generator=generator_for(seed, "limit"))[:limit].sort().values


def as_binary(dataset: Dataset, ones: Collection[int], classes: tuple[str, str] = ("0", "1")) -> Dataset:
    """Two classes out of many: label 1 for the classes in `ones`, 0 for all others.

    Parameters
    ----------
    dataset : Dataset
        Samples of any number of classes.
    ones : collection of int
        Labels that become 1.
    classes : pair of str, default ("0", "1")
        Names of the two classes.

    Returns
    -------
    Dataset
        The same samples with labels 0 and 1.

    Raises
    ------
    NetgrainError
        If `ones` is empty or names a label that the data set does not have.

    Examples
    --------
    >>> as_binary(Dataset(torch.zeros(3, 2), torch.tensor([0, 1, 2])), {0, 2}).y.tolist()
    [1, 0, 1]
    """
    y = _class_labels(dataset)
    wrong = [label for label in ones if not 0 <= label < len(dataset.classes)]
    if wrong or not ones:
        raise NetgrainError(
            f"expected class numbers from 0 to {len(dataset.classes) - 1}, found {sorted(wrong) if wrong else 'none'}."
        )
    return replace(dataset, y=torch.isin(y, torch.tensor(sorted(ones))).long(), classes=classes)


def balanced(dataset: Dataset, per_class: int, *, seed: int = 0) -> Dataset:
    """Equally many random samples of every class, shuffled.

    Parameters
    ----------
    dataset : Dataset
        Samples of any number of classes.
    per_class : int
        Samples to keep of each class.
    seed : int, default 0
        The same seed gives the same samples.

    Returns
    -------
    Dataset
        ``per_class`` samples of every class.

    Raises
    ------
    NetgrainError
        If a class has fewer samples than that.

    Examples
    --------
    >>> balanced(Dataset(torch.zeros(5, 2), torch.tensor([0, 0, 0, 1, 1])), 2).counts
    (2, 2)
    """
    y = _class_labels(dataset)
    if per_class < 1 or per_class > min(dataset.counts):
        raise NetgrainError(
            f"{per_class} samples per class were asked for, expected 1 to {min(dataset.counts)} "
            f"(the smallest class of {dataset.name})."
        )
    generator = generator_for(seed, "balanced")
    rows = []
    for label in range(len(dataset.classes)):
        members = (y == label).nonzero().flatten()
        rows.append(members[torch.randperm(len(members), generator=generator)[:per_class]])
    chosen = torch.cat(rows)
    return dataset.subset(chosen[torch.randperm(len(chosen), generator=generator)])


def _class_labels(dataset: Dataset) -> Tensor:
    if dataset.target == "numbers":
        raise NetgrainError(f"the labels of {dataset.name} are numbers; expected classes.")
    return dataset.labels


def generator_for(seed: int, *labels: str) -> torch.Generator:
    """An own random generator for one use of randomness, a function of the seed and the labels alone."""
    return torch.Generator().manual_seed(derived_seed(whole("seed", seed), "data", *labels))


def _listed(numbers: Tensor) -> str:
    return ", ".join(f"{value:.4g}" for value in numbers.tolist())
