"""The label mode by mode: how much of it lies in which modes of the kernel, and how much of that n samples teach.

Eigenlearning (Bordelon, Canatar, Pehlevan; Simon et al.): operator eigenvalues λ_i, label coefficients v_i, noise σ²
and ridge δ. κ solves n = Σ λ_i/(λ_i + κ) + δ/κ, L_i = λ_i/(λ_i + κ) is how much of mode i is learnt, and

    E₀ = n/(n − Σ L_i²),  test error = E₀ (Σ (1 − L_i)² v_i² + σ²),  training error = (δ/(nκ))² · test error.

A sample's own eigenvectors hold all of any label, even a shuffled one. So coefficients come from halves A and B:
w, u from K_AA; a_i = u_i·y_A/√n_A; e_i = √n_A K_BA u_i/w_i; b_i = e_i·y_B/n_B; and v_i² ≈ a_i b_i, both ways.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from netgrain.geometry.estimate import Estimate
from netgrain.learning.decompositions import Decomposition, Features, centred, decomposed_either, part_of
from netgrain.learning.targets import Targets
from netgrain.runtime.errors import NetgrainError
from netgrain.runtime.randomness import generator_for

EDGES = (1, 3, 10, 30, 100, 300, 1000, 3000)  # last modes of bands
SPLITS = 4
MOST_SAMPLES = 1000  # in both halves together: more would take eight times as long for √2 smaller errors


@dataclass(frozen=True, eq=False)
class Eigenlearning:
    """What kernel ridge regression learns from n samples, in the limit of many modes.

    Attributes
    ----------
    kappa : float
        The eigenvalue of a mode that is half learnt.
    learnabilities : Tensor of shape (modes,)
        L_i, from 0 to 1.
    overfitting : float
        E₀, at least 1.
    test_error, train_error : float
        Mean squared errors, noise included.
    """

    kappa: float
    learnabilities: Tensor
    overfitting: float
    test_error: float
    train_error: float


def eigenlearning(
    eigenvalues: Tensor, powers: Tensor, samples: int, *, ridge: float, noise: float = 0.0
) -> Eigenlearning:
    """Expected errors of kernel ridge regression, from the operator's spectrum.

    Parameters
    ----------
    eigenvalues : Tensor of shape (modes,)
        λ_i of the operator, positive.
    powers : Tensor of shape (modes,)
        v_i², the label's power in each mode.
    samples : int
        Number n of samples.
    ridge : float
        δ, added to the diagonal of the kernel matrix; positive unless there are more modes than samples.
    noise : float, default 0.0
        σ², variance of the label noise.

    Returns
    -------
    Eigenlearning
        Errors, and how much of each mode is learnt: Σ L_i + δ/κ = n.

    References
    ----------
    .. [1] Simon, Dickens, Karkada, DeWeese, "The Eigenlearning Framework".

    Examples
    --------
    Four equal modes and two samples without a ridge: each mode is learnt by half, and E₀ = 2/(2 − 4/4) = 2.

    >>> found = eigenlearning(torch.ones(4), torch.ones(4), 2, ridge=0.0)
    >>> round(found.kappa, 6), round(found.overfitting, 6), round(found.test_error, 6)
    (1.0, 2.0, 2.0)
    """
    values, powers = eigenvalues.double(), powers.double()
    if samples < 1 or ridge < 0 or not bool((values > 0).all()) or (ridge == 0 and len(values) <= samples):
        raise NetgrainError(
            f"expected positive eigenvalues, n ≥ 1, a ridge ≥ 0, and more modes than samples without a ridge; found "
            f"{len(values)} modes, n={samples}, ridge={ridge:g}."
        )
    # the sum falls in κ; between ridge/n and (Σλ + δ)/n it passes n
    low, high = max(ridge / samples, 1e-300), (float(values.sum()) + ridge) / samples
    for _ in range(200):
        kappa = math.sqrt(low * high)
        total = float((values / (values + kappa)).sum()) + ridge / kappa
        low, high = (kappa, high) if total > samples else (low, kappa)
        if high <= low * (1 + 1e-15):
            break
    kappa = math.sqrt(low * high)
    L = values / (values + kappa)
    overfitting = samples / (samples - float(L.square().sum()))
    test = overfitting * (float(((1 - L).square() * powers).sum()) + noise)
    return Eigenlearning(kappa, L, overfitting, test, (ridge / (samples * kappa)) ** 2 * test)


# --- shares of the label ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Band:
    """A band of modes, by falling eigenvalue.

    Attributes
    ----------
    first, last : int
        Modes, counted from 1.
    share : Estimate
        Part of the label's variance in these modes.
    learnt : Estimate
        Part of the label's variance that the samples at hand teach, Σ L_i v_i² over these modes.
    """

    first: int
    last: int
    share: Estimate
    learnt: Estimate

    @property
    def shown(self) -> bool:
        """Whether the share exceeds its error."""
        return float(self.share) > self.share.stderr

    @property
    def name(self) -> str:
        """As in "4–10"."""
        return str(self.first) if self.first == self.last else f"{self.first}–{self.last}"


@dataclass(frozen=True)
class ModeShares:
    """Which share of the label is learnable with the samples at hand, with more of them, and not at all.

    Attributes
    ----------
    bands : tuple of Band
        All bands; those whose error exceeds them are not `shown` and count as out of reach.
    now, later, never : Estimate
        Shares of the label's variance, which add up to 1.
    kappa : float
        Operator eigenvalue of a mode that is half learnt now.
    """

    bands: tuple[Band, ...]
    now: Estimate
    later: Estimate
    never: Estimate
    kappa: float

    @property
    def shown(self) -> tuple[Band, ...]:
        """Bands whose share exceeds its error."""
        return tuple(band for band in self.bands if band.shown)


def mode_shares(
    K: Tensor | Features,
    targets: Targets,
    *,
    ridge: float,
    whole: Decomposition | None = None,
    groups: Tensor | None = None,
    seed: int = 0,
) -> ModeShares:
    """Shares of the label by modes of the kernel, from halves of the samples.

    Parameters
    ----------
    K : Tensor of shape (samples, samples) or Features
        The kernel.
    targets : Targets
        The labels.
    ridge : float
        For a kernel with mean diagonal 1, as ``LeaveOneOut.ridge`` has it.
    whole : Decomposition, optional
        Of K, where it is known.
    groups : Tensor of shape (samples,), optional
        Samples that stay in one half.
    seed : int, default 0
        Of the four splits, and of 1,000 samples where there are more.

    Returns
    -------
    ModeShares
        Errors come from the spread over splits.
    """
    whole = decomposed_either(K) if whole is None else whole
    kappa = 1 / whole.trace(ridge)
    groups = torch.arange(len(K)) if groups is None else groups
    if len(K) > MOST_SAMPLES:
        some = torch.randperm(len(K), generator=generator_for(seed, "both halves"))[:MOST_SAMPLES]
        K, targets, groups = (
            part_of(K, some),
            targets.of(some),
            torch.unique(groups[some], return_inverse=True)[1],
        )
    K = K.dense() if isinstance(K, Features) else K
    n = len(K)
    count = int(groups.max()) + 1
    splits, learnt = [], []
    for split in range(SPLITS):
        place = torch.randperm(count, generator=generator_for(seed, "halves", split))
        inside = place[groups] < count / 2
        A, B = inside.nonzero()[:, 0], (~inside).nonzero()[:, 0]
        ways = [_halves(K, targets.columns, one, other, whole.scale) for one, other in ((A, B), (B, A))]
        shares = [share / targets.variance for share, _ in ways]
        taught = [eigenvalues / (eigenvalues + kappa) for _, eigenvalues in ways]
        splits.append(_mean_of_modes(shares, n))
        learnt.append(_mean_of_modes([L * share for L, share in zip(taught, shares, strict=True)], n))
    return _summary(torch.stack(splits), torch.stack(learnt), min(len(A), len(B)) - 1, kappa)


def _halves(K: Tensor, columns: Tensor, A: Tensor, B: Tensor, scale: float) -> tuple[Tensor, Tensor]:
    """v_i² by falling eigenvalue, from coefficients on A and on B; operator eigenvalues."""
    inner, outer = K[A[:, None], A].double(), K[B[:, None], A].double()
    w, u = torch.linalg.eigh(centred(inner) / scale)
    kept = (w > 1e-9 * w[-1]).nonzero()[:, 0].flip(0)
    w, u = w[kept], u[:, kept]
    a = u.T @ (columns[A] - columns[A].mean(0)) / math.sqrt(len(A))
    # u_i are orthogonal to the constant vector and y_B is centred, so that K_BA need not be
    e = math.sqrt(len(A)) * (outer @ u) / (scale * w)
    b = e.T @ (columns[B] - columns[B].mean(0)) / len(B)
    return (a * b).sum(1), w / len(A)


def _mean_of_modes(ways: list[Tensor], n: int) -> Tensor:
    """The mean of both ways; modes that a half does not have count as zero."""
    return torch.stack([torch.nn.functional.pad(values, (0, n - len(values))) for values in ways]).mean(0)


def _summary(splits: Tensor, learnt: Tensor, modes: int, kappa: float) -> ModeShares:
    """splits, learnt: (splits, modes), v_i² and L_i v_i² as shares of the label."""
    n, start = splits.shape[1], 0
    bands, shown = [], torch.zeros(n, dtype=torch.bool)
    for end in (*EDGES, n):
        last = min(end, modes)
        if last <= start:
            break
        inside = slice(start, last)
        bands.append(
            Band(start + 1, last, _estimate(splits[:, inside].sum(1), n), _estimate(learnt[:, inside].sum(1), n))
        )
        shown[inside] = bands[-1].shown
        start = last
    total, now = splits[:, shown].sum(1), learnt[:, shown].sum(1)
    return ModeShares(tuple(bands), _estimate(now, n), _estimate(total - now, n), _estimate(1 - total, n), kappa)


def _estimate(shares: Tensor, n: int) -> Estimate:
    """The mean over splits, with two errors: that of halves, and that of the samples, which all splits have in common.

    Of the variance of one split half is common to all, too, as they are halves of the same samples. A share s is the
    square of a mean over n samples of a product with variance 1 − s, about.
    """
    share = float(shares.mean())
    inside = min(max(share, 0.0), 1.0)
    return Estimate(share, math.sqrt((1 + 1 / SPLITS) * float(shares.var()) + 4 * inside * (1 - inside) / n), n)
