"""How much of a label lies where a family reacts most: class means, a linear rule, and a test for what is not linear.

Directions v_i are the eigenvectors of G, λ_i their eigenvalues. The leading ones carry 99 % of tr G (whole blocks of
equal eigenvalues); the others are the weak ones. For an MLP at the origin all are leading. This is what fresh networks
react to, not what they can learn: on digits a ResNet18 trained on the weak directions alone gets as many right as a
linear rule does there (docs/audit.md).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from netgrain.auditing.axes import Axes
from netgrain.geometry.estimate import Estimate
from netgrain.runtime.errors import NetgrainError
from netgrain.runtime.randomness import generator_for
from netgrain.runtime.samples import check_two_classes, checked_labels, checked_samples

FOLDS = 8  # of the samples, for error bars
TEST_SAMPLES = 4000  # behind a distance correlation
MOST_TESTED = 1024  # directions tested for what is not linear
SHRINK = 0.1  # of the within-class covariance towards a multiple of the identity, at least
DROPPED = (0.5, 0.7, 0.9, 0.95)  # shares of tr G whose directions are also tried alone
NULLS = 4  # permutations of the labels, to know what chance gives


@dataclass(frozen=True, eq=False)
class Relevance:
    """Where variance and labels of a data set lie along the axes of a family."""

    variance: Tensor  # (d,) of the data along each direction
    spectrum: Tensor  # (d,) eigenvalues of the data's own covariance, descending
    explained: Tensor  # (d,) share of that variance which lies between class means, bias-corrected, 0 … 1
    variance_leading: Estimate  # share of all variance
    means_leading: Estimate  # share of the distances between class means
    linear: dict[str, Estimate]  # accuracy of a linear rule on "all", "leading", "weak" directions
    by_count: dict[int, Estimate]  # the same on so many leading directions: what dropping the others costs
    chance: float  # share of the largest class
    tested: Tensor  # indices of directions
    dependence: Tensor  # squared distance correlation with the label along them, 0 for independence
    dependence_leading: Estimate  # share of the dependence found
    reaction: Estimate  # to the directions that carry the label, relative to an average one


def relevance(axes: Axes, X: Tensor, y: Tensor | None, *, seed: int = 0) -> Relevance:
    """X (samples, *shape) with labels y (samples,); without classes what is about labels is NaN.

    The reaction is the eigenvalue where the label is over the mean one, Σ p_i λ_i / (tr G / d), p_i the share of the
    label's dependence on direction i (its squared distance correlation above what permuted labels give): 1 for a label
    anywhere, more for one in the grain, nearly 0 for one along directions to which fresh networks hardly react. It is
    no prediction of accuracy. Errors are over eight parts of the samples.
    """
    X = checked_samples(X).cpu().flatten(1).float()
    _check(axes, X)
    if y is None or y.is_floating_point():
        return _unlabelled(axes, X, seed)
    y = checked_labels(y, len(X)).cpu()
    check_two_classes(y)
    order = torch.randperm(len(X), generator=generator_for(seed, "relevance"))
    folds = [_Fold.of(rows, X[rows], y[rows], int(y.max()) + 1) for rows in order.chunk(FOLDS)]
    whole = _Fold.sum(folds)
    V, k = axes.vectors, axes.leading
    variance, between = whole.along(V)
    total = variance.sum()
    explained = (between / variance.clamp(min=1e-12 * float(variance.max()))).clamp(0, 1)
    inside = Estimate(float(variance[:k].sum() / total), _ratio_error(X[order[:TEST_SAMPLES]], V[:k], len(X)), len(X))
    tested, dependence, per_fold = _dependence(axes, X, y, order, seed)
    p_inside, reaction = _located(axes, tested, dependence, per_fold)
    counts = whole.counts
    linear, by_count = _linear(axes, X, y, folds)
    return Relevance(
        variance=variance,
        spectrum=torch.linalg.eigvalsh(whole.centred()[2]).flip(0).clamp(min=0),
        explained=explained,
        variance_leading=inside,
        means_leading=_means_inside(folds, V[:k]),
        linear=linear,
        by_count=by_count,
        chance=float(counts.max() / counts.sum()),
        tested=tested,
        dependence=dependence,
        dependence_leading=p_inside,
        reaction=reaction,
    )


def _unlabelled(axes: Axes, X: Tensor, seed: int) -> Relevance:
    """Where the variance lies; NaN or nothing for labels."""
    order = torch.randperm(len(X), generator=generator_for(seed, "relevance"))
    whole = _Fold.of(order, X[order], torch.zeros(len(X), dtype=torch.int64), 1)
    V, k, unknown = axes.vectors, axes.leading, Estimate(math.nan)
    variance, _ = whole.along(V)
    inside = float(variance[:k].sum() / variance.sum())
    none = torch.zeros(0)
    return Relevance(
        variance=variance,
        spectrum=torch.linalg.eigvalsh(whole.centred()[2]).flip(0).clamp(min=0),
        explained=torch.full_like(variance, math.nan),
        variance_leading=Estimate(inside, _ratio_error(X[order[:TEST_SAMPLES]], V[:k], len(X)), len(X)),
        means_leading=unknown,
        linear=dict.fromkeys(("all", "leading", "weak"), unknown),
        by_count={},
        chance=math.nan,
        tested=none.long(),
        dependence=none.double(),
        dependence_leading=unknown,
        reaction=unknown,
    )


def _check(axes: Axes, X: Tensor) -> None:
    if X.shape[1] != len(axes.values):
        raise NetgrainError(f"the data have {X.shape[1]} entries a sample, the network takes {len(axes.values)}.")
    if len(X) < 4 * FOLDS:
        raise NetgrainError(f"{len(X)} samples are too few to say where the label lies; expected at least {4 * FOLDS}.")


# --- class means ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Fold:
    """Sums over some samples (rows of X): counts (classes,), sums (classes, d), second moment (d, d)."""

    rows: Tensor
    counts: Tensor
    sums: Tensor
    squares: Tensor

    @staticmethod
    def of(rows: Tensor, X: Tensor, y: Tensor, classes: int) -> _Fold:
        sums = torch.zeros(classes, X.shape[1], dtype=torch.float64).index_add_(0, y, X.double())
        squares = torch.zeros(X.shape[1], X.shape[1], dtype=torch.float64)
        for part in X.split(4096):
            squares += (part.T @ part).double()
        return _Fold(rows, torch.bincount(y, minlength=classes).double(), sums, squares)

    @staticmethod
    def sum(folds: list[_Fold]) -> _Fold:
        return _Fold(
            torch.cat([f.rows for f in folds]),
            torch.stack([f.counts for f in folds]).sum(0),
            torch.stack([f.sums for f in folds]).sum(0),
            sum((f.squares for f in folds[1:]), folds[0].squares.clone()),
        )

    def centred(self) -> tuple[Tensor, Tensor, Tensor]:
        """Shares of the classes, their means (classes, d) about the mean of all, and the covariance."""
        n = self.counts.sum()
        mean = self.sums.sum(0) / n
        means = self.sums / self.counts.clamp(min=1)[:, None] - mean
        return self.counts / n, means, self.squares / n - torch.outer(mean, mean)

    def along(self, V: Tensor) -> tuple[Tensor, Tensor]:
        """Along each row of V: variance, and the part of it between class means (bias-corrected)."""
        shares, means, covariance = self.centred()
        variance = ((V @ covariance) * V).sum(1).clamp(min=0)
        raw = (shares[:, None] * (means @ V.T).square()).sum(0)
        classes, n = int((self.counts > 0).sum()), float(self.counts.sum())
        within = (variance - raw).clamp(min=0) * n / max(n - classes, 1)
        return variance, (raw - within * (classes - 1) / n).clamp(min=0)


def _means_inside(folds: list[_Fold], V: Tensor) -> Estimate:
    """The share of Σ_c π_c ‖μ_c − μ‖² inside the span of V, from products of means of different folds: unbiased."""

    def share(some: list[_Fold]) -> float:
        total = _Fold.sum(some)
        shares = total.centred()[0]
        own = torch.stack([shares[:, None].sqrt() * f.centred()[1] for f in some])  # (folds, classes, d)
        rows = torch.stack([own.sum(0), (own @ V.T @ V).sum(0)])
        m = len(some)
        squares = [float(r.square().sum()) for r in rows]
        diagonal = [float(own.square().sum()), float((own @ V.T).square().sum())]
        everything, inside = ((s - q) / (m * (m - 1)) for s, q in zip(squares, diagonal, strict=True))
        return inside / everything if everything > 0 else math.nan

    value = share(folds)
    without = [share([f for j, f in enumerate(folds) if j != i]) for i in range(len(folds))]
    mean = sum(without) / len(without)
    n = len(folds)
    return Estimate(min(max(value, 0.0), 1.0), math.sqrt((n - 1) / n * sum((w - mean) ** 2 for w in without)), n)


# --- a linear rule ----------------------------------------------------------------------------------------------------


def _linear(axes: Axes, X: Tensor, y: Tensor, folds: list[_Fold]) -> tuple[dict[str, Estimate], dict[int, Estimate]]:
    """Accuracy of the linear discriminant learnt on one half and tried on the other, both ways round."""
    V, k = axes.vectors, axes.leading
    middle = len(folds) // 2
    halves = _Fold.sum(folds[:middle]), _Fold.sum(folds[middle:])
    spaces: dict[str | int, slice] = {"all": slice(0, len(V)), "leading": slice(0, k), "weak": slice(k, len(V))}
    cumulative = axes.values.cumsum(0) / axes.values.sum()
    some = sorted({int((cumulative < share).sum()) + 1 for share in DROPPED} - {k, len(V)})
    spaces |= {m: slice(0, m) for m in some}
    right = dict.fromkeys(spaces, 0.0)
    for learn, test in (halves, halves[::-1]):
        shares, means, covariance = learn.centred()
        mean = learn.sums.sum(0) / learn.counts.sum()
        within = V @ (covariance - (means.T * shares) @ means) @ V.T
        for name, where in spaces.items():
            W, M = within[where, where], means @ V[where].T
            if not len(W):
                right[name] = math.nan
                continue
            rule = torch.linalg.solve(shrunk(W, len(learn.rows)), M.T)  # (directions, classes)
            offset = -0.5 * (M * rule.T).sum(1) + shares.clamp(min=1e-12).log()
            offset[shares == 0] = -math.inf
            matrix = (V[where].T @ rule).float()
            outputs = X[test.rows] @ matrix + (offset - mean @ matrix.double()).float()
            right[name] += float((outputs.argmax(1) == y[test.rows]).double().sum())
    n = len(X)

    def share(c: float) -> Estimate:
        if math.isnan(c):
            return Estimate(math.nan)
        return Estimate(c / n, math.sqrt(max(c / n * (1 - c / n), 0.0) / n), n)

    found = {name: share(c) for name, c in right.items()}
    by_count = {m: found[m] for m in some} | {k: found["leading"]}
    return {str(name): v for name, v in found.items() if isinstance(name, str)}, by_count


def shrunk(covariance: Tensor, samples: int) -> Tensor:
    """A covariance within classes, drawn towards a multiple of the identity; the more, the fewer samples it is from."""
    shrink = min(max(SHRINK, len(covariance) / samples), 0.9)
    ridge = max(float(covariance.diagonal().mean()) * shrink, 1e-12)
    return (1 - shrink) * covariance + ridge * torch.eye(len(covariance), dtype=torch.float64)


# --- what is not linear -----------------------------------------------------------------------------------------------


def distance_correlation(x: Tensor, y: Tensor) -> Tensor:
    """Squared distance correlation, bias-corrected, of every column of x (samples, columns) with labels y (samples,).

    Labels are at distance 0 or 1. Independent variables give 0 on average (single values may be negative), and only
    independent ones do in the limit: it sees what is not linear, too. Székely and Rizzo 2014.

    >>> x = torch.linspace(-2, 2, 40)[:, None]  # the label depends on |x|, so it is not correlated with x
    >>> bool(distance_correlation(x, (x[:, 0].abs() > 1).long()) > 0.05)
    True
    """
    n = len(x)
    if n < 4:
        raise NetgrainError(f"expected at least 4 samples for a distance correlation, found {n}.")
    x = x.double() - x.double().mean(0)
    order = x.argsort(0)
    rows, total = _row_sums(x, order)
    labels, y = y.unique(return_inverse=True)
    counts = torch.bincount(y, minlength=len(labels)).double()
    same = torch.zeros_like(total)
    for c in range(len(labels)):
        mine = x[y == c]
        same += _row_sums(mine, mine.argsort(0))[1]
    b_rows = (n - counts)[y]
    b_total = b_rows.sum()
    squares = 2 * n * x.square().sum(0)  # Σ (x_i − x_j)², the columns being centred
    across = _unbiased(total - same, (rows * b_rows[:, None]).sum(0), total * b_total, n)
    own = _unbiased(squares, rows.square().sum(0), total.square(), n)
    own_b = _unbiased(b_total, b_rows.square().sum(), b_total.square(), n)
    scale = own * own_b
    return torch.where(scale > 0, across / scale.clamp(min=1e-300).sqrt(), torch.zeros_like(across))


def _row_sums(x: Tensor, order: Tensor) -> tuple[Tensor, Tensor]:
    """Σ_j |x_i − x_j| for every i and column, and their sum: by sorting, without all pairs."""
    n = len(x)
    sorted_x = x.gather(0, order)
    place = torch.arange(n, dtype=torch.float64)[:, None]
    before = sorted_x.cumsum(0)
    sums = (2 * place + 2 - n) * sorted_x - 2 * before + sorted_x.sum(0)
    return torch.empty_like(x).scatter_(0, order, sums), sums.sum(0)


def _unbiased(pairs: Tensor, rows: Tensor, totals: Tensor, n: int) -> Tensor:
    """The inner product of two U-centred distance matrices, from Σ a_ij b_ij, Σ a_i. b_i. and a.. b.. ."""
    return (pairs - 2 * rows / (n - 2) + totals / ((n - 1) * (n - 2))) / (n * (n - 3))


def _dependence(axes: Axes, X: Tensor, y: Tensor, order: Tensor, seed: int) -> tuple[Tensor, Tensor, list[Tensor]]:
    """Tested directions, their dependence above chance, and the same without each of the eight parts of the samples."""
    d = len(axes.values)
    generator = generator_for(seed, "probed directions")
    if d <= MOST_TESTED:
        tested = torch.arange(d)
    else:  # the leading ones, which matter most, and a random choice of the others
        first = MOST_TESTED // 2
        rest = first + torch.randperm(d - first, generator=generator)[: MOST_TESTED - first].sort().values
        tested = torch.cat([torch.arange(first), rest])
    rows = order[:TEST_SAMPLES]
    projected = X[rows] @ axes.vectors[tested].T.float()
    labels = y[rows]
    found = distance_correlation(projected, labels)
    nulls = torch.stack(
        [distance_correlation(projected, labels[torch.randperm(len(rows), generator=generator)]) for _ in range(NULLS)]
    )
    threshold = 2 * float(nulls.square().mean().sqrt())
    without = []
    for part in torch.arange(len(rows)).chunk(FOLDS):
        kept = torch.ones(len(rows), dtype=torch.bool)
        kept[part] = False
        # what chance gives falls as one over the number of samples
        chance = threshold * len(rows) / int(kept.sum())
        without.append((distance_correlation(projected[kept], labels[kept]) - chance).clamp(min=0))
    return tested, (found - threshold).clamp(min=0), without


def _located(axes: Axes, tested: Tensor, dependence: Tensor, without: list[Tensor]) -> tuple[Estimate, Estimate]:
    """The share of the dependence in leading directions, and the reaction; errors by the jackknife."""
    # where only some of the later directions were tested, each stands for several
    weight = torch.ones(len(tested), dtype=torch.float64)
    d, first = len(axes.values), MOST_TESTED // 2
    if len(tested) < d:
        weight[first:] = (d - first) / (len(tested) - first)
    inside = (tested < axes.leading).double()
    relative = axes.values[tested] / axes.values.mean()

    def both(found: Tensor) -> tuple[float, float]:
        p = found * weight
        if not float(p.sum()) > 0:
            return math.nan, math.nan
        p = p / p.sum()
        return float((p * inside).sum()), float((p * relative).sum())

    value = both(dependence)
    deleted = torch.tensor([both(w) for w in without], dtype=torch.float64)  # (parts, 2)
    n = len(deleted)
    errors = ((n - 1) * deleted.var(0, correction=0)).sqrt().tolist()
    return Estimate(value[0], errors[0], n), Estimate(value[1], errors[1], n)


def _ratio_error(X: Tensor, V: Tensor, n: int) -> float:
    """Standard error of the share of variance inside the span of V, from some of n samples."""
    centred = X - X.mean(0)
    inside, whole = (centred @ V.T.float()).square().sum(1).double(), centred.square().sum(1).double()
    ratio = inside.mean() / whole.mean()
    return float((inside - ratio * whole).std() / whole.mean()) / math.sqrt(n)
