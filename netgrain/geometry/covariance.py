"""The second moment S of data, a geometry of its own."""

from __future__ import annotations

from torch import Tensor

from netgrain.geometry.forms import Factored
from netgrain.geometry.provenance import Provenance
from netgrain.geometry.value import Geometry
from netgrain.runtime.samples import checked_samples


def data_covariance(X: Tensor, *, centred: bool = False, normalised: bool = False) -> Geometry:
    """Second moment S = Σ_μ x_μ x_μᵀ of data, as a geometry.

    Parameters
    ----------
    X : Tensor of shape (samples, *input_shape)
        Samples. They are kept as rows; the (d, d) matrix is not formed.
    centred : bool, default False
        Subtract the mean sample first.
    normalised : bool, default False
        Divide by the number of samples.

    Returns
    -------
    Geometry
        S over d = prod(input_shape) coordinates, exact, with ``method == "data"``.

    Raises
    ------
    NetgrainError
        If X holds no finite floating-point samples.

    See Also
    --------
    Geometry.project : The part G S G of S that an architecture lets through.

    Examples
    --------
    >>> import torch
    >>> S = data_covariance(torch.tensor([[1.0, 0.0], [1.0, 2.0]]))
    >>> S.matrix().tolist()
    [[2.0, 2.0], [2.0, 4.0]]
    """
    X = checked_samples(X)
    rows = X.detach().cpu().flatten(1)
    if centred:
        rows = rows - rows.mean(0)
    scale = 1 / len(rows) if normalised else 1.0
    return Geometry(Factored(rows, scale), tuple(X.shape[1:]), Provenance("data", members=0, exact=True))
