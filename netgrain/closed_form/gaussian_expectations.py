"""Gaussian expectations of elementwise activations: how φ and φ' of two positions go together.

For a Gaussian vector h with constant mean μ and covariance K over positions, s_p = √K_pp, ρ = K_pp' / (s_p s_p'):

    κ₀(p, p') = E[φ(h_p) φ(h_p')],      κ₁(p, p') = E[φ'(h_p) φ'(h_p')],      κ₁ = ∂κ₀/∂K_pp'  (Price's theorem).

Away from the origin both also have to be differentiated (`derivatives`): K depends on x.

Three ways, best first:
- closed form: linear, ReLU, LeakyReLU, |x| (arc-cosine kernels, Cho & Saul 2009), erf (Williams 1998), GELU, exp, sin;
- one integral over an angle, for any other φ made of straight pieces, and for those with a mean (`PiecewiseLinear`);
- Mehler's expansion, for every other φ (`Activation`), whose error is bounded by `truncation`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

TERMS = 128  # of Mehler's expansion, at most
TOLERANCE = 1e-13  # share of E φ² that the dropped terms may hold
REACH = 10.0  # standard deviations the quadrature covers: 1e-23 of the mass is outside
PANEL = 0.5  # width of its panels in standard deviations, away from z = 0
BLOCK = 2**16  # entries a series is summed over at once: what a core's cache holds
STEP = 1e-4  # of a central difference in log s
NEAR = 1e-13  # 1 − ρ² below which two positions are alike
TINY = 1e-280  # variances below are zero: 1/(s s') must stay finite

Pair = tuple[Tensor, Tensor]


@dataclass(frozen=True, eq=False)
class PairDerivatives:
    """How κ₀ and κ₁ change with the law of (h_p, h_p'), each (..., positions, positions); p is the row.

    Scales and correlation are varied apart: κ₁ as a function of K_pp, K_p'p', K_pp' has derivatives that grow without
    bound as two positions become alike (ReLU), but they cancel in what is made of them.
    """

    bend: Tensor  # ∂κ₁/∂K_pp' at fixed variances = E[φ''φ'']; 0 where ρ = ±1
    slope: Tensor  # ∂κ₁/∂K_pp at fixed ρ and K_p'p'
    value: Tensor  # ∂κ₀/∂K_pp at fixed ρ and K_p'p'


@dataclass(frozen=True, eq=False)
class Activation:
    """An elementwise function φ and its Gaussian expectations, by Mehler's expansion.

        E[φ(h_p) φ(h_p')] = Σ_k a_k(s_p) a_k(s_p') ρᵏ,      a_k(s) = E[φ(μ + s z) he_k(z)],      z ~ N(0, 1)

    with he_k the orthonormal Hermite polynomials. What is left of E φ² after the last term, even and odd part apart, is
    added as if it sat in the next two terms: the diagonal is then exact and both matrices stay PSD.

    >>> square = Activation("square", torch.square, homogeneous=False, kinks=())
    >>> square.moments(torch.tensor([[1.0, 0.5], [0.5, 1.0]]))[0]  # K_pp K_p'p' + 2 K_pp'²
    tensor([[3.0000, 1.5000], [1.5000, 3.0000]], dtype=torch.float64)
    """

    name: str
    function: Callable[[Tensor], Tensor]
    homogeneous: bool  # φ(cx) = cφ(x) for c >= 0
    kinks: tuple[float, ...]  # where φ' jumps
    bends: tuple[float, ...] = ()  # where a higher derivative jumps: integrals are split there too

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name})"

    def __call__(self, z: Tensor) -> Tensor:
        return self.function(z)

    @property
    def continuous(self) -> bool:
        """Whether φ itself has no jumps: only then is its kernel's derivative that of networks."""
        ends = torch.tensor(self.kinks, dtype=torch.float64)
        step = 1e-9 * (1 + ends.abs())
        return bool(((self(ends + step) - self(ends - step)).abs() < 1e-6).all())

    def derivative(self, z: Tensor) -> Tensor:
        """φ'(z), whatever the grad mode; at a kink the value autograd picks."""
        with torch.inference_mode(False), torch.enable_grad():
            x = z.detach().clone().requires_grad_(True)
            (slope,) = torch.autograd.grad(self.function(x).sum(), x)
        return slope

    def moments(self, K: Tensor, mean: float = 0.0) -> Pair:
        """(κ₀, κ₁) for h ~ N(mean, K), each of K's shape (..., positions, positions), float64."""
        if self.is_closed(mean):
            return self._closed(K, mean)
        s, rho = correlations(K)
        scales, place = _distinct(s)
        closest = _closest(rho)
        values, slopes = (_series(tower.coefficients(closest)[place], rho) for tower in self._towers(scales, mean))
        return values, slopes

    def derivatives(self, K: Tensor, mean: float = 0.0) -> PairDerivatives:
        """Derivatives of `moments` by scale and by correlation.

        The coefficients know their own derivative: s·da_k/ds = k a_k + √((k+1)(k+2)) a_{k+2}. The diagonal, where the
        series of a φ with kinks converges slowly, is half the derivative of E φ² and E φ'² in the variance.
        """
        s, rho = correlations(K)
        scales, place = _distinct(s)
        inverse = torch.where(s > 0, 0.5 / s.square(), 0.0)[..., None]  # ∂/∂K_pp = (s ∂/∂s) / 2K_pp
        stretched, along = [], torch.arange(TERMS, dtype=torch.float64)
        for i, tower in enumerate(self._towers(scales, mean)):
            a = tower.a
            grown = a * along
            grown[:, :-2] += a[:, 2:] * ((along[:-2] + 1) * (along[:-2] + 2)).sqrt()
            entries = _cross_series(grown[place], a[place], rho) * inverse
            up, down = (self._towers(scales * (1 + step), mean)[i].power.sum(-1) for step in (STEP, -STEP))
            alike = ((up - down) / (4 * STEP))[place] * inverse[..., 0]
            same = (rho > 1 - 1e-12) & (place[..., :, None] == place[..., None, :])
            stretched.append(torch.where(same, alike[..., :, None], entries))
        slopes = self._towers(scales, mean)[1].a
        bend = _cross_series((slopes * along)[:, 1:][place], slopes[:, 1:][place], rho)
        return PairDerivatives(per_covariance(bend, s, rho), stretched[1], stretched[0])

    def is_closed(self, mean: float = 0.0) -> bool:
        """Whether `moments` is a formula without a truncated series."""
        return False

    def _closed(self, K: Tensor, mean: float) -> Pair:
        raise NotImplementedError(f"{self!r} has no closed form for mean {mean}")

    def truncation(self, K: Tensor, mean: float = 0.0) -> tuple[float, float]:
        """Bounds on the errors of κ₀ and κ₁, each divided by that kernel's largest entry; (0, 0) for closed forms.

        |error(p, p')| ≤ 2 √(R_p R_p') |ρ|ⁿ,      R_p = E φ(h_p)² − Σ_{k<n} a_k(s_p)²
        """
        if self.is_closed(mean):
            return 0.0, 0.0
        s, rho = correlations(K)
        scales, place = _distinct(s)
        closest = _closest(rho)
        rho = rho.abs().sub_(torch.diag_embed(rho.diagonal(dim1=-2, dim2=-1)))  # the diagonal is exact
        bounds = []
        for tower in self._towers(scales, mean):
            terms = tower.terms(closest)
            left = tower.left().sum(-1)[:, terms].sqrt()[place]
            largest = float(tower.power.sum(-1).max())
            worst = float((rho.pow(terms) * outer(left)).max())
            bounds.append(2 * worst / largest if largest else 0.0)
        return bounds[0], bounds[1]

    def expectation(self, nodes: Tensor, weights: Tensor) -> tuple[float, float, float]:
        """(E φ(z), E φ(z)², E φ'(z)²) for z that takes the values `nodes` with probabilities `weights`."""
        value, slope = self(nodes), self.derivative(nodes)
        return float(weights @ value), float(weights @ value.square()), float(weights @ slope.square())

    def gaussian_mean(self, variance: Tensor, mean: float = 0.0) -> Tensor:
        """E φ(h) for h ~ N(mean, variance), entry by entry."""
        scales, place = _distinct(deviation(variance.double()))
        return self._towers(scales, mean)[0].a[:, 0][place]

    def _towers(self, scales: Tensor, mean: float) -> list[_Tower]:
        """Expansions of φ and φ' at each scale s, (scales,)."""
        at_mean = torch.tensor(mean, dtype=torch.float64)
        both: tuple[Callable[[Tensor], Tensor], ...] = (self.function, self.derivative)
        parts: list[list[_Tower]] = [[], []]
        reach = REACH * float(scales.max())
        splits = sorted({t - mean for t in (0.0, *self.kinks, *self.bends) if abs(t - mean) <= reach})
        # split at z = 0 alone (the usual case) the nodes suit every scale; else each scale adds some of its own
        for some in scales.split(len(scales) if set(splits) <= {0.0} else 16):
            z, weights = _nodes(some, splits, centre=-mean)
            he = _hermite(z)
            h = mean + some[:, None] * z
            for part, f in zip(parts, both, strict=True):
                part.append(_Tower.of(f(h), weights, he).fixed(some == 0, float(f(at_mean))))
        return [_Tower(*(torch.cat(x) for x in zip(*((t.a, t.power) for t in part), strict=True))) for part in parts]


@dataclass(frozen=True, eq=False)
class _Tower:
    """A function of z ~ N(0, 1) in the Hermite basis, for several scales."""

    a: Tensor  # (scales, TERMS) coefficients
    power: Tensor  # (scales, 2) second moment of the even and of the odd part

    @classmethod
    def of(cls, f: Tensor, weights: Tensor, he: Tensor) -> _Tower:
        """From values f, (scales, nodes), on symmetric nodes; he: (TERMS, nodes)."""
        weighted = f * weights
        total, mirrored = (weighted * f).sum(-1), (weighted * f.flip(-1)).sum(-1)
        return cls(weighted @ he.T, torch.stack([total + mirrored, total - mirrored], -1).div_(2).clamp_(min=0))

    def fixed(self, where: Tensor, value: float) -> _Tower:
        """The constant `value`, without rounding, at scales that are zero."""
        constant = torch.zeros_like(self.a[0]), torch.zeros_like(self.power[0])
        constant[0][0], constant[1][0] = value, value**2
        return _Tower(*(torch.where(where[:, None], c, x) for c, x in zip(constant, (self.a, self.power), strict=True)))

    def left(self) -> Tensor:
        """Even and odd second moment outside the first n terms, (scales, n = 0 … TERMS, 2)."""
        squares = torch.zeros(*self.a.shape, 2, dtype=torch.float64)
        squares[:, ::2, 0], squares[:, 1::2, 1] = self.a[:, ::2].square(), self.a[:, 1::2].square()
        left = (self.power[:, None] - squares.cumsum(1)).clamp_(min=0)
        return torch.cat([self.power[:, None], left], 1)

    def terms(self, closest: float) -> int:
        """How many terms are needed for correlations up to `closest`."""
        reached = closest ** torch.arange(TERMS + 1, dtype=torch.float64)
        enough = (self.left().sum(-1) * reached <= TOLERANCE * self.power.sum(-1, keepdim=True)).all(0)
        return int(enough.int().argmax()) if bool(enough.any()) else TERMS

    def coefficients(self, closest: float) -> Tensor:
        """a_k for the terms needed, and the rest of the second moment as two more, (scales, n + 2)."""
        n = self.terms(closest)
        rest = self.left()[:, n].sqrt()
        return torch.cat([self.a[:, :n], rest if n % 2 == 0 else rest.flip(-1)], 1)


def _series(a: Tensor, rho: Tensor) -> Tensor:
    """Σ_k a_k a_k' ρᵏ by Horner's rule; a: (..., positions, terms)."""
    total = torch.zeros_like(rho)
    columns = a.movedim(-1, 0).flip(0).contiguous()
    for rows, right in upper_blocks(rho):
        part, power = total[..., rows, right], rho[..., rows, right]
        for column in columns:
            part.mul_(power).addcmul_(column[..., rows, None], column[..., None, right])
    return mirrored(total)


def _cross_series(a: Tensor, b: Tensor, rho: Tensor) -> Tensor:
    """Σ_k a_k(p) b_k(p') ρᵏ, where rows and columns have series of their own."""
    total = torch.zeros_like(rho)
    for left, right in zip(a.movedim(-1, 0).flip(0), b.movedim(-1, 0).flip(0), strict=True):
        total.mul_(rho).addcmul_(left[..., :, None], right[..., None, :])
    return total


def per_covariance(by_rho: Tensor, s: Tensor, rho: Tensor) -> Tensor:
    """A derivative by ρ as one by the covariance; 0 where it does not count because ρ cannot change to first order."""
    found = by_rho * outer(torch.where(s > 0, 1 / s, 0.0))
    return torch.where(rho.square() > 1 - NEAR, 0.0, found)


def upper_blocks(rho: Tensor) -> Iterator[tuple[slice, slice]]:
    """Rows and columns of blocks that cover the diagonal and all above it."""
    positions = rho.shape[-1]
    rows = max(1, BLOCK * positions // max(rho.numel(), 1))
    for start in range(0, positions, rows):
        yield slice(start, start + rows), slice(start, positions)


def mirrored(upper: Tensor) -> Tensor:
    """The symmetric matrix of which the upper triangle is given, in place."""
    lower = upper.triu(1).mT
    return upper.triu_().add_(lower)


def _nodes(scales: Tensor, splits: list[float], centre: float) -> Pair:
    """Symmetric nodes and weights for z ~ N(0, 1) that suit all of φ(s z): Gauss-Legendre between splits/s and a grid.

    Around centre/s the panels are halved until they are short for φ(s z) too, whose features are 1/s wide.
    """
    halvings = 4 + math.ceil(math.log2(max(float(scales.max()), 1.0)))
    grid = torch.arange(-REACH, REACH + PANEL / 2, PANEL, dtype=torch.float64)
    fine = PANEL * 0.5 ** torch.arange(1, halvings + 1, dtype=torch.float64)
    moving = torch.tensor(splits, dtype=torch.float64) / scales.clamp(min=1e-100)[:, None]
    graded = (centre / scales.clamp(min=1e-100)).unique()[:, None] + torch.cat([fine, -fine])
    edges = torch.cat([grid, moving.flatten(), graded.flatten()]).clamp_(-REACH, REACH)
    edges = torch.cat([edges, -edges]).unique()
    points, weights = (torch.from_numpy(x) for x in np.polynomial.legendre.leggauss(12))
    half, middle = edges.diff()[:, None] / 2, (edges[1:, None] + edges[:-1, None]) / 2
    z = (middle + half * points).flatten()
    mass = (half * weights).flatten() * (-z.square() / 2).exp()
    return z, mass / mass.sum()


def _hermite(z: Tensor) -> Tensor:
    """Orthonormal Hermite polynomials, (TERMS, *z.shape): √(k+1) he_{k+1} = z he_k − √k he_{k−1}."""
    he = torch.empty(TERMS, *z.shape, dtype=z.dtype)
    he[0], he[1] = 1, z
    for k in range(1, TERMS - 1):
        torch.mul(he[k], z, out=he[k + 1]).sub_(he[k - 1], alpha=math.sqrt(k)).div_(math.sqrt(k + 1))
    return he


def deviation(variance: Tensor) -> Tensor:
    """√variance, and zero where that is too small to divide by."""
    return torch.where(variance > TINY, variance, 0.0).sqrt()


def outer(v: Tensor) -> Tensor:
    """v_p v_p', (..., positions, positions)."""
    return v[..., :, None] * v[..., None, :]


def _variances(K: Tensor) -> Pair:
    """K in double precision and its diagonal, which rounding must not make negative."""
    K = K.double()
    return K, K.diagonal(dim1=-2, dim2=-1).clamp(min=0)


def correlations(K: Tensor) -> Pair:
    """Standard deviations (..., positions) and ρ (..., positions, positions): 0 where a variance is zero."""
    K, variance = _variances(K)
    s = deviation(variance)
    # 1/s ⊗ 1/s first: (K/s)/s' would round differently above and below the diagonal, and near ρ = 1 κ₁ sees √ of that
    rho = outer(torch.where(s > 0, 1 / s, 0.0)).mul_(K).clamp_(-1, 1)
    rho.diagonal(dim1=-2, dim2=-1).copy_(s > 0)
    return s, rho


def _closest(rho: Tensor) -> float:
    """The largest |ρ| off the diagonal."""
    if rho.shape[-1] < 2 or rho.numel() == 0:
        return 0.0
    off = rho.flatten(-2)[..., :-1].unflatten(-1, (rho.shape[-1] - 1, rho.shape[-1] + 1))[..., 1:]
    return max(float(off.max()), -float(off.min()))


def _distinct(s: Tensor) -> Pair:
    """The different values of s up to 2e-13 relative (the last ten bits), and which one each entry is."""
    bits = s.contiguous().view(torch.int64)
    values, place = torch.unique((bits + 2**9) & ~(2**10 - 1), return_inverse=True)
    return values.view(torch.float64), place


@dataclass(frozen=True, eq=False, repr=False)
class Smooth(Activation):
    """An activation whose kernels have a formula without corners: its derivatives are those of the formula."""

    any_mean: ClassVar[bool] = False  # whether the formula holds for a mean other than zero

    def is_closed(self, mean: float = 0.0) -> bool:
        return self.any_mean or mean == 0

    def formula(self, a: Tensor, b: Tensor, c: Tensor, mean: float) -> Pair:
        """(κ₀, κ₁) from K_pp, K_p'p' and K_pp', entry by entry."""
        raise NotImplementedError

    def derivatives(self, K: Tensor, mean: float = 0.0) -> PairDerivatives:
        if not self.is_closed(mean):
            return super().derivatives(K, mean)
        K, v = _variances(K)
        with torch.inference_mode(False), torch.enable_grad():
            a, c = v[..., :, None].expand_as(K).clone().requires_grad_(True), K.clone().requires_grad_(True)
            value, slope = self.formula(a, v[..., None, :].expand_as(K), c, mean)
            value_a, value_c = torch.autograd.grad(value.sum(), (a, c), retain_graph=True)
            slope_a, slope_c = torch.autograd.grad(slope.sum(), (a, c))
        # at fixed ρ the covariance grows with the scale, too: dc/da = c / 2a
        follows = torch.where(v > TINY, 0.5 / v, 0.0)[..., :, None] * K
        return PairDerivatives(slope_c, slope_a + follows * slope_c, value_a + follows * value_c)


@dataclass(frozen=True, eq=False, repr=False)
class ErfMoments(Smooth):
    """erf(x). With mean zero and D = (1 + 2K_pp)(1 + 2K_p'p') − 4K_pp'² (Williams 1998, eq. 11):

    κ₀ = (2/π) asin(2K_pp' / √((1 + 2K_pp)(1 + 2K_p'p'))),      κ₁ = 4 / (π √D)
    """

    def _closed(self, K: Tensor, mean: float) -> Pair:
        K, variance = _variances(K)
        root = outer((1 + 2 * variance).rsqrt())
        r = (2 * K).mul_(root).clamp_(-1, 1)
        slopes = (1 - r.square()).rsqrt_().mul_(root).mul_(4 / math.pi)
        return r.asin_().mul_(2 / math.pi), slopes

    def formula(self, a: Tensor, b: Tensor, c: Tensor, mean: float) -> Pair:
        size = (1 + 2 * a) * (1 + 2 * b)
        return (2 * c / size.sqrt()).asin() * (2 / math.pi), 4 / math.pi / (size - 4 * c.square()).sqrt()


@dataclass(frozen=True, eq=False, repr=False)
class Gelu(Smooth):
    """x Φ(x). With mean zero, a = K_pp, b = K_p'p', c = K_pp', r = c / √((1 + a)(1 + b)), J = ¼ + asin(r)/2π:

        κ₀ = c J + (ab (1 − r²) + r²) / (2π √((1 + a)(1 + b)(1 − r²)))
        κ₁ = J + r / (2π √(1 − r²)) · (1 + (2 − ab + r²/(1 − r²)) / ((1 + a)(1 + b)))

    (Φ(h) = P(u < h) for an independent standard u turns both into moments over a quadrant; κ₁ = ∂κ₀/∂c.)
    """

    def _closed(self, K: Tensor, mean: float) -> Pair:
        K, v = _variances(K)
        root = outer((1 + v).rsqrt())
        r = (K * root).clamp_(-1, 1)
        squared = r.square()
        left = 1 - squared
        inverse = left.rsqrt()  # 1/√(1 − r²)
        slopes = r.asin().div_(2 * math.pi).add_(0.25)
        values = left.mul_(outer(v * (1 + v).rsqrt())).addcmul_(squared, root).mul_(inverse).div_(2 * math.pi)
        values.addcmul_(K, slopes)
        bracket = squared.mul_(inverse).mul_(inverse).add_(2).mul_(root.square_()).sub_(outer(v / (1 + v))).add_(1)
        slopes.addcmul_(bracket.mul_(r), inverse, value=1 / (2 * math.pi))
        return values, slopes

    def formula(self, a: Tensor, b: Tensor, c: Tensor, mean: float) -> Pair:
        size = (1 + a) * (1 + b)
        r = c / size.sqrt()
        left = 1 - r.square()
        quadrant = 0.25 + r.asin() / (2 * math.pi)
        value = c * quadrant + (a * b * left + r.square()) / (2 * math.pi * (size * left).sqrt())
        bracket = 1 + (2 - a * b + r.square() / left) / size
        return value, quadrant + r * bracket / (2 * math.pi * left.sqrt())


@dataclass(frozen=True, eq=False, repr=False)
class Wave(Smooth):
    """sin x or cos x, any φ with φ'' = −φ. With c = K_pp' and v = (K_pp + K_p'p')/2:

    κ₀ = e^{−v} (φ(μ)² cosh c + φ'(μ)² sinh c),      κ₁ = e^{−v} (φ'(μ)² cosh c + φ(μ)² sinh c)
    """

    any_mean = True

    def _closed(self, K: Tensor, mean: float) -> Pair:
        K, variance = _variances(K)
        damping = (variance[..., :, None] + variance[..., None, :]) / 2
        size = K.abs()
        # e^{|c| − v} first: cosh c alone overflows, and 1 − e^{−2|c|} keeps the digits of a small c
        front = (size - damping).clamp_(max=0).exp_().div_(2)
        fall = torch.expm1(-2 * size)
        return self._mixed(front * (2 + fall), -front * fall * K.sign(), mean)

    def formula(self, a: Tensor, b: Tensor, c: Tensor, mean: float) -> Pair:
        v = (a + b) / 2
        return self._mixed(((c - v).exp() + (-c - v).exp()) / 2, ((c - v).exp() - (-c - v).exp()) / 2, mean)

    def _mixed(self, even: Tensor, odd: Tensor, mean: float) -> Pair:
        at_mean = torch.tensor(mean, dtype=torch.float64)
        value, slope = self(at_mean).square(), self.derivative(at_mean).square()
        return value * even + slope * odd, slope * even + value * odd

    def gaussian_mean(self, variance: Tensor, mean: float = 0.0) -> Tensor:
        return self(torch.tensor(mean, dtype=torch.float64)) * (-variance.double() / 2).exp()


@dataclass(frozen=True, eq=False, repr=False)
class Exponential(Smooth):
    """eˣ: κ₀ = κ₁ = exp(2μ + (K_pp + K_p'p')/2 + K_pp')."""

    any_mean = True

    def _closed(self, K: Tensor, mean: float) -> Pair:
        K, v = _variances(K)
        values, slopes = self.formula(v[..., :, None], v[..., None, :], K, mean)
        return values, slopes.clone()

    def formula(self, a: Tensor, b: Tensor, c: Tensor, mean: float) -> Pair:
        values = ((a + b) / 2 + c + 2 * mean).exp()
        return values, values

    def gaussian_mean(self, variance: Tensor, mean: float = 0.0) -> Tensor:
        return (variance.double() / 2 + mean).exp()
