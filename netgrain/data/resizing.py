"""Images of another size: averages over equal areas."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from netgrain.data.dataset import Dataset, then
from netgrain.runtime.errors import NetgrainError


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
