"""Regularisers that prefer flat places of the loss: the norm of its gradient, and the gradient a little uphill."""

from __future__ import annotations

import torch
from torch import Tensor

from netgrain.training.regularizers.base import LossEvaluation, Regularizer


class GradientNorm(Regularizer):
    """Penalty on the gradient of the loss, α·‖∇L‖².

    The gradient is that of the batch loss with respect to the trained parameters.

    Parameters
    ----------
    strength : float
        α.
    seed : int, default 0
        Seed of its own generator.
    """

    needs_loss = True

    def term(self, step: LossEvaluation) -> Tensor:
        """Penalty α·‖∇L‖².

        Parameters
        ----------
        step : LossEvaluation
            One evaluation of the loss.

        Returns
        -------
        Tensor
            What is added to the loss.
        """
        assert step.loss is not None  # penalty() refuses
        gradients = torch.autograd.grad(step.loss, list(step.parameters), create_graph=True, allow_unused=True)
        return self.strength * torch.stack([g.square().sum() for g in gradients if g is not None]).sum()


class SAM(Regularizer):
    """Sharpness-aware minimisation: the gradient at θ + ρ·g/‖g‖.

    g is the gradient at θ, so that L + ρ‖g‖ + O(ρ²) is minimised. If combined with penalties, SAM uses the sum of loss
    and penalties. Each step takes two forward and backward passes; only the first updates the running statistics of
    batch norms.

    Parameters
    ----------
    strength : float
        The radius ρ.
    seed : int, default 0
        Seed of its own generator.

    References
    ----------
    .. [1] Foret, Kleiner, Mobahi, Neyshabur, "Sharpness-aware minimization for efficiently improving
       generalization", arXiv 2010.01412.
    """

    what = "radius"

    @property
    def radius(self) -> float:
        """The radius ρ."""
        return self.strength
