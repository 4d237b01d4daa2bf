"""Regularisers that prefer flat places of the loss: the norm of its gradient, and the gradient a little uphill."""

from __future__ import annotations

import torch
from torch import Tensor

from netgrain.training.regularizers.base import LossEvaluation, Regularizer


class GradientNorm(Regularizer):
    """Penalty on the gradient of the loss, α·‖∇L‖².

    Of the loss of the batch with respect to the parameters that are trained.

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

    g is the gradient at θ, so that L + ρ‖g‖ + O(ρ²) is minimised. Together with penalties it is their sum with the loss
    that is evaluated uphill. Two forward and backward passes a step; running statistics of batch norm count the first
    one only.

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
