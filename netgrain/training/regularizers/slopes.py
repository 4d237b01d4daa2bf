"""Penalties on the slopes of the network: its geometric complexity on the batch, from random vectors."""

from __future__ import annotations

import torch
from torch import Tensor

from netgrain.runtime.errors import NetgrainError
from netgrain.training.checks import evaluating
from netgrain.training.regularizers.base import LossEvaluation, Regularizer, batch_norms, flat_outputs


class GeometricComplexity(Regularizer):
    """Penalty on slopes, λ·GC = λ·(1/n) Σ ‖J(x)‖² on the batch.

    Estimated without bias by ‖Jᵀv‖² for random sign vectors v, one backward pass each. With batch norm in train mode
    samples see each other and have no Jacobian of their own: the penalty is then computed with the running statistics,
    which takes one more forward pass.

    Parameters
    ----------
    strength : float
        λ.
    vectors : int, default 1
        Random vectors per step.
    seed : int, default 0
        Seed of its own generator.

    Examples
    --------
    A linear map with three weights of 1 has GC 3.

    >>> net = torch.nn.Linear(3, 1, bias=False)
    >>> _ = torch.nn.init.ones_(net.weight)
    >>> GeometricComplexity(2.0).penalty(net, torch.zeros(5, 3)).item()
    6.0
    """

    needs_inputs = True

    def __init__(self, strength: float, *, vectors: int = 1, seed: int = 0) -> None:
        super().__init__(strength, seed=seed)
        self.vectors = _count(type(self).__name__, vectors)

    def term(self, step: LossEvaluation) -> Tensor:
        """Penalty λ·GC.

        Parameters
        ----------
        step : LossEvaluation
            One evaluation of the loss.

        Returns
        -------
        Tensor
            What is added to the loss.
        """
        outputs = step.outputs
        if norms := batch_norms(step.model):
            if any(getattr(m, "running_mean", None) is None for m in norms):
                raise NetgrainError(
                    "the model has batch norm without running statistics, so that samples always see each other; "
                    "expected track_running_stats=True or a normalisation that acts on each sample."
                )
            with evaluating(*norms):
                outputs = step.model(step.x)
        f = flat_outputs(outputs, step.x, type(self).__name__)
        squares = [self._along(f, step.x, p) for p in range(self._passes(f.shape[1]))]
        return self._scale(f.shape[1]) * self.strength * torch.stack(squares).mean()

    def _passes(self, outputs: int) -> int:
        return self.vectors

    def _scale(self, outputs: int) -> float:
        return 1.0

    def _vector(self, f: Tensor, number: int) -> Tensor:
        """Random directions in the space of outputs, one per sample."""
        signs = torch.randint(0, 2, f.shape, generator=self.generator)
        return (signs * 2 - 1).to(f)

    def _along(self, f: Tensor, x: Tensor, number: int) -> Tensor:
        if not f.requires_grad:
            return f.new_zeros(())
        # outputs of different samples do not mix, so one backward pass gives Jᵀv of each; the sum is differentiated,
        # because grad_outputs= makes torch import sympy, two seconds in every process
        along = (f * self._vector(f, number)).sum()
        (slope,) = torch.autograd.grad(along, x, create_graph=True, allow_unused=True)
        return f.new_zeros(()) if slope is None else slope.square().sum() / len(x)


class Jacobian(GeometricComplexity):
    """Jacobian regularisation, (λ/2)·(1/n) Σ ‖J(x)‖².

    Half of `GeometricComplexity` at the same strength, from random directions on the unit sphere.

    Parameters
    ----------
    strength : float
        λ.
    vectors : int or None, default 1
        Number of random vectors per step; None computes the penalty exactly, with one backward pass per output.
    seed : int, default 0
        Seed of its own generator.

    References
    ----------
    .. [1] Hoffman, Roberts, Yaida, "Robust learning with Jacobian regularization", arXiv 1908.02729.

    Examples
    --------
    A linear map with six weights of 1 has GC 6.

    >>> net = torch.nn.Linear(3, 2, bias=False)
    >>> _ = torch.nn.init.ones_(net.weight)
    >>> Jacobian(1.0, vectors=None).penalty(net, torch.zeros(5, 3)).item()
    3.0
    """

    def __init__(self, strength: float, *, vectors: int | None = 1, seed: int = 0) -> None:
        super().__init__(strength, vectors=vectors or 1, seed=seed)
        self.exact = vectors is None

    def _passes(self, outputs: int) -> int:
        return outputs if self.exact else self.vectors

    def _scale(self, outputs: int) -> float:
        return outputs / 2  # a unit vector sees 1/outputs of the sum of squares; so does one output of all

    def _vector(self, f: Tensor, number: int) -> Tensor:
        if self.exact:
            one = torch.zeros_like(f)
            one[:, number] = 1
            return one
        v = torch.randn(f.shape, generator=self.generator).to(f)
        return torch.nn.functional.normalize(v, dim=1)


def _count(who: str, vectors: int) -> int:
    if isinstance(vectors, bool) or not isinstance(vectors, int) or vectors < 1:
        raise NetgrainError(f"{who} expects vectors= as a whole number from 1 upwards, found {vectors!r}.")
    return vectors
