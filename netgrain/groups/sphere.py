"""The sphere S² under rotations: exact transforms of band-limited functions, and their correlation on SO(3).

A function with l < B on the sphere, of total mass one, has coefficients x_l = ∫ x(ω) Y_l(ω) dω in R^{2l+1}, and
‖x‖² = Σ_l ‖x_l‖². A rotation Q turns them by Wigner matrices, (x ∘ Q⁻¹)_l = D^l(Q) x_l. As a function of rotations,
R ↦ x(R e_z) has blocks with one column, so that the correlation with a filter on the sphere is an outer product:

    (x ⋆ w)(R) = ∫ x(Rω) w(ω) dω          (x ⋆ w)^(l) = x_l w_lᵀ / (2l+1)
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from netgrain.groups.so3 import harmonics, wigner
from netgrain.runtime.errors import NetgrainError


@dataclass(frozen=True)
class Sphere:
    """Functions with l < B on the sphere and their exact transform.

    Functions are sampled on a grid of B × 2B points: Gauss–Legendre nodes in cos θ, equal steps in φ.

    Parameters
    ----------
    bandwidth : int
        B: degrees l = 0, …, B − 1.

    Attributes
    ----------
    angles : tuple of Tensor
        θ (B, 1) and φ (2B,) of the grid.
    weights : Tensor of shape (B, 2B)
        Share of the sphere at every grid point.

    References
    ----------
    .. [1] Cohen, Geiger, Köhler, Welling, "Spherical CNNs", ICLR 2018, arXiv:1801.10130: the correlation.

    Examples
    --------
    >>> S = Sphere(4)
    >>> S
    Sphere(l < 4, 16 coefficients, grid 4 × 8)
    >>> x = torch.arange(16, dtype=torch.float64)
    >>> bool(torch.allclose(S.coefficients_of(S.values(x)), x))
    True
    """

    bandwidth: int

    def __post_init__(self) -> None:
        if int(self.bandwidth) != self.bandwidth or self.bandwidth < 1:
            raise NetgrainError(f"bandwidth expects a positive integer; found {self.bandwidth}.")

    @property
    def dimensions(self) -> tuple[int, ...]:
        """Dimensions 2l + 1 of the degrees."""
        return tuple(2 * l + 1 for l in range(self.bandwidth))

    @property
    def coefficients(self) -> int:
        """Number of coefficients, B²."""
        return self.bandwidth**2

    @property
    def grid(self) -> tuple[int, int]:
        """Shape of the grid, (B, 2B)."""
        return self.bandwidth, 2 * self.bandwidth

    @cached_property
    def angles(self) -> tuple[Tensor, Tensor]:
        """θ (B, 1) and φ (2B,) of the grid."""
        nodes = np.polynomial.legendre.leggauss(self.bandwidth)[0]
        around = torch.arange(2 * self.bandwidth, dtype=torch.float64) * (math.pi / self.bandwidth)
        return torch.from_numpy(np.arccos(nodes))[:, None], around

    @cached_property
    def weights(self) -> Tensor:
        """Share of the sphere at every grid point, (B, 2B): ∫ x = Σ weights · x for l < 2B."""
        nodes = torch.from_numpy(np.polynomial.legendre.leggauss(self.bandwidth)[1]) / 2
        return (nodes / (2 * self.bandwidth))[:, None].expand(self.grid)

    @cached_property
    def _harmonics(self) -> Tensor:
        """(B, 2B, B²)."""
        return harmonics(self.bandwidth, *self.angles)

    def coefficients_of(self, x: Tensor, *, degrees: int | None = None) -> Tensor:
        """Coefficients x_l = ∫ x(ω) Y_l(ω) dω, by the sum over the grid.

        Parameters
        ----------
        x : Tensor of shape (..., B, 2B)
            Values on the grid.
        degrees : int, optional
            Keep l below this; by default all l < B.

        Returns
        -------
        Tensor of shape (..., degrees²)
            Exact for functions with l < B; for others, the sum over the grid.
        """
        if tuple(x.shape[-2:]) != self.grid:
            raise NetgrainError(f"x has values on the grid, (..., {self.grid[0]}, {self.grid[1]}); found {x.shape}.")
        kept = self.bandwidth if degrees is None else degrees
        if not 1 <= kept <= self.bandwidth:
            raise NetgrainError(f"degrees expects 1 to {self.bandwidth}, found {kept}.")
        weighted = (x.cpu().double() * self.weights).flatten(-2)
        return weighted @ self._harmonics[..., : kept * kept].flatten(0, 1)

    def values(self, coefficients: Tensor) -> Tensor:
        """Values on the grid, x(ω) = Σ_l ⟨x_l, Y_l(ω)⟩.

        Parameters
        ----------
        coefficients : Tensor of shape (..., B²)
            Degree after degree.

        Returns
        -------
        Tensor of shape (..., B, 2B)
            The values.
        """
        self._checked(coefficients)
        values: Tensor = (coefficients.cpu().double() @ self._harmonics.flatten(0, 1).T).unflatten(-1, self.grid)
        return values

    def evaluate(self, coefficients: Tensor, theta: Tensor, phi: Tensor) -> Tensor:
        """Values at any points.

        Parameters
        ----------
        coefficients : Tensor of shape (..., B²)
            Degree after degree.
        theta, phi : Tensor of shape (points,)
            Angles of the points.

        Returns
        -------
        Tensor of shape (..., points)
            The values.
        """
        self._checked(coefficients)
        return coefficients.cpu().double() @ harmonics(self.bandwidth, theta, phi).T

    def rotate(self, coefficients: Tensor, alpha: Tensor, beta: Tensor, gamma: Tensor) -> Tensor:
        """Coefficients of x ∘ Q⁻¹ for Q = R_z(α) R_y(β) R_z(γ), exactly.

        Parameters
        ----------
        coefficients : Tensor of shape (..., B²)
            Degree after degree.
        alpha, beta, gamma : Tensor of shape (...)
            A rotation for each function, or one for all.

        Returns
        -------
        Tensor of shape (..., B²)
            The rotated functions.

        Examples
        --------
        The constant stays, and half a turn around z takes x and y to −x and −y.

        >>> zero = torch.tensor(0.0)
        >>> turned = Sphere(2).rotate(torch.tensor([5.0, 1.0, 2.0, 3.0]), torch.tensor(math.pi), zero, zero)
        >>> turned.round(decimals=6)
        tensor([ 5., -1.,  2., -3.], dtype=torch.float64)
        """
        turned = [
            torch.einsum("...mn,...n->...m", wigner(l, alpha, beta, gamma, real=True), x)
            for l, x in enumerate(self.degrees(coefficients.cpu().double()))
        ]
        return torch.cat(turned, -1)

    def degrees(self, coefficients: Tensor) -> tuple[Tensor, ...]:
        """Coefficients cut into degrees.

        Parameters
        ----------
        coefficients : Tensor of shape (..., B²)
            Degree after degree.

        Returns
        -------
        tuple of Tensor
            One (..., 2l+1) for every l < B.
        """
        self._checked(coefficients)
        return tuple(torch.split(coefficients, list(self.dimensions), -1))

    def correlate(self, x: Tensor, w: Tensor) -> list[Tensor]:
        """Correlation of two functions on the sphere: a function on SO(3).

        (x ⋆ w)(R) = ∫ x(Rω) w(ω) dω. If x is rotated by Q, the result is moved by Q from the left:
        (x ∘ Q⁻¹) ⋆ w = (x ⋆ w)(Q⁻¹ R).

        Parameters
        ----------
        x, w : Tensor of shape (..., B²)
            Coefficients; leading shapes broadcast.

        Returns
        -------
        list of Tensor
            Blocks x_l w_lᵀ/(2l+1) in the real basis, one (..., 2l+1, 2l+1) for every l < B, as `SO3` takes them.

        Examples
        --------
        With the constant one as filter, the result is the mean of x.

        >>> one, x = torch.tensor([1.0, 0, 0, 0]), torch.tensor([3.0, 1, 1, 1])
        >>> [round(block.abs().sum().item(), 6) for block in Sphere(2).correlate(x, one)]
        [3.0, 0.0]
        """
        pairs = zip(self.degrees(x), self.degrees(w), strict=True)
        return [a[..., :, None] * b[..., None, :] / a.shape[-1] for a, b in pairs]

    def _checked(self, coefficients: Tensor) -> None:
        if coefficients.shape[-1] != self.coefficients:
            raise NetgrainError(
                f"expected {self.coefficients} coefficients, l < {self.bandwidth}; found {coefficients.shape[-1]}."
            )

    def __repr__(self) -> str:
        return f"Sphere(l < {self.bandwidth}, {self.coefficients} coefficients, grid {' × '.join(map(str, self.grid))})"
