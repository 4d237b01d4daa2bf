"""The rotations SO(3): Wigner matrices and exact transforms of band-limited functions.

A rotation is R = R_z(α) R_y(β) R_z(γ); Haar measure has mass one. With irreps D^l of dimension 2l+1, l < B,

    f̂(l) = ∫ f(R) D^l(R) dR                      f(R) = Σ_l (2l+1) tr(f̂(l) D^l(R)⁺)
    ‖f‖² = Σ_l (2l+1) ‖f̂(l)‖²_F                  (f * h)^ = f̂ ĥ,  (f * h)(R) = ∫ f(RQ⁻¹) h(Q) dQ

The integral is a sum over 2B × B × 2B rotations (Fourier in α and γ, Gauss–Legendre in cos β), exact for l < B. In the
basis of the real spherical harmonics every D^l is a real matrix, and so is f̂(l) of a real f.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np
import torch
from torch import Tensor

from netgrain.runtime.errors import NetgrainError


@cache
def _spectrum_of_j_y(l: int) -> tuple[Tensor, Tensor]:
    """Eigenvalues (exactly −l..l) and eigenvectors of J_y in the basis m = −l..l."""
    m = np.arange(-l, l)
    raising = np.diag(np.sqrt(l * (l + 1) - m * (m + 1.0)), -1)  # J₊ |m⟩ = √… |m+1⟩
    _, vectors = np.linalg.eigh((raising - raising.T) / 2j)
    return torch.arange(-l, l + 1, dtype=torch.float64), torch.from_numpy(vectors)


@cache
def _to_real(l: int) -> Tensor:
    """U with U D^l U⁺ real: rows are the real spherical harmonics of order −l..l."""
    A = np.zeros((2 * l + 1, 2 * l + 1), dtype=np.complex128)
    A[l, l] = 1
    for m in range(1, l + 1):
        A[l + m, l - m], A[l + m, l + m] = 1, (-1) ** m
        A[l - m, l - m], A[l - m, l + m] = 1j, -1j * (-1) ** m
    A[np.arange(2 * l + 1) != l] /= math.sqrt(2)
    return torch.from_numpy(A.conj())


def wigner(l: int, alpha: Tensor, beta: Tensor, gamma: Tensor, *, real: bool = False) -> Tensor:
    """Wigner matrix D^l(α, β, γ) = e^{−iαJ_z} e^{−iβJ_y} e^{−iγJ_z}.

    The irrep of degree l of the rotation R_z(α) R_y(β) R_z(γ); differentiable.

    Parameters
    ----------
    l : int
        Degree, 0, 1, 2, ….
    alpha, beta, gamma : Tensor
        Angles, of shapes that broadcast.
    real : bool, default False
        Use the basis of the real spherical harmonics, in which the matrix is real. For l = 1 it is the rotation
        itself, on (y, z, x).

    Returns
    -------
    Tensor of shape (..., 2l+1, 2l+1)
        complex128, or float64 if `real`; rows and columns are the orders −l, …, l.

    Examples
    --------
    A quarter turn around z exchanges x and y, up to signs.

    >>> half, zero = torch.tensor(math.pi / 2), torch.tensor(0.0)
    >>> wigner(1, half, zero, zero, real=True).round(decimals=6).abs()
    tensor([[0., 0., 1.],
            [0., 1., 0.],
            [1., 0., 0.]], dtype=torch.float64)
    """
    if l < 0:
        raise NetgrainError(f"l is 0, 1, 2, …; found {l}.")
    a, b, c = torch.broadcast_tensors(*(torch.as_tensor(x).cpu().double() for x in (alpha, beta, gamma)))
    m, vectors = _spectrum_of_j_y(l)
    turn = (vectors * _phase(b[..., None] * m)[..., None, :]) @ vectors.mH
    D = _phase(a[..., None] * m)[..., :, None] * turn * _phase(c[..., None] * m)[..., None, :]
    return (_to_real(l) @ D @ _to_real(l).mH).real if real else D


def harmonics(bandwidth: int, theta: Tensor, phi: Tensor) -> Tensor:
    """Real spherical harmonics Y_lm of all degrees l < B at points of the sphere.

    Orthonormal for the measure of mass one, ∫ Y_lm Y_kn = δ. A rotation Q acts on them by its real Wigner matrix,
    Y_l(Qω) = D^l(Q) Y_l(ω), because Y_l(ω) = √(2l+1) times the column m = 0 of D^l(φ, θ, 0).

    Parameters
    ----------
    bandwidth : int
        B: degrees l = 0, …, B − 1.
    theta, phi : Tensor
        Angle from the pole and angle around it, of shapes that broadcast.

    Returns
    -------
    Tensor of shape (..., B²)
        Degree after degree, orders −l, …, l; float64.

    See Also
    --------
    wigner : How rotations act on them.

    Examples
    --------
    Degrees 0 and 1 are 1 and √3 (y, z, x); this point is x.

    >>> x = harmonics(2, torch.tensor(math.pi / 2), torch.tensor(0.0))
    >>> (x.square() + 0.0).round(decimals=6)
    tensor([1., 0., 0., 3.], dtype=torch.float64)
    """
    if bandwidth < 1:
        raise NetgrainError(f"bandwidth expects at least 1, found {bandwidth}.")
    b, a = torch.broadcast_tensors(*(torch.as_tensor(x).cpu().double() for x in (theta, phi)))
    found = []
    for l in range(bandwidth):
        m, vectors = _spectrum_of_j_y(l)
        column = (_phase(b[..., None] * m) * vectors[l].conj()) @ vectors.mT  # d^l(β) e_0
        found.append(math.sqrt(2 * l + 1) * ((_phase(a[..., None] * m) * column) @ _to_real(l).mT).real)
    return torch.cat(found, -1)


def _phase(angle: Tensor) -> Tensor:
    return torch.polar(torch.ones_like(angle), -angle)


@dataclass(frozen=True)
class SO3:
    """Rotations: functions with l < B and their exact Fourier transform.

    Functions are sampled on a grid of 2B × B × 2B angles (α, β, γ). f̂(l) = ∫ f(R) D^l(R) dR with Haar measure of
    mass one, and the integral is a sum over the grid that is exact for l < B. Transforms are computed in double
    precision on the CPU, wherever their arguments are.

    Parameters
    ----------
    bandwidth : int
        B: degrees l = 0, …, B − 1.

    Attributes
    ----------
    angles : tuple of Tensor
        α (2B,), β (B,) and γ (2B,) of the grid.
    weights : Tensor of shape (2B, B, 2B)
        Share of the Haar measure at every grid point.

    Examples
    --------
    B(2B − 1)(2B + 1)/3 = 165 coefficients for B = 5.

    >>> G = SO3(5)
    >>> G
    SO3(l < 5, 165 coefficients, grid 10 × 5 × 10)
    >>> f = G.inverse_fourier([torch.ones(d, d, dtype=torch.float64) for d in G.dimensions])
    >>> all(torch.allclose(block, torch.ones_like(block)) for block in G.fourier(f))
    True
    """

    bandwidth: int

    def __post_init__(self) -> None:
        if int(self.bandwidth) != self.bandwidth or self.bandwidth < 1:
            raise NetgrainError(f"bandwidth expects a positive integer; found {self.bandwidth}.")

    @property
    def dimensions(self) -> tuple[int, ...]:
        """Dimensions 2l + 1 of the irreps."""
        return tuple(2 * l + 1 for l in range(self.bandwidth))

    @property
    def coefficients(self) -> int:
        """Number of coefficients, Σ (2l+1)² = B(2B−1)(2B+1)/3."""
        return sum(d * d for d in self.dimensions)

    @property
    def grid(self) -> tuple[int, int, int]:
        """Shape of the grid, (2B, B, 2B)."""
        return 2 * self.bandwidth, self.bandwidth, 2 * self.bandwidth

    @cached_property
    def angles(self) -> tuple[Tensor, Tensor, Tensor]:
        """α (2B,), β (B,) and γ (2B,) of the grid."""
        around = torch.arange(2 * self.bandwidth, dtype=torch.float64) * (math.pi / self.bandwidth)
        return around, torch.from_numpy(np.arccos(np.polynomial.legendre.leggauss(self.bandwidth)[0])), around

    @cached_property
    def weights(self) -> Tensor:
        """Share of the Haar measure at every grid point, (2B, B, 2B): ∫ f = Σ weights · f for l < 2B."""
        nodes = torch.from_numpy(np.polynomial.legendre.leggauss(self.bandwidth)[1]) / 2
        return (nodes / (2 * self.bandwidth) ** 2)[None, :, None].expand(self.grid)

    @cached_property
    def _turns(self) -> tuple[Tensor, ...]:
        """d^l(β) at the nodes, (2l+1, B, 2l+1)."""
        zero = torch.zeros(())
        return tuple(wigner(l, zero, self.angles[1], zero).real.movedim(0, 1) for l in range(self.bandwidth))

    def _orders(self, l: int) -> Tensor:
        return torch.arange(-l, l + 1) % (2 * self.bandwidth)

    def fourier(self, f: Tensor, *, real: bool | None = None) -> tuple[Tensor, ...]:
        """Fourier transform, f̂(l) = ∫ f(R) D^l(R) dR.

        Parameters
        ----------
        f : Tensor of shape (..., 2B, B, 2B)
            Values on the grid.
        real : bool, optional
            Whether blocks are in the basis of the real spherical harmonics; by default only if f is real.

        Returns
        -------
        tuple of Tensor
            One (..., 2l+1, 2l+1) for every l < B.

        Examples
        --------
        A constant has only the coefficient of l = 0.

        >>> [round(block.abs().sum().item(), 6) for block in SO3(2).fourier(torch.ones(4, 2, 4))]
        [1.0, 0.0]
        """
        if tuple(f.shape[-3:]) != self.grid:
            raise NetgrainError(f"f has values on the grid, (..., {', '.join(map(str, self.grid))}); found {f.shape}.")
        real = not f.is_complex() if real is None else real
        weights = self.weights[0, :, 0]
        F = torch.fft.fftn(f.cpu().to(torch.complex128 if f.is_complex() else torch.float64), dim=(-3, -1))
        blocks = []
        for l, turn in enumerate(self._turns):
            m = self._orders(l)
            part = F.index_select(-3, m).index_select(-1, m)
            block = (part * (turn * weights[:, None])).sum(-2)
            if real:
                block = _to_real(l) @ block @ _to_real(l).mH
            blocks.append(block.real if real and not f.is_complex() else block)
        return tuple(blocks)

    def inverse_fourier(self, blocks: Sequence[Tensor], *, real: bool | None = None) -> Tensor:
        """Function of given blocks, f(R) = Σ_l (2l+1) tr(f̂(l) D^l(R)⁺).

        Parameters
        ----------
        blocks : sequence of Tensor
            One (..., 2l+1, 2l+1) for every l < B.
        real : bool, optional
            Whether the blocks are in the basis of the real spherical harmonics; by default if they are real.

        Returns
        -------
        Tensor of shape (..., 2B, B, 2B)
            Values on the grid, real if the blocks are.
        """
        parts = self._complex_blocks(blocks, real)
        width, B = 2 * self.bandwidth, self.bandwidth
        total = parts[0].new_zeros((*parts[0].shape[:-2], width, B, width))
        for l, (block, turn) in enumerate(zip(parts, self._turns, strict=True)):
            entries = (2 * l + 1) * block[..., :, None, :] * turn  # (..., 2l+1, B, 2l+1)
            margin = (B - l, B - l - 1)  # m = −l..l among −B..B−1
            total = total + torch.nn.functional.pad(entries, (*margin, 0, 0, *margin))
        total = torch.fft.ifftshift(total, dim=(-3, -1))
        f: Tensor = torch.fft.ifftn(total, dim=(-3, -1)) * width**2
        return f.real if not blocks[0].is_complex() else f

    def evaluate(self, blocks: Sequence[Tensor], alpha: Tensor, beta: Tensor, gamma: Tensor) -> Tensor:
        """Function of given blocks at any rotations.

        Parameters
        ----------
        blocks : sequence of Tensor
            One (..., 2l+1, 2l+1) for every l < B.
        alpha, beta, gamma : Tensor of shape (rotations,)
            Angles of the rotations.

        Returns
        -------
        Tensor of shape (..., rotations)
            The values, real if the blocks are.
        """
        parts = self._complex_blocks(blocks, None)
        values = [
            (2 * l + 1) * torch.einsum("...mn,rmn->...r", block, wigner(l, alpha, beta, gamma).conj())
            for l, block in enumerate(parts)
        ]
        total = torch.stack(values).sum(0)
        return total.real if not blocks[0].is_complex() else total

    def convolve(self, f: Tensor, h: Tensor) -> Tensor:
        """Convolution, (f * h)(R) = ∫ f(RQ⁻¹) h(Q) dQ.

        Parameters
        ----------
        f, h : Tensor of shape (..., 2B, B, 2B)
            Values on the grid.

        Returns
        -------
        Tensor of shape (..., 2B, B, 2B)
            Values on the grid.

        Examples
        --------
        Convolution with the constant one takes the mean.

        >>> G = SO3(2)
        >>> round(G.convolve(torch.full(G.grid, 3.0), torch.ones(G.grid)).mean().item(), 6)
        3.0
        """
        both = zip(self.fourier(f, real=True), self.fourier(h, real=True), strict=True)
        return self.inverse_fourier([a @ b for a, b in both], real=True)

    def _complex_blocks(self, blocks: Sequence[Tensor], real: bool | None) -> list[Tensor]:
        if [tuple(b.shape[-2:]) for b in blocks] != [(d, d) for d in self.dimensions]:
            raise NetgrainError(
                f"expected {self.bandwidth} blocks of sizes {', '.join(map(str, self.dimensions))}; found shapes "
                f"{', '.join(str(tuple(b.shape)) for b in blocks)}."
            )
        real = not blocks[0].is_complex() if real is None else real
        parts = [b.cpu().to(torch.complex128) for b in blocks]
        return [_to_real(l).mH @ b @ _to_real(l) for l, b in enumerate(parts)] if real else parts

    def __repr__(self) -> str:
        return f"SO3(l < {self.bandwidth}, {self.coefficients} coefficients, grid {' × '.join(map(str, self.grid))})"
