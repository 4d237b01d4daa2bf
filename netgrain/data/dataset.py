"""Samples and their labels as values: a data set, its training and its test part."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor

from netgrain.runtime.errors import NetgrainError
from netgrain.runtime.samples import checked_labels, checked_numbers, checked_samples

MOST_CLASSES = 10**6  # each gets a name
AS_GIVEN = "as given"

Target = Literal["classes", "numbers", "none"]


@dataclass(frozen=True, eq=False, repr=False)
class Dataset:
    """Samples with labels (classes or numbers), or without labels.

    Parameters
    ----------
    X : Tensor of shape (samples, *shape)
        Finite floating-point samples; kept as float32 on the CPU.
    y : Tensor of shape (samples,), or (samples, outputs) for numbers, optional
        Whole numbers are classes 0, 1, …, kept as int64; floating-point labels are numbers to predict, kept as
        float32; None if the samples have no labels.
    name : str, default "data"
        Name of the data in reports.
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
        If samples, labels, classes and features do not match.

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
                f"labels run up to {int(y.max())}; expected 0, 1, … with fewer than {MOST_CLASSES} classes: number the "
                "classes consecutively."
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
        """The labels; an error if there are none."""
        if self.y is None:
            raise NetgrainError(f"{self.name} has no labels, but they are needed here; expected samples with labels.")
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
            If there are no indices, or one is out of range.
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
        Samples to evaluate on.

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
