"""Data, labels and member numbers are looked at before training; what cannot be used is refused with a sentence."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from netgrain.families.members import forward, model_dtype
from netgrain.runtime.errors import NetgrainError
from netgrain.runtime.samples import checked_labels, checked_samples, scoring, tensor_of


def member_numbers(members: int | Sequence[int]) -> list[int]:
    numbers = list(range(members)) if isinstance(members, int) else list(members)
    if not numbers or min(numbers) < 0 or len(set(numbers)) < len(numbers):
        raise NetgrainError(
            f"expected members as a count ≥ 1 or as different numbers ≥ 0, found {members!r}; 4 means 0, 1, 2, 3."
        )
    return numbers


def checked(model: nn.Module, X: Tensor, y: Tensor, loss: str) -> tuple[Tensor, Tensor]:
    """Data the model can be trained on, in the model's precision; labels int64."""
    X, y = checked_samples(X), tensor_of(y, "y")
    X = X.to(model_dtype(model))
    targets = loss in ("sse", "mse") and y.is_floating_point()
    with evaluating(model), torch.no_grad():
        place = next(model.parameters()).device
        outputs = forward(model if targets else scoring(model), X[:1].to(place)).shape[1]
    if targets:
        if (
            y.dim() == 0
            or len(y) != len(X)
            or y.reshape(len(y), -1).shape[1] != outputs
            or not bool(torch.isfinite(y).all())
        ):
            raise NetgrainError(
                f"expected finite targets of shape ({len(X)}, {outputs}), one for each output, "
                f"found {tuple(y.shape)}; give as many targets as the model has outputs."
            )
        return X, y.reshape(len(y), -1).to(X.dtype)
    y = checked_labels(y, len(X), max(outputs, 2))
    if outputs < 2:
        raise NetgrainError(
            f"expected a model with at least two outputs for labels, found {outputs}; "
            "make it with outputs=2, or use loss='sse' or 'mse' with floating-point targets."
        )
    return X, y


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, training in modes:
            module.training = training
