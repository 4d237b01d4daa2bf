"""The one standardisation: mean 0 and standard deviation 1 for each channel of images and each feature of tables."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from netgrain.data.dataset import Dataset, then

AT_ONCE = 4096  # samples converted to double precision together


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

    netgrain scales all data by this rule: each channel of images (C, H, W) and each feature of a table has its own mean
    and population standard deviation; samples of any other shape count as one channel. Constant channels and features
    are centred but not scaled.

    Parameters
    ----------
    dataset : Dataset
        The samples to scale.
    like : Dataset, optional
        The training part whose statistics are used; by default the data set's own.

    Returns
    -------
    Dataset
        The same samples, scaled; its note records the statistics.

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


def _listed(numbers: Tensor) -> str:
    return ", ".join(f"{value:.4g}" for value in numbers.tolist())
