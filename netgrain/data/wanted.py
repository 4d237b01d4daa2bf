"""What is asked of a source, the same for all of them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from netgrain.data.dataset import Dataset, Target, then
from netgrain.data.resizing import resized
from netgrain.runtime.errors import NetgrainError


@dataclass(frozen=True)
class Wanted:
    """How labels are found and meant, how much is read, and whether the test part is read, too.

    label: the column, or the array, that holds the labels. target: None is decided by the labels themselves.
    """

    label: str | None = None
    target: Target | None = None
    size: int | None = None
    limits: tuple[int | None, int | None] = (None, None)  # random samples of the training and of the test part
    seed: int = 0
    strict: bool = False
    test: bool = False

    def refuse_label(self, what: str) -> None:
        """Refuse the name of a label column where there are no columns."""
        if self.label is not None:
            raise NetgrainError(
                f"label (--label) names the column of a table that holds the labels, but {what}; leave it out."
            )

    def meant(self, data: Dataset) -> Dataset:
        """The data set of a source whose labels are classes, with the labels that are asked for."""
        if self.target == "none":
            return replace(data, y=None, classes=(), note=then(data.note, "labels left out"))
        if self.target != "numbers" or data.y is None:
            return data
        try:
            values = torch.tensor([float(name) for name in data.classes])
        except ValueError:
            raise NetgrainError(
                f"the labels of {data.name} are words ('{data.classes[0]}' is the first), which cannot be numbers to "
                "predict; expected classes whose names are numbers, or no target (--target)."
            ) from None
        return replace(data, y=values[data.y], classes=(), note=then(data.note, "labels are numbers"))

    def sized(self, parts: list[Dataset]) -> list[Dataset]:
        """The parts with images of the size that is asked for."""
        return parts if self.size is None else [resized(part, self.size) for part in parts]
