"""Which samples and which directions of a data set a family reacts to: scores, pruning, elimination of features."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from netgrain.geometry.forms import DENSE_LIMIT
from netgrain.geometry.value import Geometry
from netgrain.runtime.errors import NetgrainError
from netgrain.runtime.randomness import derived_seed
from netgrain.runtime.samples import checked_labels, checked_samples

ROUNDING = 1e-12  # relative: a share that is missed by less counts as reached


def score(G: Geometry, X: Tensor, *, centre: bool | Tensor = False) -> Tensor:
    """How strongly fresh networks react along each sample, xᵀGx / ‖x‖².

    Parameters
    ----------
    G : Geometry
        Of the family, such as `average_geometry` gives it.
    X : Tensor of shape (samples, *input_shape) or (samples, d)
        Samples.
    centre : bool or Tensor of shape input_shape, default False
        Subtract the mean of X first, or the mean given here (that of the training samples, for others). The common part
        of all samples dominates in faint ones, so without centring, images without contrast may score high.

    Returns
    -------
    Tensor of shape (samples,)
        NaN for a sample of zeros.

    Raises
    ------
    NetgrainError
        If the samples have another shape than the inputs of G, or if only leading directions of G were kept.

    See Also
    --------
    prune : Keep the samples that score highest.

    Examples
    --------
    >>> G = Geometry.from_matrix(torch.diag(torch.tensor([3.0, 1.0])))
    >>> X = torch.tensor([[1.0, 0.0], [0.0, 2.0], [1.0, 1.0]])
    >>> score(G, X).tolist()
    [3.0, 1.0, 2.0]
    >>> score(G, X, centre=torch.tensor([1.0, 1.0])).tolist()  # the last sample is the mean itself
    [1.0, 2.0, nan]
    """
    X = _fitting(G, X)
    if G.truncated:
        raise NetgrainError(
            f"only {len(G.eigenvalues)} leading directions of this geometry (d = {G.d}) were kept, which is too little "
            "for a score; ask for fewer members, whose gradients fit the memory, or for a tolerance."
        )
    return G.score(centred(X, centre))


def centred(X: Tensor, centre: bool | Tensor = True) -> Tensor:
    """X without the mean of its samples, or without the mean that is given (one sample)."""
    X = torch.as_tensor(X)
    if centre is False:
        return X
    if centre is True:
        return X - X.mean(0, dtype=torch.float64).to(X.dtype)
    mean = torch.as_tensor(centre).detach().to(X)
    if mean.shape != X.shape[1:]:
        raise NetgrainError(
            f"centre has shape {tuple(mean.shape)}, the samples have {tuple(X.shape[1:])}; pass the mean of the "
            "training samples, or True for the mean of these."
        )
    return X - mean


def prune(
    G: Geometry,
    X: Tensor,
    y: Tensor | None = None,
    *,
    keep: float = 0.7,
    per_class: bool = True,
    lowest: bool = True,
    centre: bool | Tensor = False,
) -> Tensor:
    """Indices of the samples that stay when the weakest ones are dropped.

    Samples are ranked by `score`, each class by itself.

    Parameters
    ----------
    G : Geometry
        Of the family.
    X : Tensor of shape (samples, *input_shape) or (samples, d)
        Samples.
    y : Tensor of shape (samples,), optional
        Labels, any whole numbers.
    keep : float, default 0.7
        Share of the samples to keep; at least one of each class is kept.
    per_class : bool, default True
        Rank each class by itself, where there are labels.
    lowest : bool, default True
        Drop the lowest-scored samples; False drops the highest-scored instead.
    centre : bool or Tensor of shape input_shape, default False
        As in `score`.

    Returns
    -------
    Tensor of shape (kept,)
        Indices in ascending order. Among equal scores the earlier sample is kept.

    Raises
    ------
    NetgrainError
        If `keep` is not a share between 0 and 1, or a sample has no score.

    See Also
    --------
    score : The scores themselves.

    References
    ----------
    .. [1] Movahedi, Orvieto, Moosavi-Dezfooli, "Geometric Inductive Biases of Deep Networks: the
       Role of Data and Architecture".

    Examples
    --------
    >>> G = Geometry.from_matrix(torch.diag(torch.tensor([3.0, 1.0])))
    >>> X = torch.tensor([[0.0, 1.0], [1.0, 0.0], [1.0, 1.0], [5.0, 1.0]])
    >>> prune(G, X, keep=0.5).tolist()
    [1, 3]
    >>> prune(G, X, torch.tensor([0, 1, 0, 1]), keep=0.5).tolist()
    [1, 2]
    """
    if not isinstance(keep, int | float) or not 0 < keep <= 1:
        raise NetgrainError(
            f"expected keep as a share above 0 and at most 1, found {keep!r}; 0.7 drops 30 % of the samples."
        )
    X = _fitting(G, X)
    scores = score(G, X, centre=centre)
    if bool(scores.isnan().any()):
        where = int(scores.isnan().nonzero()[0])
        raise NetgrainError(
            f"sample {where} has no score (it is zero or not finite), expected xᵀGx / ‖x‖² to exist; drop it first."
        )
    if y is not None and per_class:
        y = checked_labels(y, len(X)).cpu()  # any whole numbers: they only group the samples
    return best(scores, y if per_class else None, keep=keep, lowest=lowest)


def best(scores: Tensor, y: Tensor | None, *, keep: float, lowest: bool = True) -> Tensor:
    """Indices of the samples with the best scores, each class by itself; in ascending order.

    >>> best(torch.tensor([3.0, 1.0, 2.0]), None, keep=0.67).tolist()
    [0, 2]
    """
    if y is None:
        return _best(scores, torch.arange(len(scores)), keep, lowest).sort().values
    kept = [_best(scores, (y == label).nonzero()[:, 0], keep, lowest) for label in y.unique()]
    return torch.cat(kept).sort().values if kept else torch.zeros(0, dtype=torch.int64)


def _best(scores: Tensor, group: Tensor, keep: float, lowest: bool) -> Tensor:
    """The indices of a group (ascending) that stay."""
    ranked = scores[group].argsort(descending=lowest, stable=True)
    return group[ranked[: max(1, round(keep * len(group)))]]


def feature_basis(G: Geometry, S: Geometry, *, epsilon: float = 1e-6) -> Tensor:
    """An orthonormal basis of the input space, from what the data have and the family reacts to least to the opposite.

    S v = λ (G + ε·tr(G)/d·I) v with λ descending, then Gram–Schmidt in that order; shape (d, *input_shape), float64.
    Large λ means much variance along directions to which fresh networks hardly react. Where G is singular ε decides,
    so report how a result changes with it. Inside a run of equal λ (the null space of S, for one) single
    vectors mean nothing. Every vector's largest coordinate is positive.

    >>> G = Geometry.from_matrix(torch.diag(torch.tensor([1.0, 4.0, 1.0])))
    >>> S = Geometry.from_matrix(torch.diag(torch.tensor([2.0, 4.0, 3.0])))  # λ = 2, 1, 3
    >>> feature_basis(G, S).abs().round(decimals=6).tolist()
    [[0.0, 0.0, 1.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]
    """
    _check_pair(G, S)
    if not (epsilon > 0 and math.isfinite(epsilon)):
        raise NetgrainError(f"expected epsilon as a small positive number such as 1e-6, found {epsilon}.")
    matrix = G.matrix()
    ridge = epsilon * float(matrix.trace()) / G.d
    if ridge <= 0:
        raise NetgrainError(
            f"expected a geometry with positive trace, found {float(matrix.trace()):g}: "
            "it favours no direction, so there is no basis to make; probe where the network reacts to its input."
        )
    matrix.diagonal().add_(ridge)
    factor, failed = torch.linalg.cholesky_ex(matrix)
    if int(failed):
        raise NetgrainError(
            f"G + ε·tr(G)/d·I is not positive definite with ε = {epsilon:g}, expected G to have no negative "
            "eigenvalues beyond that; use a larger epsilon or project G onto its positive part."
        )
    # with G + … = L Lᵀ and v = L⁻ᵀ u the problem is the ordinary L⁻¹ S L⁻ᵀ u = λ u
    half = torch.linalg.solve_triangular(factor, S.matrix(), upper=False)
    whitened = torch.linalg.solve_triangular(factor, half.T, upper=False)
    _, u = torch.linalg.eigh((whitened + whitened.T) / 2)
    v = torch.linalg.solve_triangular(factor.T, u.flip(1), upper=True)
    q, _ = torch.linalg.qr(v / torch.linalg.vector_norm(v, dim=0))
    return _signed(q.T).reshape(G.d, *G.input_shape)


def _signed(rows: Tensor) -> Tensor:
    """Each row with its largest coordinate positive."""
    largest = rows.gather(1, rows.abs().argmax(1, keepdim=True))
    return rows * torch.where(largest < 0, -1.0, 1.0).to(rows.dtype)


def eliminate(X: Tensor, basis: Tensor, k: int) -> Tensor:
    """Q_k x = x − Σ_{i≤k} v_i v_iᵀ x for every sample: the first k directions of an orthonormal basis taken out.

    Shapes: X (samples, *input_shape) or (samples, d), basis (directions, *input_shape); the result is like X.

    >>> eliminate(torch.tensor([[1.0, 2.0, 3.0]]), torch.eye(3), 2).tolist()
    [[0.0, 0.0, 3.0]]
    """
    return _removed(X, _rows(basis, k), torch.ones(k, dtype=torch.float64))


def explained_variance(S: Geometry, basis: Tensor, k: int | None = None) -> float:
    """Σ_{i≤k} v_iᵀ S v_i / tr S: the share of the data's variance along the first k directions (None: all given).

    >>> S = Geometry.from_matrix(torch.diag(torch.tensor([1.0, 2.0, 5.0])))
    >>> explained_variance(S, torch.eye(3), 2)
    0.375
    """
    return float(_shares(S, _rows(basis, k)).sum())


def random_baseline(S: Geometry, variance: float, *, seed: int) -> tuple[Tensor, int]:
    """Random orthonormal directions and the smallest number of them that explains a share of the variance.

    The basis (d, *input_shape) is the orthogonal factor of a Gaussian matrix with the signs of its triangular
    factor's diagonal, hence uniformly distributed; k is the smallest number with Σ_{i≤k} v_iᵀ S v_i ≥ variance · tr S.

    >>> S = Geometry.from_matrix(torch.eye(8))
    >>> basis, k = random_baseline(S, 0.5, seed=0)  # every direction explains one eighth
    >>> tuple(basis.shape), k
    ((8, 8), 4)
    """
    _check_share(variance)
    generator = torch.Generator().manual_seed(derived_seed(seed, "random baseline"))
    q, r = torch.linalg.qr(torch.randn(S.d, S.d, generator=generator, dtype=torch.float64))
    rows = (q * torch.where(r.diagonal() < 0, -1.0, 1.0).to(q.dtype)).T.contiguous()
    return rows.reshape(S.d, *S.input_shape), _needed(_shares(S, rows), variance)


def eliminate_variance(X: Tensor, basis: Tensor, S: Geometry, variance: float) -> Tensor:
    """Take out directions in order until exactly a share of the variance is gone, the last of them in part.

    Q = I − Σ_{i<k} v_i v_iᵀ − c v_k v_kᵀ, k the smallest number whose explained variance reaches the share. The
    variance removed is tr S − tr QSQ = Σ_{i<k} v_iᵀSv_i + (1 − (1−c)²) v_kᵀSv_k, and c ∈ (0, 1] makes it
    variance · tr S. With S = data_covariance(X), Σ‖Qx‖² = (1 − variance) Σ‖x‖². Two bases are then compared at equal
    variance, which whole directions cannot do.

    >>> X = torch.tensor([[2.0, 0.0], [0.0, 2.0]])
    >>> S = Geometry.from_matrix(4 * torch.eye(2))
    >>> eliminate_variance(X, torch.eye(2), S, 0.875).tolist()  # 1 − (1−c)² = 3/4, c = 1/2
    [[0.0, 0.0], [0.0, 1.0]]
    """
    _check_share(variance)
    rows = _rows(basis)
    shares = _shares(S, rows)
    k = _needed(shares, variance)
    weights = torch.ones(k, dtype=torch.float64)
    part = (variance - float(shares[: k - 1].sum())) / float(shares[k - 1])
    weights[-1] = 1 - math.sqrt(1 - min(max(part, 0.0), 1.0))
    return _removed(X, rows[:k], weights)


# --- inside -------------------------------------------------------------------------------------------------------


def _fitting(G: Geometry, X: Tensor) -> Tensor:
    """Samples of the geometry's shape, or flat; entries in another order would be scored without a word."""
    X = checked_samples(X, whole_too=True)
    shape = tuple(X.shape[1:])
    if shape in (G.input_shape, (G.d,)) or (len(G.input_shape) == 1 and math.prod(shape) == G.d):
        return X
    last = len(shape) == 3 and (shape[2], *shape[:2]) == G.input_shape
    way = "the channels seem to be last: pass X.permute(0, 3, 1, 2)" if last else "use the same input for both"
    raise NetgrainError(f"X has samples of shape {shape}, G is for inputs of shape {G.input_shape}; {way}.")


def _check_pair(G: Geometry, S: Geometry) -> None:
    if G.d != S.d:
        raise NetgrainError(f"G is {G.d}-dimensional, S is {S.d}-dimensional; use the same input shape for both.")


def _check_share(variance: float) -> None:
    if not 0 < variance <= 1:
        raise NetgrainError(f"expected variance as a share above 0 and at most 1, found {variance}.")


def _rows(basis: Tensor, k: int | None = None) -> Tensor:
    """The first k directions (None: all), (k, d) in float64; refused unless orthonormal (by a few rows of many)."""
    rows = torch.as_tensor(basis).detach().cpu().double()
    if rows.dim() < 2:
        raise NetgrainError(
            f"expected a basis of shape (directions, *input_shape), found {tuple(rows.shape)}; for one use v[None]."
        )
    rows = rows.flatten(1)
    some = rows[:: max(1, len(rows) // 64)]
    if not torch.allclose(some @ some.T, torch.eye(len(some), dtype=torch.float64), atol=1e-5):
        raise NetgrainError(
            "expected orthonormal directions, found some that are not of unit length or not at right angles; "
            "orthonormalise them first, for example torch.linalg.qr(V.T).Q.T."
        )
    k = len(rows) if k is None else k
    if not 0 <= k <= len(rows):
        raise NetgrainError(f"expected between 0 and {len(rows)} directions (the basis has so many), found {k}.")
    return rows[:k]


def _shares(S: Geometry, rows: Tensor) -> Tensor:
    """v_iᵀ S v_i / tr S of every row, shape (directions,)."""
    if rows.shape[1] != S.d:
        raise NetgrainError(f"the directions have {rows.shape[1]} coordinates, S has {S.d}; use the same input shape.")
    total = S.trace.value
    if not total > 0:
        raise NetgrainError(f"expected data with positive variance, found tr S = {total:g}; pass samples that differ.")
    # many directions: the dense matrix, kept by the form, costs less than passing through all samples
    dense = len(rows) > S.d // 8 and S.d <= DENSE_LIMIT
    product = rows @ S.form.dense() if dense else S.form.matvec(rows)
    return (rows * product).sum(1) / total


def _needed(shares: Tensor, variance: float) -> int:
    """The smallest k with Σ_{i≤k} shares_i ≥ variance."""
    enough = (shares.cumsum(0) >= variance * (1 - ROUNDING)).nonzero()
    if not len(enough):
        raise NetgrainError(
            f"the {len(shares)} directions explain {float(shares.sum()):.6g} of the variance, {variance:g} was asked "
            "for; pass more directions or ask for less."
        )
    return int(enough[0]) + 1


def _removed(X: Tensor, rows: Tensor, weights: Tensor) -> Tensor:
    """x − Σ weights_i v_i v_iᵀ x, computed in float64, given back like X."""
    X = torch.as_tensor(X)
    if not X.is_floating_point() or X.dim() < 2 or X[:1].numel() != rows.shape[1] * len(X[:1]):
        raise NetgrainError(
            f"expected floating-point samples with {rows.shape[1]} coordinates each, found {X.dtype} "
            f"{tuple(X.shape)}; use the data the basis was made for."
        )
    weighted = rows * weights[:, None]
    pieces = []
    # in slices: a float64 copy of a whole data set may not fit
    for piece in X.detach().flatten(1).split(4096):
        flat = piece.cpu().double()
        pieces.append((flat - (flat @ rows.T) @ weighted).to(X.dtype))
    return torch.cat(pieces).reshape(X.shape).to(X.device) if pieces else X.clone()
