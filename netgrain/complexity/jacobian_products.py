"""Products of Jacobians with vectors at many points at once, and the random vectors they are taken with."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass

import torch
from torch import Tensor

from netgrain.complexity.functions import MeasuredFunction
from netgrain.families.failures import check_connected
from netgrain.runtime.devices import in_double
from netgrain.runtime.errors import NetgrainError
from netgrain.runtime.memory import shortage
from netgrain.runtime.randomness import derived_seed
from netgrain.training.gradient_flow import twice_differentiable

BLOCK = 64  # points whose vectors come from one generator, so that a vector belongs to a point, not to a batch
ONCE = "use estimator='vjp' or 'exact'"


class Jacobians:
    """J = ∂f/∂x (k × d) at some points, through its products; outputs of different points do not mix.

    Jᵀu is one backward pass. Jv is the derivative of the linear map u ↦ Jᵀu along v, reverse mode twice: forward mode
    would import torch's compiler first (4 to 5 s of processor time in a fresh process), and each of its passes took 1.6
    to 5 times as long (MLPs of width 64 and 512, 10 to 64 inputs, 20 to 1,000 outputs, one thread).
    """

    def __init__(self, f: MeasuredFunction, part: Tensor, *, twice: bool = False) -> None:
        self.f = f
        with torch.enable_grad(), twice_differentiable() if twice else nullcontext():
            self.x = f.points(part).requires_grad_(True)
            self.y = f.call(self.x)
            self.u = torch.zeros_like(self.y, requires_grad=True)
            self.back = self._pulled(self.u, keep=True) if twice else None  # Jᵀu as a function of u

    def pull(self, u: Tensor) -> Tensor:
        """Jᵀu of each point, (points, k) → (points, d)."""
        found = self._pulled(u)
        return torch.zeros_like(self.x).flatten(1) if found is None else found.flatten(1)

    def push(self, v: Tensor) -> Tensor:
        """Jv of each point, (points, d) → (points, k); for Jacobians made with twice=True."""
        if self.back is None:
            return torch.zeros_like(self.y)
        with torch.enable_grad():
            along = (self.back.flatten(1) * v.to(self.back)).sum()
        (found,) = torch.autograd.grad(along, self.u, retain_graph=True)
        return found

    def _pulled(self, u: Tensor, *, keep: bool = False) -> Tensor | None:
        """Jᵀu in the shape of x; None where the outputs are constants."""
        found = None
        if self.y.requires_grad:
            # a sum is differentiated, since grad_outputs= makes torch import sympy, seconds in every new process
            with torch.enable_grad():
                along = (self.y * u.to(self.y)).sum()
            (found,) = torch.autograd.grad(along, self.x, create_graph=keep, retain_graph=True, allow_unused=True)
        if found is None:
            check_connected(self.f.call, self.x)
        return found

    def rows(self) -> Tensor:
        """J itself, (points, k, d): one backward pass for each output."""
        basis = torch.eye(self.f.k, dtype=self.x.dtype, device=self.x.device)
        return torch.stack([self.pull(e.expand(len(self.x), -1)) for e in basis], 1)


def reverse_norms(f: MeasuredFunction, part: Tensor, js: range, vector: Callable[[int], Tensor]) -> Iterator[Tensor]:
    """‖J(x)ᵀv_j‖² of each point: one forward pass, and a backward pass for every j."""
    J = Jacobians(f, part)
    for j in js:
        yield in_double(J.pull(vector(j))).square().sum(1)


def forward_norms(f: MeasuredFunction, part: Tensor, js: range, vector: Callable[[int], Tensor]) -> Iterator[Tensor]:
    """‖J(x)u_j‖² of each point: one forward pass, and a pass through its derivative for every j."""
    with _second_derivatives():
        J = Jacobians(f, part, twice=True)
    for j in js:
        u = vector(j)
        with _second_derivatives():
            image = J.push(u)
        norms = in_double(image).square().sum(1)
        if j == js[0]:
            _check_adjoint(norms, (in_double(J.pull(image)) * in_double(u.to(image))).sum(1))
        yield norms


@contextmanager
def _second_derivatives() -> Iterator[None]:
    """A model that can be differentiated once only is refused with the way out."""
    try:
        yield
    except RuntimeError as e:
        if shortage(e):
            raise
        reason = (str(e).strip() or type(e).__name__).splitlines()[0].rstrip(".")
        raise NetgrainError(f"the model cannot be differentiated twice ({reason}); {ONCE}.") from e


def _check_adjoint(norms: Tensor, again: Tensor) -> None:
    """‖Ju‖² = u·JᵀJu, unless a backward pass written by hand hides its own derivative from torch."""
    known = torch.isfinite(norms) & torch.isfinite(again)
    if bool(((norms - again).abs() > 0.01 * norms.max())[known].any()):
        raise NetgrainError(f"the model cannot be differentiated twice: its backward passes disagree; {ONCE}.")


@dataclass(frozen=True)
class PointVectors:
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
        # sorting random keys shuffles the outputs of each point; its j-th vector is the j-th of them
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
