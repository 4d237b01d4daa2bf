"""What may be put before a network: scaling, whitening, filters and another resolution, each a torch module.

They are fitted on training samples without their labels, and keep the shape of a sample (but for `Resized`).
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from netgrain.data.resizing import area_resized
from netgrain.data.scaling import channel_moments, channels
from netgrain.runtime.errors import NetgrainError

MOST_DIRECTIONS = 512  # that whitening scales one by one
RIDGE = 0.01  # of the mean variance: what is added to variances before dividing by their roots
BOX = 5  # side of the window whose mean a high-pass takes away


class Scaled(nn.Module):
    """(x − mean) / scale, for each channel of images, each feature of tables, or each entry.

    Parameters
    ----------
    mean, scale : Tensor
        Of a shape that fits a batch.

    See Also
    --------
    standardising : Fits one on samples.

    Examples
    --------
    >>> Scaled(torch.tensor([1.0]), torch.tensor([2.0]))(torch.tensor([[5.0]]))
    tensor([[2.]])
    """

    mean: Tensor
    scale: Tensor

    def __init__(self, mean: Tensor, scale: Tensor) -> None:
        super().__init__()
        self.register_buffer("mean", mean.float())
        self.register_buffer("scale", scale.float())

    def forward(self, x: Tensor) -> Tensor:
        return (x - self.mean.to(x)) / self.scale.to(x)


def standardising(X: Tensor, *, each: bool = False) -> Scaled:
    """The module that gives every channel (or feature) of the samples mean 0 and standard deviation 1.

    Parameters
    ----------
    X : Tensor of shape (samples, *input_shape)
        Training samples.
    each : bool, default False
        Scale every entry of a sample by itself.

    Returns
    -------
    Scaled
        To put before a network: ``nn.Sequential(standardising(X), model)``.

    See Also
    --------
    whitening : Decorrelates entries, too.

    Examples
    --------
    >>> standardising(torch.tensor([[1.0, 5.0], [3.0, 5.0]]))(torch.tensor([[3.0, 5.0]]))
    tensor([[1., 0.]])
    """
    if each:
        mean, std = X.double().mean(0), X.double().std(0, correction=0)
    else:
        mean, std = channel_moments(X)
        shape = (1,) * (X.dim() - 1)
        if channels(X).shape[1] > 1:
            shape = (-1, *(1,) * (X.dim() - 2))
        mean, std = mean.reshape(shape), std.reshape(shape)
    # an entry that hardly varies is not blown up
    least = 1e-6 * float(std.max())
    return Scaled(mean, torch.where(std > least, std, torch.ones_like(std)))


class Whitening(nn.Module):
    """Entries decorrelated: x ↦ (x − mean) Σ^(−½) with Σ the covariance plus a ridge, scaled to variance one.

    Parameters
    ----------
    mean : Tensor of shape (d,)
        Of the samples.
    rows : Tensor of shape (k, d)
        Orthonormal directions.
    gains : Tensor of shape (k,)
        Factor along each, minus `rest`.
    rest : float
        Factor along all others.

    See Also
    --------
    whitening : Fits one on samples.

    Examples
    --------
    >>> x = torch.tensor([[4.0, 1.0]])
    >>> Whitening(torch.zeros(2), torch.tensor([[1.0, 0.0]]), torch.tensor([-0.75]), 1.0)(x)
    tensor([[1., 1.]])
    """

    mean: Tensor
    rows: Tensor
    gains: Tensor

    def __init__(self, mean: Tensor, rows: Tensor, gains: Tensor, rest: float) -> None:
        super().__init__()
        self.register_buffer("mean", mean.float())
        self.register_buffer("rows", rows.float())
        self.register_buffer("gains", gains.float())
        self.rest = rest

    def forward(self, x: Tensor) -> Tensor:
        flat = x.flatten(1) - self.mean.to(x)
        rows = self.rows.to(x)
        return (((flat @ rows.T) * self.gains.to(x)) @ rows + self.rest * flat).reshape(x.shape)


def whitening(X: Tensor) -> Whitening:
    """The module that decorrelates the entries of samples.

    Parameters
    ----------
    X : Tensor of shape (samples, *input_shape)
        Training samples; their 512 strongest directions are scaled one by one.

    Returns
    -------
    Whitening
        To put before a network: ``nn.Sequential(whitening(X), model)``.

    See Also
    --------
    standardising : Scales channels and leaves correlations alone.

    Examples
    --------
    Two entries that are nearly equal and two that are not: all have about the same variance afterwards.

    >>> X = torch.randn(4000, 2, generator=torch.Generator().manual_seed(0)) * torch.tensor([3.0, 1.0])
    >>> whitening(X)(X).var(0).round(decimals=1).tolist()
    [1.0, 1.0]
    """
    if len(X) < 2:
        raise NetgrainError(f"whitening needs at least 2 samples, found {len(X)}.")
    flat = X.flatten(1).double()
    mean = flat.mean(0)
    _, s, rows = torch.linalg.svd(flat - mean, full_matrices=False)
    variances, rows = s.square()[:MOST_DIRECTIONS] / len(X), rows[:MOST_DIRECTIONS]
    ridge = RIDGE * float(s.square().sum()) / len(X) / flat.shape[1]
    ridge = ridge or 1.0
    rest = 1 / math.sqrt(ridge)
    # directions beyond those that the samples have show nothing here, and are noise in new samples
    beyond = len(rows) < flat.shape[1]
    rest = min(rest, float((variances[-1] + ridge) ** -0.5)) if beyond else rest
    return Whitening(mean, rows, (variances + ridge).rsqrt() - rest, rest)


class EvenContrast(nn.Module):
    """Every sample with mean 0 and standard deviation 1 of its own.

    Examples
    --------
    >>> EvenContrast()(torch.tensor([[1.0, 3.0], [10.0, 30.0]])).round(decimals=2)
    tensor([[-1.,  1.],
            [-1.,  1.]])
    """

    def forward(self, x: Tensor) -> Tensor:
        flat = x.flatten(1)
        centred = flat - flat.mean(1, keepdim=True)
        size = centred.square().mean(1, keepdim=True).sqrt()
        return (centred / (size + 1e-6)).reshape(x.shape)


class LocalMean(nn.Module):
    """The mean over a window of 5 pixels in every direction (low pass), or the image without it (high pass).

    Parameters
    ----------
    high : bool, default True
        Whether the mean is taken away, or all that stays.

    Examples
    --------
    >>> LocalMean()(torch.ones(1, 1, 8)).tolist()
    [[[0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]]]
    """

    def __init__(self, high: bool = True) -> None:
        super().__init__()
        self.high = high

    def forward(self, x: Tensor) -> Tensor:
        pool = F.avg_pool2d if x.dim() == 4 else F.avg_pool1d
        smooth: Tensor = pool(x, BOX, stride=1, padding=BOX // 2, count_include_pad=False)
        return x - smooth if self.high else smooth


class Resized(nn.Module):
    """Images averaged over equal areas to size × size; larger ones repeat pixels.

    Parameters
    ----------
    size : int
        Side of the new images.

    Examples
    --------
    >>> Resized(1)(torch.tensor([[[[1.0, 3.0], [5.0, 7.0]]]]))
    tensor([[[[4.]]]])
    """

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size

    def forward(self, x: Tensor) -> Tensor:
        return area_resized(x, self.size)
