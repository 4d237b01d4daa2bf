"""What may be measured: inputs, modes, outputs and options, each refused with one sentence."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.dropout import _DropoutNd
from torch.nn.utils.parametrizations import _SpectralNorm

from netgrain.families.failures import check_not_lazy
from netgrain.families.members import check_weights
from netgrain.runtime import samples
from netgrain.runtime.arguments import found, is_number
from netgrain.runtime.errors import NetgrainError
from netgrain.runtime.samples import checked_samples

checked_points = checked_samples  # what is measured is called points here


def check_mode(model: Any) -> None:
    """Refuse what is not a module, weights that are not finite, and modes in which outputs are not functions of x."""
    if not isinstance(model, nn.Module):
        way_out = "call it to get a model" if isinstance(model, type) else "wrap it in a module"
        raise NetgrainError(f"expected a torch.nn.Module, found {found(model)}; {way_out}.")
    check_not_lazy(model, "the model")
    if next(model.parameters(), None) is not None:
        check_weights(model)
    for name, module in model.named_modules():
        if module.training and (reason := _unsteady(module)):
            where = f"'{name}'" if name else "the model"
            raise NetgrainError(
                f"{where} ({type(module).__name__}) is in train mode, where {reason}; expected a fixed function of "
                "each input: call model.eval() first."
            )


def _unsteady(module: nn.Module) -> str:
    """Why a module in train mode is not a function of one input (empty: it is)."""
    if isinstance(module, _BatchNorm):
        return "samples of a batch see each other"
    chance = isinstance(module, _DropoutNd) and module.p > 0
    chance = chance or isinstance(module, nn.RReLU)
    chance = chance or (isinstance(module, nn.MultiheadAttention | nn.RNNBase) and module.dropout > 0)
    if chance:
        return "outputs are random"
    return "each pass changes its buffers" if isinstance(module, _SpectralNorm) else ""


def unwrapped(y: Any) -> Any:
    """The logits of a model that returns more than a tensor: an attribute `logits`, or a key (as in Hugging Face)."""
    if isinstance(y, Tensor):
        return y
    inside = getattr(y, "logits", None)
    if inside is None and isinstance(y, Mapping):
        inside = y.get("logits")
    return inside if isinstance(inside, Tensor) else y


def checked_labels(labels: Any, points: int, outputs: int | None = None, *, logit: bool = False) -> Tensor:
    """Whole-number labels (points,), inside the outputs where these are given (logit: one output tells two apart)."""
    return samples.checked_labels(labels, points, outputs, logit=logit).cpu()


def check_finite(values: Tensor) -> None:
    """Refuse gradients that are not numbers; values (points,) are their squared norms."""
    bad = ~torch.isfinite(values)
    if bool(bad.any()):
        raise NetgrainError(
            f"the gradients are NaN or Inf at {int(bad.sum())} of {len(values)} points, first at index "
            f"{int(bad.nonzero()[0])}; expected finite ones: look for a division by zero, √0 or weights that diverged."
        )


def check_effort(rel_error: float, vectors: int | None, batch: int) -> None:
    if not is_number(rel_error):
        raise NetgrainError(f"expected a number as relative error, found rel_error={found(rel_error)}.")
    if not rel_error > 0:
        raise NetgrainError(
            f"expected a relative error above zero, found rel_error={rel_error:g}; 0.02 is two percent."
        )
    if vectors is not None and (isinstance(vectors, bool) or not isinstance(vectors, int) or vectors < 1):
        raise NetgrainError(f"expected at least one vector per point, found vectors={vectors!r}.")
    if isinstance(batch, bool) or not isinstance(batch, int) or batch < 1:
        raise NetgrainError(f"expected at least one point at a time, found batch={batch!r}.")


def described(X: Tensor) -> str:
    """The input space in words: complexity is per unit of input, so it changes when inputs are scaled.

    >>> described(torch.tensor([[0.0, 2.0], [0.0, 2.0]]))
    '2 points 2 as given, mean 1.00, sd 1.00'
    """
    sd, mean = map(float, torch.std_mean(X.float(), correction=0))
    points = "1 point" if len(X) == 1 else f"{len(X)} points"
    digits = ".2f" if 0.1 <= sd < 1000 or sd == 0 else ".2g"
    shape = "×".join(map(str, X.shape[1:]))
    return f"{points} {shape} as given, mean {mean:{digits}}, sd {sd:{digits}}".replace("-0.00", "0.00")
