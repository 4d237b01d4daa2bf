"""Some samples of many, chosen by a seed, and two classes made of many."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import torch
from torch import Tensor

from netgrain.data.dataset import Dataset
from netgrain.runtime.arguments import whole
from netgrain.runtime.errors import NetgrainError
from netgrain.runtime.randomness import derived_seed


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
    """The same number of random samples from each class, shuffled.

    Parameters
    ----------
    dataset : Dataset
        Samples of any number of classes.
    per_class : int
        Number of samples to keep from each class.
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
