"""Losses and their targets, in one place: a new loss is a row of `LOSSES`.

Outputs f are (samples, k). A loss has two readings: its sum over samples, which gradient flow, curvature and the
learning coefficient follow, and what training minimises on a batch, a mean unless the name says otherwise.

    sse             ½ Σ ‖f − y‖², where y are numbers, or classes as one-hot vectors; batch: the same sum
    cross-entropy   Σ −log softmax(f)_y, with one output Σ log(1 + exp f) − y f; batch: its mean
    mse             batch: sse over the size of the batch; as a flow it would be sse in another unit of time
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from netgrain.runtime.errors import NetgrainError
from netgrain.runtime.samples import checked_labels, tensor_of

LossLike = str | Callable[[Tensor, Tensor], Tensor]
OfOutputs = Callable[..., Tensor]  # (outputs (samples, k), targets) → one number


class LossNotFinite(NetgrainError):
    """A loss or its gradient is NaN or Inf."""


@dataclass(frozen=True, kw_only=True)
class Loss:
    """One loss: a row of the table, or a user's own function, which may be anything that gives a scalar."""

    name: str
    value: OfOutputs  # the sum over samples
    on_batch: OfOutputs | None = None  # what training minimises; None: not for training
    additive: bool = True  # known to be a sum over samples, so that slices of the data may be added up
    mean: bool = False  # on_batch is a mean over samples
    numbers: bool = False  # targets are numbers, one for each output; classes stand for one-hot vectors
    smooths: bool = False  # on_batch takes label_smoothing=
    flows: bool = True  # known to gradient flow

    def derivative(self, f: Tensor, y: Tensor, who: str = "the model") -> Tensor:
        """∂L/∂f, shape of f (samples, k)."""
        with torch.enable_grad():
            leaf = f.detach().requires_grad_(True)
            total = self.value(leaf, y)
            if not isinstance(total, Tensor) or total.dim() != 0:
                found = f"shape {tuple(total.shape)}" if isinstance(total, Tensor) else type(total).__name__
                raise NetgrainError(f"expected a loss that returns one number as a tensor, found {found}; sum it.")
            if not bool(torch.isfinite(total)):
                raise LossNotFinite(
                    f"the loss of {who} is {float(total.detach())}, expected a finite number "
                    f"(outputs up to {float(f.abs().max()):.3g}); look at the labels and the scale of the data."
                )
            slope = torch.autograd.grad(total, leaf, allow_unused=True)[0] if total.requires_grad else None
        if slope is None:
            raise NetgrainError("the loss does not depend on the model's outputs; expected a function of (outputs, y).")
        if not bool(torch.isfinite(slope).all()):
            raise LossNotFinite(f"the gradient of the loss of {who} has NaN or Inf; use a loss that is smooth there.")
        return slope


# --- the table ----------------------------------------------------------------------------------------------------


def _cross_entropy(outputs: Tensor, targets: Tensor) -> Tensor:
    if outputs.shape[1] == 1:  # one logit: log(1 + exp(f)) − y f
        return (F.softplus(outputs) - targets * outputs).sum()
    return F.cross_entropy(outputs, targets, reduction="sum")


def _sse(outputs: Tensor, targets: Tensor) -> Tensor:
    if not targets.is_floating_point():
        targets = F.one_hot(targets, outputs.shape[1]).to(outputs.dtype)
    return (outputs - targets).square().sum() / 2


def _mse(outputs: Tensor, targets: Tensor) -> Tensor:
    return _sse(outputs, targets) / len(outputs)


LOSSES = {
    loss.name: loss
    for loss in (
        Loss(name="sse", value=_sse, on_batch=_sse, numbers=True),
        Loss(name="cross-entropy", value=_cross_entropy, on_batch=F.cross_entropy, mean=True, smooths=True),
        Loss(name="mse", value=_sse, on_batch=_mse, mean=True, numbers=True, flows=False),
    )
}


