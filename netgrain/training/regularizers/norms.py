"""Penalties on the weights: the sum of their squares, and the largest singular value of each layer."""

from __future__ import annotations

import torch
from torch import Tensor

from netgrain.training.regularizers.base import LossEvaluation, Regularizer, State


class L2(Regularizer):
    """Weight decay as a penalty, λ·‖θ‖² over all trained parameters.

    Biases are included. The penalty bounds the complexity of a network with L layers: GC ≤ Π‖W‖² ≤ (Σ‖W‖²/L)^L.

    Parameters
    ----------
    strength : float
        λ.
    seed : int, default 0
        Seed of its own generator.
    """

    def term(self, step: LossEvaluation) -> Tensor:
        """Penalty λ·‖θ‖².

        Parameters
        ----------
        step : LossEvaluation
            One evaluation of the loss.

        Returns
        -------
        Tensor
            What is added to the loss.
        """
        return self.strength * torch.stack([p.square().sum() for p in step.parameters]).sum()


class SpectralNorm(Regularizer):
    """Penalty on spectral norms, (λ/2)·Σ σ_max(W)².

    Over all weights with two or more axes, filters as the matrix (outputs, everything else). Each call updates σ_max by
    one step of power iteration, starting from the last call. The penalty bounds the complexity: GC ≤ (smallest width)·Π
    σ_max².

    Parameters
    ----------
    strength : float
        λ.
    seed : int, default 0
        Seed of its own generator.

    References
    ----------
    .. [1] Yoshida, Miyato, "Spectral norm regularization for improving the generalizability of deep
       learning", arXiv 1705.10941.
    """

    def __init__(self, strength: float, *, seed: int = 0) -> None:
        super().__init__(strength, seed=seed)
        self.left: dict[str, Tensor] = {}  # parameter → leading left singular vector

    def term(self, step: LossEvaluation) -> Tensor | None:
        """Penalty (λ/2)·Σ σ_max(W)²; None without matrices.

        Parameters
        ----------
        step : LossEvaluation
            One evaluation of the loss.

        Returns
        -------
        Tensor or None
            What is added to the loss.
        """
        wanted = {id(p) for p in step.parameters}
        found = [(n, p) for n, p in step.model.named_parameters() if p.dim() >= 2 and id(p) in wanted]
        if not found:
            return None
        return self.strength / 2 * torch.stack([self._norm(n, p.flatten(1)).square() for n, p in found]).sum()

    def _norm(self, name: str, W: Tensor) -> Tensor:
        with torch.no_grad():
            u = self.left.get(name)
            steps = 1
            if u is None or len(u) != len(W):
                u, steps = torch.randn(len(W), generator=self.generator), 20  # a first call has nothing to go on from
            u = u.to(W)
            for _ in range(steps):
                v = torch.nn.functional.normalize(W.mT @ u, dim=0)
                u = torch.nn.functional.normalize(W @ v, dim=0)
            self.left[name] = u
        return u @ W @ v

    def _state(self) -> State:
        return {**super()._state(), **{f"left/{name}": u.clone() for name, u in self.left.items()}}

    def _restore(self, state: State) -> None:
        super()._restore(state)
        self.left = {n.removeprefix("left/"): u.clone() for n, u in state.items() if n.startswith("left/")}
