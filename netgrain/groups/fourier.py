"""The Fourier transform of a function on a group, as a value: one block for every irrep."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from netgrain.runtime.errors import NetgrainError

if TYPE_CHECKING:
    from netgrain.groups.group import Group

SHOWN = 12  # blocks printed


@dataclass(frozen=True, eq=False, repr=False)
class Fourier:
    """Fourier transform of a function on a group: one block for every irrep.

    f̂(ρ) = Σ_g f(g) ρ(g). Made by ``group.fourier(f)``. ``F @ H`` is the transform of the convolution f * h.

    Parameters
    ----------
    group : Group
        The group.
    stacks : tuple of Tensor
        The blocks stacked by dimension, (..., count, d, d) each; use these for computations with many irreps.
    real : bool, default False
        Whether f was real, so that `inverse` is.

    Attributes
    ----------
    blocks : tuple of Tensor
        One (..., d, d) for every irrep, in the order of ``group.irreps``.

    Examples
    --------
    ρ0 is the sum over all elements, ρ1 that over rotations minus that over reflections.

    >>> from netgrain.groups import dihedral
    >>> G = dihedral(order=6)
    >>> f = torch.arange(6.0, dtype=torch.float64)
    >>> F = G.fourier(f)
    >>> F
    Fourier over D6, blocks 2×1 + 1×2
      ρ0  1×1   15.000
      ρ1  1×1  -3.0000
      ρ2  2×2  singular values 6.9282, 0
    >>> torch.allclose(F.inverse(), f)
    True
    """

    group: Group
    stacks: tuple[Tensor, ...]
    real: bool = False

    @cached_property
    def blocks(self) -> tuple[Tensor, ...]:
        return tuple(block for stack in self.stacks for block in stack.unbind(-3))

    @property
    def batch(self) -> tuple[int, ...]:
        """Leading axes of every block."""
        return tuple(self.stacks[0].shape[:-3])

    def inverse(self) -> Tensor:
        """Function of these blocks, f(g) = Σ_ρ (d/n) tr(f̂(ρ) ρ(g)⁺).

        Returns
        -------
        Tensor of shape (..., n)
            The function, real if the transformed one was.
        """
        f = self.group._inverse_stacks(self.stacks)
        return f.real if self.real else f

    def adjoint(self) -> Fourier:
        """Every block conjugate-transposed: the transform of g → f(g⁻¹)*.

        Returns
        -------
        Fourier
            The adjoint.
        """
        return Fourier(self.group, tuple(stack.mH for stack in self.stacks), self.real)

    def __matmul__(self, other: Fourier) -> Fourier:
        if other.group is not self.group:
            raise NetgrainError(
                f"a product needs two transforms over one group object; found {self.group.name} and {other.group.name}."
            )
        stacks = tuple(_product(a, b) for a, b in zip(self.stacks, other.stacks, strict=True))
        return Fourier(self.group, stacks, self.real and other.real)

    def inner(self, other: Fourier) -> Tensor:
        """Inner product by Plancherel, ⟨f, h⟩ = (1/n) Σ_ρ d tr(f̂⁺ ĥ).

        Parameters
        ----------
        other : Fourier
            The transform of h, over the same group.

        Returns
        -------
        Tensor of shape (...)
            The inner products.

        Examples
        --------
        >>> from netgrain.groups import dihedral
        >>> G = dihedral(order=6)
        >>> f, h = torch.arange(6.0), torch.ones(6)
        >>> round(G.fourier(f).inner(G.fourier(h)).item(), 4)  # 0 + 1 + … + 5
        15.0
        """
        n = self.group.order
        pairs = zip(self.stacks, other.stacks, strict=True)
        parts = [_inner(a, b) * (a.shape[-1] / n) for a, b in pairs]
        total = torch.stack(parts).sum(0)
        return total.real if self.real and other.real else total

    def singular_values(self) -> list[Tensor]:
        """Singular values of every block, descending.

        Returns
        -------
        list of Tensor of shape (..., d)
            Those of ``group.regular(f)``, where each appears d times.
        """
        return [values for stack in self._singular_stacks for values in stack.unbind(-2)]

    @property
    def _singular_stacks(self) -> list[Tensor]:
        return [s.abs()[..., 0] if s.shape[-1] == 1 else torch.linalg.svdvals(s) for s in self.stacks]

    def ranks(self, *, tolerance: float = 1e-3) -> Tensor:
        """Numerical rank of every block.

        Parameters
        ----------
        tolerance : float, default 1e-3
            Count singular values above this share of the largest one of all blocks.

        Returns
        -------
        Tensor of shape (..., irreps)
            The ranks.

        Examples
        --------
        The indicator of the identity has the identity matrix in every block.

        >>> from netgrain.groups import dihedral
        >>> dihedral(order=8).fourier(torch.eye(8)[0]).ranks().tolist()
        [1, 1, 1, 1, 2]
        """
        values = self._singular_stacks
        largest = torch.stack([v.amax((-2, -1)) for v in values]).amax(0)[..., None, None]
        return torch.cat([(v > tolerance * largest).sum(-1) for v in values], dim=-1)

    def __repr__(self) -> str:
        shapes = " + ".join(f"{s.shape[-3]}×{s.shape[-1]}" for s in self.stacks)
        title = f"Fourier over {self.group.name}, blocks {shapes}"
        if self.batch:
            return f"{title}, batch {'×'.join(map(str, self.batch))}"
        lines = []
        for i, block in enumerate(self.blocks[:SHOWN]):
            d = block.shape[-1]
            found = block.detach()
            if d == 1:
                text = _number(complex(found[0, 0].item()))
            else:
                values = torch.linalg.svdvals(found).tolist()
                rounded = (v if v > 1e-12 * values[0] else 0.0 for v in values)
                text = "singular values " + ", ".join(f"{v:.5g}" for v in rounded)
            lines.append(f"  ρ{i:<2} {d}×{d}  {text}")
        if len(self.blocks) > SHOWN:
            lines.append(f"  … {len(self.blocks) - SHOWN} more")
        return "\n".join([title, *lines])


def _product(a: Tensor, b: Tensor) -> Tensor:
    """Blockwise a b, (..., count, d, d): one matrix product for every irrep, however long the batch."""
    if a.shape[-1] == 1:
        return a * b
    if a.ndim > 3 and b.ndim == 3:  # (count, batch·d, d) @ (count, d, d)
        rows = a.movedim(-3, 0)
        return (rows.reshape(len(b), -1, b.shape[-1]) @ b).view(rows.shape).movedim(0, -3)
    return a @ b


def _inner(a: Tensor, b: Tensor) -> Tensor:
    """Σ conj(a) b over the last three axes."""
    if a.ndim > 3 and b.ndim == 3:
        return _inner(b, a).conj()
    if a.ndim == 3 and b.ndim > 3:
        return b.flatten(-3) @ a.conj().flatten()
    return (a.conj() * b).sum((-3, -2, -1))


def _number(z: complex) -> str:
    size = max(abs(z), 1e-300)
    if abs(z.imag) < 1e-12 * size or abs(z) < 1e-12:
        return f"{z.real: #.5g}"
    return f"{z.real: #.5g}{z.imag:+#.5g}i"


def check_blocks(blocks: Sequence[Tensor], dimensions: Sequence[int]) -> None:
    """Blocks as the irreps want them, or a sentence about the first that is not."""
    if len(blocks) != len(dimensions):
        raise NetgrainError(f"expected {len(dimensions)} blocks, one for every irrep; found {len(blocks)}.")
    for i, (block, d) in enumerate(zip(blocks, dimensions, strict=True)):
        if tuple(block.shape[-2:]) != (d, d):
            raise NetgrainError(f"block {i} belongs to an irrep of dimension {d}; found shape {tuple(block.shape)}.")
