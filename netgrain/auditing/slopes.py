"""Input gradients of a network at some samples, and what is read off them: steepness, and where it reacts.

The rows of a sample are Jᵀr, J = ∂f/∂x and r random signs over the outputs, or the rows of J themselves where there are
few outputs; so the mean of their outer products is JᵀJ, and their squared norm is the steepness ‖J‖² of the sample.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from netgrain.auditing.pattern_sizes import part_energies
from netgrain.auditing.ratios import ratio_of_means
from netgrain.families.gradients import gradients
from netgrain.families.members import frozen, model_dtype
from netgrain.geometry.correlation import correlation
from netgrain.geometry.estimate import Estimate, mean_of
from netgrain.geometry.forms import Factored, Form
from netgrain.runtime.randomness import generator_for

AT_ONCE, LARGE, LARGE_AT_ONCE = 64, 2**14, 8  # samples of a pass, and those of large inputs


@dataclass(frozen=True, eq=False)
class Slopes:
    """The rows of each sample."""

    rows: Tensor  # (samples, vectors, d) float32 on the CPU, scaled so that Σ ‖row‖² is ‖J‖²
    shape: tuple[int, ...]

    @property
    def steepness(self) -> Tensor:
        """‖J‖² of each sample, (samples,) float64."""
        return torch.stack([one.double().square().sum() for one in self.rows])

    @property
    def complexity(self) -> Estimate:
        """The mean of ‖J‖², with the error over samples."""
        return mean_of(self.steepness)

    @property
    def form(self) -> Form:
        """The geometry at these samples, each a part of it."""
        n, m, d = self.rows.shape
        return Factored(self.rows.reshape(n * m, d), 1.0, torch.ones(n, dtype=torch.int64), (m,) * n)

    def inside(self, V: Tensor) -> Tensor:
        """Share of each sample's steepness that lies in the span of orthonormal rows V (k, d): above and below."""
        V = V.float()
        return torch.stack([(one @ V.T).double().square().sum() for one in self.rows])

    def share_inside(self, V: Tensor) -> Estimate:
        """Share of the geometry in the span of orthonormal rows V (k, d), with the error over samples."""
        return ratio_of_means([self.inside(V)], [self.steepness])

    def parts(self) -> Tensor:
        """Steepness of each sample by the parts of `part_names`, (samples, parts) float64; no columns without parts."""
        n, m, d = self.rows.shape
        found = part_energies(self.rows.reshape(n * m, d), self.shape)
        return found.reshape(n, m, found.shape[1]).sum(1)

    def corr(self, other: Form) -> Estimate:
        """Correlation of the geometry with another one, with the error over samples."""
        return correlation(self.form, other)


def slopes_of(model: nn.Module, X: Tensor, *, vectors: int | None = None, seed: int = 0) -> Slopes:
    """The rows of a network at some samples: so many random ones for each, or one for each output.

    >>> net = nn.Linear(2, 2)
    >>> _ = net.weight.data.copy_(torch.tensor([[1.0, 2.0], [0.0, 2.0]]))
    >>> slopes_of(net, torch.zeros(2, 2)).steepness.tolist()
    [9.0, 9.0]
    """
    generator = generator_for(seed, "slopes")

    def mixed(y: Tensor) -> Tensor:
        assert vectors is not None
        signs = torch.randint(0, 2, (vectors, *y.shape), generator=generator) * 2 - 1
        return torch.einsum("mnk,nk->nm", signs.to(y), y) / math.sqrt(vectors)

    where = next(model.parameters()).device
    shape, pieces = tuple(X.shape[1:]), []
    at_once = AT_ONCE if math.prod(shape) < LARGE else LARGE_AT_ONCE
    for some in X.split(at_once):
        points = some.to(where, model_dtype(model))
        found = gradients(frozen(model), points, "all" if vectors is None else mixed, at_once=at_once)
        pieces.append(found.reshape(len(some), -1, math.prod(shape)).float().cpu())
    return Slopes(torch.cat(pieces), shape)
