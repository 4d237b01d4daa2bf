"""Activations made of straight pieces: ReLU, LeakyReLU, |x|, the identity, ReLU6, hardtanh, clamp, soft shrinkage."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import product

import numpy as np
import torch
from torch import Tensor

from netgrain.closed_form.gaussian_expectations import (
    Activation,
    Pair,
    PairDerivatives,
    correlations,
    deviation,
    mirrored,
    outer,
    per_covariance,
    upper_blocks,
)

ANGLES = 32  # Gauss-Legendre nodes of the angle integral
FAR = 40.0  # standard deviations at which a kink is as good as none: e^{−800} is 0


@dataclass(frozen=True, eq=False, repr=False)
class PiecewiseLinear(Activation):
    """φ(x) = A + l₀ x + Σ_i c_i (x − t_i)⁺, with slopes l₀, l₀ + c₁, … between the kinks t_i.

    Two slopes l, r that meet in the mean (arc-cosine kernels; ReLU: l = 0, r = 1), with J = ¼ + asin(ρ)/2π:

        κ₁ = l r + (r − l)² J,      κ₀ = l r K_pp' + (r − l)² s s' (√(1 − ρ²)/2π + ρ J)

    Else, by Plackett's identity and Price's theorem, with α_i = (μ − t_i)/s and m₀ = E φ, m₁ = E φ':

        κ₁ = m₁ m₁' + Σ_ij c_i c_j ∫ q_ij dθ,      κ₀ = m₀ m₀' + s s' (ρ m₁ m₁' + Σ_ij c_i c_j ∫ (ρ − sin θ) q_ij dθ)
        q_ij = exp(−(α_i² + α_j'² − 2 α_i α_j' sin θ) / (2 cos² θ)) / 2π,      θ from 0 to asin ρ

    >>> relu = PiecewiseLinear("relu", torch.relu, homogeneous=True, kinks=(0.0,), slopes=(0.0, 1.0))
    >>> relu.moments(2 * torch.eye(2))[1]  # both on: 1/2 for one position, 1/4 for two independent ones
    tensor([[0.5000, 0.2500], [0.2500, 0.5000]], dtype=torch.float64)
    """

    slopes: tuple[float, ...] = (1.0,)

    def derivative(self, z: Tensor) -> Tensor:
        slopes, kinks = (torch.tensor(x, dtype=z.dtype, device=z.device) for x in (self.slopes, self.kinks))
        return slopes[torch.bucketize(z.detach().contiguous(), kinks)]

    def is_closed(self, mean: float = 0.0) -> bool:
        return True

    def _closed(self, K: Tensor, mean: float) -> Pair:
        s, rho = correlations(K)
        if self.homogeneous and self.kinks == (0.0,) and mean == 0:
            return self._two_slopes(K, s, rho)
        return self._angle_integral(s, rho, mean)

    def gaussian_mean(self, variance: Tensor, mean: float = 0.0) -> Tensor:
        return self._first_moments(deviation(variance.double()), mean)[0]

    def _at(self, x: float) -> float:
        return float(self(torch.tensor(x, dtype=torch.float64)))

    def _two_slopes(self, K: Tensor, s: Tensor, rho: Tensor) -> Pair:
        l, r = self.slopes
        slopes = rho.asin().div_(2 * math.pi).add_(0.25)
        values = torch.addcmul(torch.ones((), dtype=rho.dtype), rho, rho, value=-1).sqrt_().div_(2 * math.pi)
        values.addcmul_(rho, slopes).mul_(outer(abs(r - l) * s))
        slopes.mul_((r - l) ** 2).add_(l * r)
        if l * r:
            values.add_(K.double(), alpha=l * r)
        if not bool((s > 0).all()):  # h_p = 0 exactly: its slope is the one autograd takes there
            slope = torch.where(s > 0, torch.full_like(s, (l + r) / 2), self.derivative(torch.zeros_like(s)))
            known = (s[..., :, None] == 0) | (s[..., None, :] == 0)
            slopes = torch.where(known, outer(slope), slopes)
        return values, slopes

    def _first_moments(self, s: Tensor, mean: float | Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """E φ and E φ' of s's shape, and α_i, (kinks, ...); every entry may have a mean of its own."""
        start = self.kinks[0] if self.kinks else 0.0
        mean = torch.as_tensor(mean, dtype=torch.float64).expand_as(s)
        value = self._at(start) + self.slopes[0] * (mean - start)
        slope = torch.full_like(s, self.slopes[0])
        alphas = []
        for kink, jump in zip(self.kinks, np.diff(self.slopes), strict=True):
            above = mean - kink
            # on the kink itself a zero variance keeps the left slope, as `derivative` does
            alpha = torch.where(s > 0, above / s, torch.where(above > 0, FAR, -FAR)).clamp_(-FAR, FAR)
            inside = _below(alpha)
            value = value + jump * (above * inside + s * (-alpha.square() / 2).exp() / math.sqrt(2 * math.pi))
            slope += jump * inside
            alphas.append(alpha)
        return (
            torch.where(s > 0, value, self(mean)),
            slope,
            torch.stack(alphas) if alphas else s.new_zeros(0, *s.shape),
        )

    def _second_moments(self, s: Tensor, mean: float) -> Pair:
        """E φ² and E φ'², (..., positions), interval by interval between the kinks."""
        ends = [-math.inf, *self.kinks, math.inf]
        value, slope = torch.zeros_like(s), torch.zeros_like(s)
        safe = torch.where(s > 0, s, 1.0)
        for i, l in enumerate(self.slopes):
            low, high = (((t - mean) / safe).clamp_(-FAR, FAR) for t in ends[i : i + 2])
            anchor = self.kinks[max(i - 1, 0)] if self.kinks else 0.0
            level = self._at(anchor) + l * (mean - anchor)  # between these two ends φ(h) is level + l s z
            # both are the mass between the ends; the first keeps the digits of an upper tail
            mass = torch.where(low > 0, _below(-low) - _below(-high), _below(high) - _below(low))
            n_low, n_high = (torch.exp(-u.square() / 2) / math.sqrt(2 * math.pi) for u in (low, high))
            first, second = n_low - n_high, mass + low * n_low - high * n_high
            value += level**2 * mass + 2 * level * l * s * first + (l * s).square() * second
            slope += l**2 * mass
        return value, slope

    def derivatives(self, K: Tensor, mean: float = 0.0) -> PairDerivatives:
        """Sums over kinks: where h_p or both sit on one, and what the other does there.

        ∂κ₁/∂ρ = Σ_ij c_i c_j q_ij(asin ρ) / √(1 − ρ²)
        s ∂κ₁/∂s = −Σ_i c_i α_i n(α_i) E[φ'(h') | h = t_i]
        s ∂κ₀/∂s = K_pp' κ₁ + s Σ_i c_i n(α_i) E[φ(h') | h = t_i]
        """
        s, rho = correlations(K)
        left = (1 - rho.square()).clamp_(min=0)
        root = left.sqrt()
        by_rho, slope = torch.zeros_like(rho), torch.zeros_like(rho)
        value = outer(s).mul_(rho).mul_(self.moments(K, mean)[1])
        alphas = self._first_moments(s, mean)[2]
        jumps = [(float(c), a) for c, a in zip(np.diff(self.slopes), alphas, strict=True)]
        for c, a in jumps:
            row = a[..., :, None]
            density = torch.exp(-row.square() / 2) * (c / math.sqrt(2 * math.pi))
            # given h_p = t_i, h_p' is normal around μ − ρ s' α_i
            centre = mean - rho * s[..., None, :] * row
            there = self._first_moments(s[..., None, :] * root, centre)[0]
            # where it sits on a kink too, its slope is the mean of both sides: a little spread makes it so
            steep = self._first_moments(s[..., None, :] * root.clamp(min=1e-7), centre)[1]
            slope -= row * density * steep
            value += s[..., :, None] * density * there
            for d, b in jumps:
                column = b[..., None, :]
                gap = row.square() + column.square() - 2 * row * column * rho
                by_rho += torch.exp(-gap / (2 * left.clamp(min=1e-300))) * (c * d / (2 * math.pi))
        by_rho = torch.where(root > 0, by_rho / root.clamp(min=1e-150), 0.0)
        inverse = torch.where(s > 0, 0.5 / s.square(), 0.0)[..., None]
        return PairDerivatives(per_covariance(by_rho, s, rho), slope * inverse, value * inverse)

    def _angle_integral(self, s: Tensor, rho: Tensor, mean: float) -> Pair:
        """Both kernels for any kinks and mean; measured error up to 1e-6 of the diagonal, where ρ is almost 1."""
        value, slope, alphas = self._first_moments(s, mean)
        slopes = outer(slope)
        values = outer(s).mul_(rho).mul_(slopes).add_(outer(value))
        near = [(c, a) for c, a in zip(np.diff(self.slopes), alphas, strict=True) if c and float(a.abs().min()) < FAR]
        for rows, right in upper_blocks(rho) if near else ():
            r = rho[..., rows, right]
            sign, angle = r.sign(), r.asin()
            pairs = []
            for (c, a), (d, b) in product(near, near):
                crossed = sign * b[..., None, right]
                gap = (a[..., rows, None] - crossed).square_().div_(2)
                pairs.append((c * d / (2 * math.pi), gap, crossed.mul_(a[..., rows, None])))
            plain, moved = torch.zeros_like(r), torch.zeros_like(r)  # ∫ q dθ and ∫ sin θ q dθ, over asin ρ
            for node, weight in zip(*_towards_one(ANGLES), strict=True):
                theta = angle * node
                sine = theta.sin()
                steep, flat = theta.cos_().square_().reciprocal_(), sine.abs().add_(1).reciprocal_()
                for c, gap, both in pairs:
                    # α² + α'² − 2αα' sin θ, written so that nothing cancels near θ = ±π/2
                    q = (gap * steep).addcmul_(both, flat).neg_().exp_()
                    plain.add_(q, alpha=c * weight)
                    moved.addcmul_(q, sine, value=c * weight)
            slopes[..., rows, right] += plain.mul_(angle)
            values[..., rows, right] += (
                (plain.mul_(r) - moved.mul_(angle)).mul_(s[..., rows, None]).mul_(s[..., None, right])
            )
        values, slopes = mirrored(values), mirrored(slopes)
        for matrix, diagonal in zip((values, slopes), self._second_moments(s, mean), strict=True):
            on_diagonal = matrix.diagonal(dim1=-2, dim2=-1)
            on_diagonal.copy_(torch.where(s > 0, diagonal, on_diagonal))
        return values, slopes


def _below(x: Tensor) -> Tensor:
    """Φ(x), with the digits of the lower tail that torch.special.ndtr loses below −5."""
    return torch.erfc(x * -math.sqrt(0.5)) / 2


def _towards_one(count: int) -> tuple[list[float], list[float]]:
    """Nodes and weights on [0, 1] that crowd at 1 (x = 1 − y³): q_ij may fall to zero just before θ = π/2."""
    points, weights = np.polynomial.legendre.leggauss(count)
    y = (1 - points) / 2
    return (1 - y**3).tolist(), (weights / 2 * 3 * y**2).tolist()
