"""Products of Jacobians with vectors at many points at once, and the random vectors they are taken with."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import torch
import torch.autograd.forward_ad as forward_mode
from torch import Tensor

from netgrain.complexity.functions import MeasuredFunction
from netgrain.families.failures import check_connected
from netgrain.runtime.devices import in_double
from netgrain.runtime.errors import NetgrainError
from netgrain.runtime.randomness import derived_seed
from netgrain.training.gradient_flow import _prepare_forward_mode

BLOCK = 64  # points whose probes come from one generator, so that a probe belongs to a point, not to a batch


def reverse_norms(f: MeasuredFunction, part: Tensor, js: range, vector: Callable[[int], Tensor]) -> Iterator[Tensor]:
    """‖J(x)ᵀv_j‖² of each point: one forward pass, and a backward pass for every j."""
    for g in vector_products(f, part, map(vector, js), len(js)):
        yield in_double(g).square().sum(1)


def vector_products(f: MeasuredFunction, part: Tensor, vectors: Iterable[Tensor], count: int) -> Iterator[Tensor]:
    """Jᵀv, (points, d), for each of `count` batches v of (points, k); outputs of different points do not mix."""
    with torch.enable_grad():
        x = f.points(part).requires_grad_(True)
        y = f.call(x)
        for position, v in enumerate(vectors):
            last = position + 1 == count
            # a sum is differentiated, since grad_outputs= makes torch import sympy, seconds in every new process
            along = (y * v.to(y)).sum()
            g = torch.autograd.grad(along, x, retain_graph=not last, allow_unused=True)[0] if y.requires_grad else None
            if g is None:
                check_connected(f.call, x)
            yield torch.zeros_like(x).flatten(1) if g is None else g.flatten(1)


def forward_norms(f: MeasuredFunction, part: Tensor, js: range, vector: Callable[[int], Tensor]) -> Iterator[Tensor]:
    """‖J(x)u_j‖² of each point: one forward-mode pass for every j."""
    _prepare_forward_mode()
    x = f.points(part)
    for j in js:
        with torch.no_grad(), forward_mode.dual_level():
            dual = forward_mode.make_dual(x, vector(j).reshape(x.shape).to(x))
            try:
                _, tangent = forward_mode.unpack_dual(f.call(dual))
            except NetgrainError as e:
                raise NetgrainError(f"{str(e).rstrip('.')}; in forward mode: use estimator='vjp' or 'exact'.") from e
            if tangent is not None:
                norms = in_double(tangent).square().sum(1)
        if tangent is None:
            check_connected(f.call, x)
            norms = in_double(x.new_zeros(len(x)))
        yield norms


@dataclass(frozen=True)
class Directions:
    """Vectors of a point: the basis, or random ones that are functions of (seed, index of the point, j) alone."""

    kind: str
    size: int
    seed: int

    def at(self, index: Tensor) -> Callable[[int], Tensor]:
        """j ↦ the j-th vector of each of these points, (points, size)."""
        if self.kind == "basis":
            return lambda j: torch.zeros(self.size).index_fill_(0, torch.tensor(j), 1.0).expand(len(index), -1)
        if self.kind != "outputs":
            return lambda j: self._gathered(index, self._signs, j)
        # sorting random keys shuffles the outputs of each point; its j-th probe is the j-th of them
        order = self._gathered(index, lambda g: torch.rand(BLOCK, self.size, generator=g).argsort(1), 0)

        def one(j: int) -> Tensor:
            place = order[:, j % self.size, None]
            return torch.zeros(len(index), self.size).scatter_(1, place, 1.0)

        return one

    def _signs(self, generator: torch.Generator) -> Tensor:
        words = math.ceil(BLOCK * self.size / 32)
        drawn = torch.randint(-(2**31), 2**31, (words,), generator=generator, dtype=torch.int32).view(torch.uint8)
        bits = (drawn[:, None] >> torch.arange(8, dtype=torch.uint8)) & 1  # one draw makes 32 signs
        return bits.view(torch.int8).flatten()[: BLOCK * self.size].reshape(BLOCK, self.size) * 2 - 1

    def _gathered(self, index: Tensor, draw: Callable[[torch.Generator], Tensor], j: int) -> Tensor:
        blocks = index // BLOCK
        pieces = []
        for block in blocks.unique_consecutive().tolist():
            generator = torch.Generator().manual_seed(derived_seed(self.seed, self.kind, block, j))
            pieces.append(draw(generator)[index[blocks == block] - block * BLOCK])
        return torch.cat(pieces)
