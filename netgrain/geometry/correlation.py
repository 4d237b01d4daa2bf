"""Correlation of matrices that are known only from samples.

    Corr(A, B) = ⟨A, B⟩ / (‖A‖ ‖B‖),      ⟨A, B⟩ = tr(AᵀB)

The plug-in value is biased towards 0, because sampling noise inflates the norms. Here ⟨A,B⟩, ‖A‖² and ‖B‖² are
U-statistics over distinct members (products of different members only, hence unbiased). The ratio is then still biased
when one direction dominates, so a delete-one jackknife corrects it. Its standard error is the jackknife of the
corrected value (all deletions of one and of two members): near rank one the uncorrected ratio is twice as noisy.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from netgrain.geometry.estimate import Estimate
from netgrain.geometry.forms import DENSE_LIMIT, Dense, Form
from netgrain.geometry.probed import Probed, many_vectors, probed
from netgrain.geometry.structured_forms import Kronecker
from netgrain.runtime.errors import GrainWarning, NetgrainError
from netgrain.runtime.threads import one_thread

COST = 24  # of a product with one vector: so many vectors fewer (see `many_vectors`)


@dataclass(frozen=True)
class Deletions:
    """A statistic of one sample: whole, with each part left out, with each pair of parts left out."""

    whole: Tensor  # ()
    one: Tensor  # (parts,)
    two: Tensor  # (parts, parts); the diagonal means nothing


def distinct_pairs(P: Tensor, n: Tensor) -> Deletions:
    """Mean of ⟨A_i, B_j⟩ over pairs of different members, from P_ij = n_i n_j ⟨A_i, B_j⟩ and member counts n."""
    own = P.diagonal()
    touched = P.sum(0) + P.sum(1) - 2 * own  # what leaves the sum with part i
    total = P.sum() - own.sum()
    squares = n.square()

    def pairs(left: Tensor, left_squares: Tensor) -> Tensor:
        count = left.square() - left_squares
        return torch.where(count > 0, count, torch.nan)

    both = P + P.T  # taken away twice when i and j both leave
    left_two = n.sum() - n[:, None] - n
    return Deletions(
        total / pairs(n.sum(), squares.sum()),
        (total - touched) / pairs(n.sum() - n, squares.sum() - squares),
        (total - touched[:, None] - touched + both) / pairs(left_two, squares.sum() - squares[:, None] - squares),
    )


def _constant(value: Tensor, parts: int) -> Deletions:
    """A statistic that does not feel the deletions of this sample."""
    return Deletions(value, value.expand(parts), value.expand(parts, parts))


def applied(f: Callable[..., Tensor], *statistics: Deletions) -> Deletions:
    return Deletions(
        f(*(s.whole for s in statistics)), f(*(s.one for s in statistics)), f(*(s.two for s in statistics))
    )


def _corrected_without_each(s: Deletions) -> Tensor:
    """The bias-corrected statistic without each part, from the mean over the other part that leaves with it."""
    two = s.two.clone().fill_diagonal_(0)
    return s.one - (len(two) - 2) * (two.sum(1) / (len(two) - 1) - s.one)


def _summary(corrected: Tensor, first: list[Tensor], second: list[Tensor]) -> tuple[float, float]:
    """Corrected value and standard error; `second` are leave-one-out values of the corrected statistic itself."""
    usable = all(bool(torch.isfinite(s).all()) for s in second)
    values = second if usable else first
    variance = sum((len(s) - 1) / len(s) * float((s - s.mean()).square().sum()) for s in values)
    return float(corrected), math.sqrt(variance)


def jackknife_one(s: Deletions) -> tuple[float, float]:
    """Bias-corrected value and standard error of a statistic of one sample."""
    corrected = s.whole - (len(s.one) - 1) * (s.one.mean() - s.whole)
    return _summary(corrected, [s.one], [_corrected_without_each(s)])


def jackknife_two(a: Deletions, b: Deletions, cross: Tensor) -> tuple[float, float]:
    """The same for a statistic of two independent samples; cross: one part of each left out, (parts a, parts b)."""
    n, m = len(a.one), len(b.one)
    corrected = a.whole - (n - 1) * (a.one.mean() - a.whole) - (m - 1) * (b.one.mean() - b.whole)
    without_a = _corrected_without_each(a) - (m - 1) * (cross.mean(1) - a.one)
    without_b = _corrected_without_each(b) - (n - 1) * (cross.mean(0) - b.one)
    return _summary(corrected, [a.one, b.one], [without_a, without_b])


def cosine(ab: Tensor, aa: Tensor, bb: Tensor) -> Tensor:
    return ab / (aa * bb).sqrt()


@one_thread()
def correlation(a: Form, b: Form, *, paired: bool = False) -> Estimate:
    """Corr(A, B), bias-corrected, with standard error and the plug-in value beside it.

    paired: both sides are made of the same members, part by part (two moments of one training run, say).
    """
    if a.size != b.size:
        raise NetgrainError(
            f"Corr compares matrices over the same inputs; found dimensions {a.size} and {b.size}. "
            "Compute both geometries with the same input_shape."
        )
    a, b = _seen_alike(*_comparable(_up_to_scale(a), _up_to_scale(b)))
    norms = math.sqrt(b.norm2_of(a)), math.sqrt(a.norm2_of(b))
    if 0 in norms:
        warnings.warn("Corr with a zero matrix is not defined: NaN.", GrainWarning, stacklevel=3)
        return Estimate(math.nan, math.nan, 0, math.nan)
    plug_in = a.inner(b) / norms[0] / norms[1]
    sampled = [form.parts for form in (a, b) if form.parts]
    if not sampled:
        return Estimate(plug_in, 0.0, 0, plug_in)
    if min(sampled) < 3:
        return Estimate(plug_in, math.nan, min(sampled), plug_in)
    a, b = a.batched(), b.batched()
    if paired:
        if a.parts != b.parts:
            raise NetgrainError(
                f"paired geometries need the same members on both sides; found {a.parts} and {b.parts} parts. "
                "Leave paired=False for independent ones."
            )
        value, stderr = _paired(a, b)
    elif a.parts and b.parts:
        value, stderr = _independent(a, b)
    else:
        value, stderr = _against_exact(a, b) if a.parts else _against_exact(b, a)
    if math.isnan(value):
        warnings.warn(
            f"Corr could not be bias-corrected with {min(sampled)} members: an estimated squared norm is not positive, "
            "so the value is NaN (plug_in holds the naive one); use more members.",
            GrainWarning,
            stacklevel=3,
        )
    return Estimate(value, stderr, min(sampled), plug_in)


def _up_to_scale(form: Form) -> Form:
    """A multiple of the identity is known exactly but for its scale, which a ratio does not see."""
    if isinstance(form, Kronecker) and form.core.size == 1:
        return form.around(Dense(form.core.dense()))
    return form


def _seen_alike(a: Form, b: Form) -> tuple[Form, Form]:
    """Two samples by the same test vectors where one of them is known by those alone: their errors cancel in Corr."""
    if isinstance(a, Kronecker) and isinstance(b, Kronecker) and a.same_layout(b):
        cores = _seen_alike(a.core, b.core)
        return a.around(cores[0]), b.around(cores[1])
    if isinstance(a, Probed) and b.parts and not isinstance(b, Probed):
        return a, probed(b)
    if isinstance(b, Probed) and a.parts and not isinstance(a, Probed):
        return probed(a), b
    return a, b


def _comparable(a: Form, b: Form) -> tuple[Form, Form]:
    """Both by products with the same vectors, where they are large and one repeats a block that the other does not.

    A sample with an integrated first layer is such a block, one without is not, and their inner product would need
    whole matrices.
    """
    if a.size <= DENSE_LIMIT or not (a.parts and b.parts) or not (_repeats(a) or _repeats(b)):
        return a, b
    if isinstance(a, Kronecker) and a.same_layout(b):
        return a, b
    if not (_holds_parts(a) and _holds_parts(b)):
        return a, b
    vectors = many_vectors(a.size, COST)
    return probed(a, vectors), probed(b, vectors)


def _repeats(form: Form) -> bool:
    return isinstance(form, Kronecker)


def _holds_parts(form: Form) -> bool:
    core = form.core if isinstance(form, Kronecker) else form
    return not isinstance(core, Probed) or core.holds_parts


def _sums(a: Form, b: Form) -> Tensor:
    """P_ij = n_i n_j ⟨A_i, B_j⟩."""
    return a.counts.double()[:, None] * b.counts.double() * a.pairwise(b)


def _paired(a: Form, b: Form) -> tuple[float, float]:
    n = a.counts.double()
    statistics = (distinct_pairs(_sums(x, y), n) for x, y in ((a, b), (a, a), (b, b)))
    return jackknife_one(applied(cosine, *statistics))


def _against_exact(a: Form, exact: Form) -> tuple[float, float]:
    n = a.counts.double()
    products = n * a.part_inner(exact)
    total = products.sum()
    ab = Deletions(
        total / n.sum(),
        (total - products) / (n.sum() - n),
        (total - products[:, None] - products) / (n.sum() - n[:, None] - n),
    )
    norm = _constant(torch.tensor(a.norm2_of(exact), dtype=torch.float64), a.parts)
    return jackknife_one(applied(cosine, ab, distinct_pairs(_sums(a, a), n), norm))


def _independent(a: Form, b: Form) -> tuple[float, float]:
    n, m = a.counts.double(), b.counts.double()
    N, M = n.sum(), m.sum()
    aa, bb = distinct_pairs(_sums(a, a), n), distinct_pairs(_sums(b, b), m)
    P = _sums(a, b)
    rows, columns, total = P.sum(1), P.sum(0), P.sum()
    left_a, left_b = N - n, M - m

    def leaving(sums: Tensor, size: Tensor, other: Tensor) -> Deletions:
        return Deletions(
            total / (N * M),
            (total - sums) / ((size.sum() - size) * other),
            (total - sums[:, None] - sums) / ((size.sum() - size[:, None] - size) * other),
        )

    without_a = applied(cosine, leaving(rows, n, M), aa, _constant(bb.whole, len(n)))
    without_b = applied(cosine, leaving(columns, m, N), _constant(aa.whole, len(m)), bb)
    mixed = (total - rows[:, None] - columns + P) / (left_a[:, None] * left_b)
    return jackknife_two(without_a, without_b, cosine(mixed, aa.one[:, None], bb.one[None]))


@one_thread()
def effective_rank(form: Form) -> Estimate:
    """(tr G)² / ‖G‖²_F, both unbiased over distinct members, with a jackknife correction of the ratio."""
    form = _up_to_scale(form)
    norm2 = form.norm2()
    if norm2 == 0:
        return Estimate(0.0, 0.0, form.parts, 0.0)
    plug_in = form.trace() ** 2 / norm2
    if form.parts < 3:
        return Estimate(plug_in, math.nan if form.parts else 0.0, form.parts, plug_in)
    parts, form = form.parts, form.batched()
    n = form.counts.double()
    sums = n * form.part_traces()
    squared_trace, norm = distinct_pairs(sums[:, None] * sums, n), distinct_pairs(_sums(form, form), n)
    if not (norm.whole > 0 and bool((norm.one > 0).all())):
        return Estimate(plug_in, math.nan, parts, plug_in)
    value, stderr = jackknife_one(applied(torch.divide, squared_trace, norm))
    return Estimate(value, math.hypot(stderr, value * form.norm_error), parts, plug_in)


@one_thread()
def trace(form: Form) -> Estimate:
    """tr G with the standard error over parts."""
    return over_parts(form, form.trace(), form.part_traces)


def over_parts(form: Form, value: float, each: Callable[[], Tensor]) -> Estimate:
    """A number with its standard error over parts; each: the same number of every part, (parts,)."""
    if form.parts < 2:
        return Estimate(value, math.nan if form.parts else 0.0, form.parts)
    n = form.counts.double()
    spread = float((n * (each() - value).square()).sum())
    return Estimate(value, math.sqrt(spread / (form.parts - 1) / float(n.sum())), form.parts)


@one_thread()
def fidelity(form: Form) -> float:
    """Expected plug-in Corr between this estimate and the true matrix: √(unbiased ‖G‖² / plug-in ‖Ĝ‖²)."""
    if form.parts == 0:
        return 1.0
    plug_in = form.norm2()
    if form.parts == 1 or plug_in == 0:
        return math.nan
    n = form.counts.double()
    own = (n.square() * form.part_norms2()).sum()
    unbiased = (n.sum().square() * plug_in - own) / (n.sum().square() - n.square().sum())
    return math.sqrt(max(float(unbiased), 0.0) / plug_in)
