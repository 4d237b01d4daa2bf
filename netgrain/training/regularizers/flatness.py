"""Regularisers that prefer flat places of the loss: the norm of its gradient, and the gradient a little uphill."""

from __future__ import annotations

import torch
from torch import Tensor

from netgrain.training.regularizers.base import LossEvaluation, Regularizer


class GradientNorm(Regularizer):
    """α·‖∇L‖², of the loss of the batch with respect to the parameters that are trained."""

    needs_loss = True

    def term(self, step: LossEvaluation) -> Tensor:
        assert step.loss is not None  # penalty() refuses
        gradients = torch.autograd.grad(step.loss, list(step.parameters), create_graph=True, allow_unused=True)
        return self.strength * torch.stack([g.square().sum() for g in gradients if g is not None]).sum()


class SAM(Regularizer):
    """The gradient at θ + ρ·g/‖g‖, where g is the gradient at θ: sharpness-aware minimisation, L + ρ‖g‖ + O(ρ²).

    Together with penalties it is their sum with the loss that is evaluated uphill. Two forward and backward passes a
    step; running statistics of batch norm count the first one only.
    """

    what = "radius"

    @property
    def radius(self) -> float:
        return self.strength
