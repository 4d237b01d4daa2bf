"""Data, labels and member numbers are looked at before training; what cannot be used is refused with a sentence."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from netgrain.ensemble import forward, model_dtype
from netgrain.errors import NetgrainError


def member_numbers(members: int | Sequence[int]) -> list[int]:
    numbers = list(range(members)) if isinstance(members, int) else list(members)
    if not numbers or min(numbers) < 0 or len(set(numbers)) < len(numbers):
        raise NetgrainError(
            f"expected members as a count ≥ 1 or as different numbers ≥ 0, found {members!r}; 4 means 0, 1, 2, 3."
        )
    return numbers


def checked_data(X: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    X, y = torch.as_tensor(X).detach(), torch.as_tensor(y).detach()
    if X.dim() < 2 or not len(X) or not X.is_floating_point() or not bool(torch.isfinite(X).all()):
        raise NetgrainError(
            f"expected finite floating-point samples of shape (samples, …), found {X.dtype} {tuple(X.shape)}"
            f"{' with NaN or Inf' if X.is_floating_point() and X.numel() else ''}; convert with X.float()."
        )
    if y.dim() == 0 or len(y) != len(X):
        raise NetgrainError(
            f"expected one label per sample, {len(X)} of them, found shape {tuple(y.shape)}; pass the labels of X."
        )
    return X, y


def check_labels(y: Tensor, outputs: int) -> None:
    if y.dim() != 1 or y.is_floating_point() or y.is_complex() or y.dtype == torch.bool:
        raise NetgrainError(
            f"expected integer labels of shape (samples,), found {y.dtype} {tuple(y.shape)}; convert with y.long()."
        )
    low, high = int(y.min()), int(y.max())
    if low < 0 or high >= outputs:
        raise NetgrainError(
            f"expected labels from 0 to {outputs - 1} (the model has {outputs} outputs), found {low} to {high}; "
            f"relabel the data or make the model with outputs={max(high + 1, 2)}."
        )


def checked(model: nn.Module, X: Tensor, y: Tensor, loss: str) -> tuple[Tensor, Tensor]:
    """Data the model can be trained on, in the model's precision; labels int64."""
    X, y = checked_data(X, y)
    X = X.to(model_dtype(model))
    with evaluating(model), torch.no_grad():
        place = next(model.parameters()).device
        outputs = forward(model, X[:1].to(place)).shape[1]
    if loss in ("sse", "mse") and y.is_floating_point():
        if y.reshape(len(y), -1).shape[1] != outputs or not bool(torch.isfinite(y).all()):
            raise NetgrainError(
                f"expected finite targets of shape ({len(X)}, {outputs}), one for each output, "
                f"found {tuple(y.shape)}; give as many targets as the model has outputs."
            )
        return X, y.reshape(len(y), -1).to(X.dtype)
    check_labels(y, outputs)
    if outputs < 2:
        raise NetgrainError(
            f"expected a model with at least two outputs for labels, found {outputs}; "
            "make it with outputs=2, or use loss='sse' or 'mse' with floating-point targets."
        )
    return X, y.long()


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, training in modes:
            module.training = training
