"""Noise on what the network is shown: fresh in every step, so that nothing of it can be memorised."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from netgrain.runtime.errors import NetgrainError
from netgrain.training.regularizers.base import Regularizer, checked_strength, flat_outputs


class InputNoise(Regularizer):
    """x + σ·N(0, I), which adds (σ²/2)·GC to a squared error, exactly for affine maps."""

    what = "standard deviation"

    def inputs(self, x: Tensor) -> Tensor:
        if not self.strength:
            return x
        if not x.is_floating_point():
            raise NetgrainError(
                f"InputNoise expects floating-point inputs, found {x.dtype}; convert them with .float()."
            )
        return x + self.strength * torch.randn(x.shape, generator=self.generator).to(x)


class LabelNoise(Regularizer):
    """Labels that are replaced by a random class with probability p, targets y + p·N(0, I) where they are real numbers.

    The random class may be the right one. Drawn again in every step: labels that are wrong once and for all are
    memorised, and then complexity goes up, not down.
    """

    what = "probability"

    def __init__(self, strength: float, *, seed: int = 0) -> None:
        super().__init__(strength, seed=seed)

    def targets(self, y: Tensor, outputs: Any) -> Tensor:
        if not self.strength:
            return y
        if y.is_floating_point():
            return y + self.strength * torch.randn(y.shape, generator=self.generator).to(y)
        p = checked_strength("LabelNoise", "probability", self.strength, most=1.0)
        classes = flat_outputs(outputs, y, "LabelNoise").shape[1]
        hit = torch.rand(y.shape, generator=self.generator).to(y.device) < p
        return torch.where(hit, torch.randint(0, classes, y.shape, generator=self.generator).to(y), y)
