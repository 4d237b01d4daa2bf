"""Noise on what the network is shown: fresh in every step, so that nothing of it can be memorised."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from netgrain.runtime.errors import NetgrainError
from netgrain.training.regularizers.base import Regularizer, checked_strength, flat_outputs


class InputNoise(Regularizer):
    """Gaussian noise on the inputs, x + σ·N(0, I), fresh in every step.

    It adds (σ²/2)·GC to a squared error, exactly for affine maps.

    Parameters
    ----------
    strength : float
        The standard deviation σ.
    seed : int, default 0
        Seed of its own generator.
    """

    what = "standard deviation"

    def inputs(self, x: Tensor) -> Tensor:
        """Inputs with noise.

        Parameters
        ----------
        x : Tensor of shape (batch, *input_shape)
            The inputs.

        Returns
        -------
        Tensor
            x + σ·N(0, I).
        """
        if not self.strength:
            return x
        if not x.is_floating_point():
            raise NetgrainError(
                f"InputNoise expects floating-point inputs, found {x.dtype}; convert them with .float()."
            )
        return x + self.strength * torch.randn(x.shape, generator=self.generator).to(x)


class LabelNoise(Regularizer):
    """Noise on the labels, fresh in every step.

    Labels are replaced by a random class with probability p, which may be the right one; targets that are real numbers
    become y + p·N(0, I). Fixed wrong labels, by contrast, are memorised, which raises complexity instead of lowering
    it.

    Parameters
    ----------
    strength : float
        The probability p, or the standard deviation for real targets.
    seed : int, default 0
        Seed of its own generator.
    """

    what = "probability"

    def __init__(self, strength: float, *, seed: int = 0) -> None:
        super().__init__(strength, seed=seed)

    def targets(self, y: Tensor, outputs: Any) -> Tensor:
        """Targets with noise.

        Parameters
        ----------
        y : Tensor of shape (batch, ...)
            The targets.
        outputs : Tensor
            The model's outputs, whose number is the number of classes.

        Returns
        -------
        Tensor
            Noisy targets.
        """
        if not self.strength:
            return y
        if y.is_floating_point():
            return y + self.strength * torch.randn(y.shape, generator=self.generator).to(y)
        p = checked_strength("LabelNoise", "probability", self.strength, most=1.0)
        classes = flat_outputs(outputs, y, "LabelNoise").shape[1]
        hit = torch.rand(y.shape, generator=self.generator).to(y.device) < p
        return torch.where(hit, torch.randint(0, classes, y.shape, generator=self.generator).to(y), y)
