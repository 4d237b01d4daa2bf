"""A unit's slope and its own gradient depend on each other: what each activation adds away from the origin.

The wide limit of G(x) is the mixed derivative ∂ₓ∂_z c(x, z) of the network's kernel at z = x. Let c_pp' be the
covariance of h_p(x) and h_p'(z), g_pp' = ∂ₓ c_pp' and s_p = ∂ₓ c_pp(x, x) = 2 g_pp. An activation with T = E[φφ] and
κ = E[φ'φ'] gives

    ∂ₓ∂_z T = κ ∂ₓ∂_z c + κ_c (e_pp' e_p'pᵀ + ¼(1 − ρ²) s_p s_p'ᵀ) + A_pp' s_p g_p'pᵀ + A_p'p g_pp' s_p'ᵀ,
    ∂ₓ T = κ e_pp' + F_pp' s_p,       e_pp' = g_pp' − (c_pp' / 2c_pp) s_p,

κ_c, A, F from `Activation.derivatives`. The first term is the recursion of second moments; at the origin, where g = 0,
it is all there is. The other terms are never formed: products G v need g only along v (`along`, a pass forward through
the positions p'), and the weights that every g receives (`sent_back`, a pass back through p).
"""

from __future__ import annotations

import torch
from torch import Tensor

from netgrain.closed_form.gaussian_expectations import TINY, Activation
from netgrain.closed_form.moments import Full


class Dependence:
    """One activation at one point, and the directions v that G is multiplied with."""

    def __init__(self, activation: Activation, covariance: Full, centre: float, tangent: Full) -> None:
        self.sizes = tangent.sizes
        K = covariance.spelled_out().matrices()[0]  # (positions, positions)
        self.kernel = activation.moments(K, centre)[1]
        self.change = activation.derivatives(K, centre)
        variance = K.diagonal()
        self.share = torch.where(variance > TINY, 0.5 / variance, 0.0)[:, None] * K  # c_pp' / 2c_pp
        self.unlike = (1 - 2 * self.share * (2 * self.share).mT).clamp_(min=0)  # 1 − ρ²
        self.tangent = tangent.spelled_out().matrices()  # (directions, p, p'): g_p'p · v
        self.own = 2 * self.tangent.diagonal(dim1=1, dim2=2)  # (directions, p'): s_p' · v
        self.across = self.tangent - self.share.mT * self.own[:, None, :]  # e_p'p · v

    def along(self) -> Full:
        """∂_z T along v."""
        moved = self.kernel * self.across
        moved.addcmul_(self.change.value.mT, self.own[:, None, :])
        return _over(self.sizes, moved)

    def sent_back(self, B: Full, weights: Full | None) -> Full:
        """What the g below receive: their own terms, and what those above received (weights)."""
        b = B.spelled_out().matrices()[0]
        across = (b * self.change.bend) * self.across
        rows = self.own @ (b * self.change.bend * self.unlike / 4).mT
        rows += torch.einsum("pq,mpq->mp", b * self.change.slope, self.tangent)
        if weights is not None:
            above = weights.spelled_out().matrices()
            across.addcmul_(self.kernel, above)
            rows += torch.einsum("pq,mpq->mp", self.change.value, above)
        rows -= torch.einsum("pq,mpq->mp", self.share, across)
        across.addcmul_(b * self.change.slope.mT, self.own[:, None, :])
        across.diagonal(dim1=1, dim2=2).add_(2 * rows)
        return _over(self.sizes, across)


class OwnSpread:
    """A normalisation: c_pp' times λ_p(x) λ_p'(z), λ = scale ∝ spread^(−1/2), spread_p = ε + a mean of some c_qq.

    ∂ₓ∂_z(λλ'c) = λλ' (∂ₓ∂_z c − r_p g_p'pᵀ/2v_p − g_pp' r_p'ᵀ/2v_p' + c r_p r_p'ᵀ/4v_p v_p'),   v = spread, r = ∂ₓv
    """

    def __init__(self, covariance: Full, tangent: Full, scale: Tensor, spread: Tensor, mean: Tensor) -> None:
        self.sizes = tangent.sizes
        self.mean = mean  # (p, q): which q the spread at p is a mean over
        self.gain = scale[:, None] * scale
        self.half = 0.5 / spread
        self.share = self.half[:, None] * covariance.spelled_out().matrices()[0]  # c_pp' / 2v_p
        self.tangent = tangent.spelled_out().matrices()
        self.own = 2 * self.tangent.diagonal(dim1=1, dim2=2) @ mean.mT  # r_p' · v

    def along(self) -> Full:
        return _over(self.sizes, self.gain * (self.tangent - self.share.mT * self.own[:, None, :]))

    def sent_back(self, B: Full, weights: Full | None) -> Full:
        b = B.spelled_out().matrices()[0] * self.gain
        total = -(b * self.half) * self.own[:, None, :]
        rows = self.own @ (b * self.share * self.half).mT
        rows -= torch.einsum("pq,mpq->mp", b * self.half[:, None], self.tangent)
        if weights is not None:
            above = weights.spelled_out().matrices() * self.gain
            rows -= torch.einsum("pq,mpq->mp", self.share, above)
            total = total + above
        total.diagonal(dim1=1, dim2=2).add_(2 * rows @ self.mean)
        return _over(self.sizes, total)


def _over(sizes: tuple[int, ...], values: Tensor) -> Full:
    return Full(sizes, values.reshape(len(values), *sizes, *sizes))
