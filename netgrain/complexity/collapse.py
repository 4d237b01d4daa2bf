"""Neural collapse: how tightly a layer packs its classes, and how the steepness of the layer bounds it (2405.15706).

With the embedding φ, class means μ_i and Var_i = E‖φ − μ_i‖² of class i:

    CDNV_ij = (Var_i + Var_j) / (2‖μ_i − μ_j‖²)  ≤  (c_i GC_i + c_j GC_j) / (2‖μ_i − μ_j‖²)   geometric collapse

by a Poincaré inequality Var_i ≤ c_i GC_i for the law of each class, GC_i the geometric complexity of φ on class i. A
sample of class i is nearer to another mean only if ‖φ − μ_i‖ ≥ ‖μ_i − μ_j‖/2, so that (Chebyshev)

    error of the nearest mean on class i ≤ Σ_{j≠i} 4 Var_i / ‖μ_i − μ_j‖²
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from netgrain.complexity.certificates import Poincare, poincare_constants
from netgrain.complexity.checks import checked_labels
from netgrain.complexity.estimators import BATCH, Effort, squared_norms
from netgrain.complexity.functions import map_of
from netgrain.runtime.errors import NetgrainError
from netgrain.runtime.threads import one_thread


@dataclass(frozen=True, eq=False, repr=False)
class NeuralCollapse:
    """How far the classes have collapsed in a layer; see `neural_collapse`.

    Attributes
    ----------
    labels : tuple of int
        The classes with samples.
    pairs_cdnv, pairs_geometric : Tensor of shape (classes, classes)
        CDNV and geometric collapse of each pair, diagonal 0.
    class_gc : Tensor of shape (classes,)
        GC_i of the embedding.
    class_variance : Tensor of shape (classes,)
        E‖φ − μ_i‖².
    class_bound : Tensor of shape (classes,)
        Chebyshev's bound on the nearest-mean error, at most 1.
    class_error : Tensor of shape (classes,)
        Share of the samples nearer to another mean.
    shares : Tensor of shape (classes,)
        Share of each class among the samples.
    distances : Tensor of shape (classes, classes)
        ‖μ_i − μ_j‖².
    assumption : str
        The assumption about the Poincaré constants, in words.
    """

    labels: tuple[int, ...]
    pairs_cdnv: Tensor
    pairs_geometric: Tensor
    class_gc: Tensor  # (classes,) GC_i of the embedding
    class_variance: Tensor  # (classes,) E‖φ − μ_i‖²
    class_bound: Tensor  # (classes,) Chebyshev's bound on the nearest-mean error, at most 1
    class_error: Tensor  # (classes,) share of the samples nearer to another mean
    shares: Tensor  # (classes,) of the samples
    distances: Tensor  # (classes, classes) ‖μ_i − μ_j‖²
    assumption: str

    @property
    def cdnv(self) -> float:
        """Class-distance normalised variance, mean over pairs of classes."""
        return _off_diagonal(self.pairs_cdnv)

    @property
    def geometric_collapse(self) -> float:
        """Its bound by geometric complexity, mean over pairs of classes."""
        return _off_diagonal(self.pairs_geometric)

    @property
    def embedding_gc(self) -> float:
        """GC of the embedding on all samples."""
        return float(self.shares @ self.class_gc)

    @property
    def ncc_accuracy(self) -> float:
        """Share of the samples that are nearest to the mean of their own class."""
        return float(self.shares @ (1 - self.class_error))

    @property
    def chebyshev_bound(self) -> float:
        """Bound on 1 − ncc_accuracy; it always holds on the sample that gave the means."""
        return float(self.shares @ self.class_bound)

    def __repr__(self) -> str:
        return (
            f"NeuralCollapse(CDNV {self.cdnv:.4g}, geometric collapse {self.geometric_collapse:.4g} "
            f"({self.assumption}), embedding GC {self.embedding_gc:.4g}, nearest-mean accuracy {self.ncc_accuracy:.4g} "
            f"(≥ {1 - self.chebyshev_bound:.3g} by Chebyshev), {len(self.labels)} classes)"
        )


@one_thread()
def neural_collapse(
    model: nn.Module,
    X: Tensor,
    y: Tensor,
    layer: str | None,
    *,
    poincare: Poincare | None = None,
    batch: int = BATCH,
    seed: int = 0,
) -> NeuralCollapse:
    """How tightly a layer clusters the classes, and the bound that its slopes give.

    CDNV_ij = (Var_i + Var_j)/(2‖μ_i − μ_j‖²) and its bound by geometric complexity,
    (c_i GC_i + c_j GC_j)/(2‖μ_i − μ_j‖²). Var_i divides by the number of samples.

    Parameters
    ----------
    model : torch.nn.Module
        The network, in eval mode; its mode, gradients and buffers, and the random generators, are not changed.
    X : Tensor of shape (samples, *input_shape)
        Points at which slopes are measured, as the network takes them; complexity is per unit of this input.
    y : Tensor of shape (samples,)
        Labels, whole numbers from 0.
    layer : str or None
        Name of the submodule whose output is the embedding φ; None takes the model's output.
    poincare : "gaussian", float or dict of int to float, optional
        Constants c_i as in `gc_error_bound`. By default 1: geometric collapse is then a score to compare
        networks on the same data with, not a bound.
    batch : int, default 256
        Number of points to differentiate together; it changes the result only by rounding.
    seed : int, default 0
        Seed of everything random.

    Returns
    -------
    NeuralCollapse
        Numbers over pairs of classes, over classes, and their means.

    References
    ----------
    .. [1] Munn, Dherin, Gonzalvo, "The impact of geometric complexity on neural collapse in transfer
       learning", arXiv 2405.15706.

    Examples
    --------
    Points 0, 2 and 10, 12 on a line: means 1 and 11, variances 1, so CDNV = 1/100; the identity has GC 1.

    >>> net = nn.Sequential(nn.Linear(1, 1, bias=False))
    >>> _ = net[0].weight.data.fill_(1.0)
    >>> X, y = torch.tensor([[0.0], [2.0], [10.0], [12.0]]), torch.tensor([0, 0, 1, 1])
    >>> found = neural_collapse(net, X, y, "0")
    >>> found.cdnv, found.geometric_collapse, found.ncc_accuracy, found.chebyshev_bound
    (0.01, 0.01, 1.0, 0.04)
    """
    with map_of(model, X, layer=layer) as f:
        labels = checked_labels(y, f.n)
        present = labels.unique()
        if len(present) < 2:
            raise NetgrainError("expected samples of at least two classes, found one: collapse compares classes.")
        norms = squared_norms(f, Effort(batch=batch, seed=seed)).values
        phi = f.outputs(batch)
        if poincare is None:
            constants, assumption = dict.fromkeys(present.tolist(), 1.0), "c_P = 1, a score and no bound"
        else:
            constants, assumption = poincare_constants(f.X, labels, poincare)
    member = (labels[None] == present[:, None]).double()  # (classes, n)
    counts = member.sum(1)
    means = member @ phi / counts[:, None]
    own = torch.searchsorted(present, labels)
    variance = member @ (phi - means[own]).square().sum(1) / counts
    gc = member @ norms / counts
    distances = (means[:, None] - means[None]).square().sum(2)
    apart = distances.clone().fill_diagonal_(math.inf)
    if not bool((apart > 0).all()):
        raise NetgrainError("two classes have the same mean in this layer, so their collapse is not defined.")
    scaled = gc * torch.tensor([constants[c] for c in present.tolist()], dtype=torch.float64)
    wrong = _nearest(phi, means) != own
    return NeuralCollapse(
        tuple(present.tolist()),
        (variance[:, None] + variance[None]) / (2 * apart),
        (scaled[:, None] + scaled[None]) / (2 * apart),
        gc,
        variance,
        (4 * variance[:, None] / apart).sum(1).clamp_max(1.0),
        member @ wrong.double() / counts,
        counts / len(labels),
        distances,
        assumption,
    )


def _off_diagonal(pairs: Tensor) -> float:
    return float(pairs.sum()) / (len(pairs) * (len(pairs) - 1))


def _nearest(phi: Tensor, means: Tensor) -> Tensor:
    """Index of the nearest mean; differences, not the expanded square, so that far-away classes keep their digits."""
    return torch.cat(
        [torch.cdist(p, means, compute_mode="donot_use_mm_for_euclid_dist") for p in phi.split(1024)]
    ).argmin(1)
