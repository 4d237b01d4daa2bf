"""Families whose batch norms carry the statistics of data, as after the first pass of training."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from netgrain.families.members import Family, built, forward
from netgrain.runtime.errors import NetgrainError


@dataclass(frozen=True, eq=False)
class DataStatistics:
    """A family of fresh modules whose batch norms know the mean and variance of their inputs over samples X."""

    make: Family
    X: Tensor

    def __call__(self) -> nn.Module:
        model = built(self.make)
        if not tracking_norms(model):
            raise NetgrainError("expected a model with batch norms that track statistics, found none.")
        calibrate(model, self.X)
        return model


def tracking_norms(model: nn.Module) -> list[_BatchNorm]:
    """Batch norms that keep running statistics."""
    return [m for m in model.modules() if isinstance(m, _BatchNorm) and m.track_running_stats]


def calibrate(model: nn.Module, X: Tensor) -> None:
    """Give the model's batch norms the statistics of their inputs over X, in one pass; all else stays as it is."""
    norms = tracking_norms(model)
    momenta = [m.momentum for m in norms]
    for m in norms:
        m.reset_running_stats()
        m.momentum = None  # cumulative: the statistics of this one batch
    training = {m: m.training for m in model.modules()}
    model.eval()
    for m in norms:
        m.train()
    try:
        with torch.no_grad():
            parameter = next(model.parameters())
            forward(model, X.to(parameter.device, parameter.dtype))
    finally:
        for module, mode in training.items():
            module.training = mode
        for m, momentum in zip(norms, momenta, strict=True):
            m.momentum = momentum


def data_statistics(make: Family, X: Tensor) -> DataStatistics:
    """Family of networks whose batch norms hold the statistics of given data.

    At initialisation a batch norm in eval mode divides by √(1 + ε) and does nothing else; with data
    statistics it acts as it does in training.

    Parameters
    ----------
    make : callable
        Returns a fresh ``torch.nn.Module`` with batch norms on every call.
    X : Tensor of shape (samples, *input_shape)
        At least two finite floating-point samples.

    Returns
    -------
    DataStatistics
        A family: every call makes a fresh network and passes X through it once.

    Raises
    ------
    NetgrainError
        If X does not have this form, or, when a network is made, if it has no batch norms that track statistics.

    Examples
    --------
    >>> family = data_statistics(lambda: nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3)), torch.randn(64, 2))
    >>> bool((family()[1].running_var != 1).all())
    True
    """
    X = torch.as_tensor(X)
    if X.dim() < 2 or len(X) < 2 or not X.is_floating_point() or not bool(torch.isfinite(X).all()):
        raise NetgrainError(
            f"expected at least two finite floating-point samples of shape (samples, …), found {tuple(X.shape)}."
        )
    return DataStatistics(make, X.detach().cpu())
