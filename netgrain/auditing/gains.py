"""The gain of a direction in a geometry, relative to an average direction: uᵀGu · d / tr G."""

from __future__ import annotations

import torch
from torch import Tensor

from netgrain.geometry.estimate import Estimate
from netgrain.geometry.value import Geometry
from netgrain.runtime.errors import NetgrainError

ROUNDING = 1e-12  # gains below this are zero


def gain_estimates(G: Geometry, U: Tensor) -> tuple[Estimate, ...]:
    """The gains of `relative_gains` as numbers with errors, rounding set to zero."""
    values, errors = (t.tolist() for t in relative_gains(G, U))
    return tuple(Estimate(v if v > ROUNDING else 0.0, e, G.form.parts) for v, e in zip(values, errors, strict=True))


def relative_gains(G: Geometry, U: Tensor) -> tuple[Tensor, Tensor]:
    """g(u) = (uᵀGu / ‖u‖²) · d / tr G for directions U (k, *input_shape), and its standard errors; both (k,) float64.

    1 is an average direction, 0 one to which no network reacts at the probe; the gains of a basis add up to d. Errors
    come from the members (or points) that G is an average of: 0 where nothing was sampled, NaN where there is only one
    of them.

    >>> G = Geometry.from_matrix(torch.diag(torch.tensor([3.0, 1.0, 0.0, 0.0])))
    >>> relative_gains(G, torch.eye(4))[0].tolist()
    [3.0, 1.0, 0.0, 0.0]
    """
    if G.full_trace is not None:
        raise NetgrainError(
            f"only {len(G.eigenvalues)} leading directions of this geometry (d = {G.d}) were kept, so the gain of a "
            "given direction is not known; ask for fewer members, whose gradients fit the memory, or use a smaller "
            "input."
        )
    if G.trace.value <= 0:
        raise NetgrainError(
            "the geometry is zero, so no direction has a relative gain: the input gradient vanishes (a "
            "zero-initialised last layer?); probe the features below it or a trained checkpoint."
        )
    flat = U.reshape(len(U), G.d).double()
    flat = flat / torch.linalg.vector_norm(flat, dim=1, keepdim=True)
    trace = G.form.trace()
    gains = G.form.energies(flat) * (G.d / trace)
    form = G.form.batched()
    if form.parts < 2:
        return gains, torch.full_like(gains, torch.nan if form.parts else 0.0)
    along = torch.stack([form.part(i).energies(flat) for i in range(form.parts)])  # (parts, k)
    traces = torch.as_tensor(form.part_traces()).double()
    weights = form.counts.double() / form.counts.sum()
    # the error of a ratio of means, linearised
    apart = (along * G.d - gains * traces[:, None]) / trace
    return gains, ((weights[:, None] * apart.square()).sum(0) / (form.parts - 1)).sqrt()