def loss_of(loss: LossLike) -> Loss:
    """A loss that is summed over samples, by name, or a user's function of (outputs, y)."""
    if callable(loss):
        return Loss(name=getattr(loss, "__name__", type(loss).__name__), value=loss, additive=False)
    if loss in LOSSES and LOSSES[loss].flows:
        return LOSSES[loss]
    names = ", ".join(repr(row.name) for row in LOSSES.values() if row.flows)
    raise NetgrainError(f"loss expects {names} or a function of (outputs, y), found {loss!r}.")


def batch_loss(name: str, label_smoothing: float = 0.0) -> OfOutputs:
    """What training minimises on a batch.

    >>> float(batch_loss("mse")(torch.tensor([[1.0, 0.0], [0.0, 2.0]]), torch.tensor([0, 0])))
    1.25
    """
    on_batch = LOSSES[name].on_batch
    assert on_batch is not None
    return partial(on_batch, label_smoothing=label_smoothing) if label_smoothing else on_batch


# --- targets ------------------------------------------------------------------------------------------------------


def checked_targets(y: Tensor, samples: int, outputs: int, loss: Loss, dtype: torch.dtype) -> Tensor:
    """Labels in the form the loss takes: (samples, k) for numbers and one logit, int64 classes for cross-entropy."""
    y = tensor_of(y, "y")
    if y.dim() == 0 or len(y) != samples:
        raise NetgrainError(
            f"expected one label per sample, {samples} of them, found shape {tuple(y.shape)}; pass the labels of X."
        )
    if loss.name not in LOSSES:
        return y.to(dtype) if y.is_floating_point() else y
    if loss.name == "cross-entropy" and outputs == 1:
        return _logit_targets(y, samples, dtype)
    if loss.numbers and y.is_floating_point():
        return number_targets(y, samples, outputs, dtype)
    classes = class_targets(y, samples, outputs)
    return F.one_hot(classes, outputs).to(dtype) if loss.numbers else classes


def number_targets(y: Tensor, samples: int, outputs: int, dtype: torch.dtype) -> Tensor:
    """Finite numbers, one for each output of each sample, as (samples, outputs)."""
    complete = y.dim() > 0 and len(y) == samples and y.numel() == samples * outputs
    if not complete or not bool(torch.isfinite(y).all()):
        raise NetgrainError(
            f"expected finite targets of shape ({samples}, {outputs}), one for each output, "
            f"found {tuple(y.shape)}; give as many targets as the model has outputs."
        )
    return y.reshape(samples, outputs).to(dtype)


def class_targets(y: Tensor, samples: int, outputs: int) -> Tensor:
    """Classes from 0 to outputs − 1, (samples,) as int64."""
    y = checked_labels(y, samples, max(outputs, 2))
    if outputs < 2:
        raise NetgrainError(
            f"labels of classes need a model with two outputs or more, found {outputs}; for one output pass "
            "floating-point targets with loss='sse'."
        )
    return y


def _logit_targets(y: Tensor, samples: int, dtype: torch.dtype) -> Tensor:
    if y.numel() != samples or not bool(((y == 0) | (y == 1)).all()):
        raise NetgrainError(
            f"expected labels 0 and 1 for cross-entropy on one output, found {y.dtype} {tuple(y.shape)} "
            f"from {float(y.min()):g} to {float(y.max()):g}; relabel, as in (y > 0)."
        )
    return y.reshape(samples, 1).to(dtype)


def check_loss(loss: Loss, y: Tensor, outputs: int, dtype: torch.dtype) -> None:
    """Refuse a user's loss that does not react to the outputs at two random places."""
    generator = torch.Generator().manual_seed(0)
    places = torch.randn(2, len(y), outputs, generator=generator).to(y.device, dtype)
    try:
        if any(bool(loss.derivative(f, y).any()) for f in places):
            return
    except LossNotFinite:  # a loss need not be defined at random outputs
        return
    raise NetgrainError(
        "the loss does not depend on the model's outputs: its gradient is zero; expected it to use them."
    )
