"""Data, labels and member numbers are looked at before training; what cannot be used is refused with a sentence."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from netgrain.families.logits import answering
from netgrain.families.members import Family, built, forward, member, model_dtype
from netgrain.runtime.errors import NetgrainError
from netgrain.runtime.samples import checked_samples, scoring, tensor_of
from netgrain.training.losses import LOSSES, class_targets, number_targets


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
    targets = LOSSES[loss].numbers and y.is_floating_point()
    with evaluating(model), torch.no_grad():
        place = next(model.parameters()).device
        outputs = forward(model if targets else scoring(answering(model)), X[:1].to(place)).shape[1]
    if targets:
        return X, number_targets(y, len(X), outputs, X.dtype)
    return X, class_targets(y, len(X), outputs)


def trainable_member(
    make: Family, seed: int, i: int, device: torch.device | str = "cpu"
) -> tuple[nn.Module, list[str]]:
    """Member i, and the names of the parameters that the family itself leaves trainable."""
    fixed: set[str] = set()

    def made() -> nn.Module:
        model = built(make)
        fixed.update(name for name, p in model.named_parameters() if not p.requires_grad)
        return model

    model = member(made, seed, i, device)
    names = [name for name, _ in model.named_parameters() if name not in fixed]
    if not names:
        raise NetgrainError(
            f"every parameter of {type(model).__name__} is frozen, expected some to train; "
            "set requires_grad=True on those that should move."
        )
    return model, names


@contextmanager
def evaluating(*models: nn.Module) -> Iterator[None]:
    """Models in eval mode, and every module back in its own mode afterwards."""
    modes = [(module, module.training) for model in models for module in model.modules()]
    for model in models:
        model.eval()
    try:
        yield
    finally:
        for module, training in modes:
            module.training = training
