"""The training of one member: its batches, its optimiser, its loss, and when it ends."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from netgrain.families.logits import answering, logits_of
from netgrain.families.members import Family, forward, model_dtype
from netgrain.runtime.devices import widest
from netgrain.runtime.errors import NetgrainError
from netgrain.runtime.samples import checked_labels, checked_samples, scoring, tensor_of
from netgrain.training.checks import evaluating, trainable_member
from netgrain.training.gradient_flow import called_with
from netgrain.training.losses import LOSSES, batch_loss
from netgrain.training.regularizers.base import Regularizer
from netgrain.training.settings import Settings, State, copied, distance, minibatch_order, tensors_of

BETAS = (0.9, 0.999)  # of Adam
LossAndGradients = tuple[Tensor, Sequence[Tensor | None]]


@dataclass
class Run:
    """The training of one member, and all that changes in it."""

    model: nn.Module
    trainable: list[Tensor]
    data: tuple[Tensor, Tensor]
    settings: Settings
    seed: int
    i: int
    regularizer: Regularizer | None = None
    step: int = 0
    met: bool = False
    diverged: bool = False
    seconds: float = 0.0
    snapshots: dict[int, State] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.settings.microbatch is not None:
            refuse_microbatches(self.model, self.regularizer)
        self.optimizer = Optimizer(self.settings, self.trainable)
        # before a checkpoint is restored into the model
        self.start = copied({name: p for name, p in self.model.named_parameters() if p.requires_grad})
        self.batches = Batches(len(self.data[0]), self.settings, self.seed, self.i)
        place = self.data[0].device
        self.losses = torch.zeros(self.settings.steps, dtype=widest(place), device=place)

    def go(self, save: Callable[[], None] | None, every: int) -> None:
        """Train to the end; `save` is called every so many steps and after the last one."""
        settings, (X, y) = self.settings, self.data
        loss_of = batch_loss(settings.loss, settings.label_smoothing)

        def on_rows(outputs: Any, targets: Tensor) -> Tensor:
            logits = logits_of(outputs, targets)
            return loss_of(logits.reshape(len(logits), -1), targets)

        look_often = X.device.type == "cpu" or settings.stop_at_loss is not None
        watch = Watch(settings, self.batches.per_epoch)
        before, started = self.seconds, time.perf_counter()
        self.model.train()
        if self.step == 0:
            self._snap()
        while self.step < settings.steps and not (self.met or self.diverged):
            rows = self.batches.rows(self.step)
            if rows is None:
                x, t = X, y
            else:
                rows = rows.to(X.device)
                x, t = X.index_select(0, rows), y.index_select(0, rows)
            gradients: Sequence[Tensor | None]
            if self.regularizer is None:
                loss, gradients = self._gradients(loss_of, x, t)
            else:
                loss, gradients = self.regularizer.gradients(on_rows, self.model, x, t, self.trainable)
            self.optimizer.update(gradients, self.step, _clip_factor(gradients, settings.clip))
            self.losses[self.step] = loss.detach()
            self.step += 1
            last = self.step == settings.steps
            regular = last or self.step % settings.log_every == 0
            if look_often or regular:
                self._look(watch, regular)
            self._snap()
            if save is not None and (self.step % every == 0 or last or self.met or self.diverged):
                self.seconds = before + time.perf_counter() - started
                save()
        self.losses = self.losses.cpu().double()
        self.seconds = before + time.perf_counter() - started

    def _gradients(self, loss_of: Callable[[Tensor, Tensor], Tensor], x: Tensor, t: Tensor) -> LossAndGradients:
        """The loss of a batch and its gradients, added up over slices where micro-batches are asked for."""
        size = self.settings.microbatch or len(x)
        if size >= len(x):
            loss = loss_of(forward(self.model, x), t)
            return loss, torch.autograd.grad(loss, self.trainable, allow_unused=True)
        mean, total = LOSSES[self.settings.loss].mean, torch.zeros((), dtype=self.losses.dtype, device=x.device)
        sums: list[Tensor | None] = [None] * len(self.trainable)
        for part, targets in zip(x.split(size), t.split(size), strict=True):
            loss = loss_of(forward(self.model, part), targets) * (len(part) / len(x) if mean else 1)
            found = torch.autograd.grad(loss, self.trainable, allow_unused=True)
            sums = [g if s is None else s if g is None else s + g for s, g in zip(sums, found, strict=True)]
            total += loss.detach()
        return total, sums

    def distance(self) -> float:
        """How far the weights are from their initialisation; NaN if they diverged."""
        return math.nan if self.diverged else distance(self.start, copied(tensors_of(self.model)))

    def _look(self, watch: Watch, weights_too: bool) -> None:
        bad = watch.first_bad(self.losses, self.step)
        if bad is not None:
            self.diverged, self.step = True, bad + 1
        elif weights_too and not all_finite(self.trainable):
            self.diverged = True
        else:
            every = self.settings.stop_every
            if every is None:
                self.met = watch.met(self.losses, self.step)
            elif self.settings.stop_at_loss is not None and self.step % every == 0:
                self.met = full_loss(self.model, *self.data, self.settings) <= self.settings.stop_at_loss

    def _snap(self) -> None:
        if self.step in self.settings.snapshots:
            self.snapshots[self.step] = copied(tensors_of(self.model))


def refuse_microbatches(model: nn.Module, regularizer: Regularizer | None) -> None:
    """Stop where slices of a batch would not add up to the batch."""
    if regularizer is not None:
        raise NetgrainError(
            "microbatch cannot be combined with a regularizer, which sees the whole batch; leave one out."
        )
    for name, module in model.named_modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            raise NetgrainError(
                f"microbatch cannot be used with '{name}' ({type(module).__name__}), which normalises over the whole "
                "batch; pass microbatch=None or a network without batch norm."
            )


class Batches:
    """Rows of the data for every step; None for the whole data set."""

    def __init__(self, samples: int, settings: Settings, seed: int, i: int) -> None:
        self.samples, self.seed, self.i, self.replacement = samples, seed, i, settings.replacement
        self.batch = samples if settings.batch is None else min(settings.batch, samples)
        self.per_epoch = samples // self.batch
        self.epoch = -1
        self.order = torch.empty(0, dtype=torch.int64)

    def rows(self, step: int) -> Tensor | None:
        if self.batch == self.samples and not self.replacement:
            return None
        epoch, place = divmod(step, self.per_epoch)
        if epoch != self.epoch:
            self.epoch = epoch
            self.order = minibatch_order(
                self.samples, seed=self.seed, i=self.i, epoch=epoch, replacement=self.replacement
            )
        return self.order[place * self.batch : (place + 1) * self.batch]


class Watch:
    """Looks at the losses of one member: has one gone astray, has the asked loss been met?"""

    def __init__(self, settings: Settings, per_epoch: int) -> None:
        self.target, self.window = settings.stop_at_loss, per_epoch
        self.seen = 0

    def first_bad(self, losses: Tensor, step: int) -> int | None:
        """The first step since the last look whose loss is not finite."""
        new, self.seen = losses[self.seen : step].tolist(), step
        return next((step - len(new) + j for j, loss in enumerate(new) if not math.isfinite(loss)), None)

    def met(self, losses: Tensor, step: int) -> bool:
        if self.target is None or step < self.window:
            return False
        return float(losses[step - self.window : step].mean()) <= self.target


def fresh(make: Family, seed: int, i: int, device: torch.device) -> tuple[nn.Module, list[Tensor]]:
    """Member i and those of its parameters that the family itself leaves trainable."""
    model, names = trainable_member(make, seed, i, device)
    named = dict(model.named_parameters())
    return model.train(), [named[name].requires_grad_(True) for name in names]


class Optimizer:
    """SGD with momentum and Adam as in torch.optim, with their state in plain sight.

    Torch's own stay out because their first step imports torch's compiler: 3.9 s of processor time that every worker
    process would pay again, against 0.001 s here. Later steps take 67 µs (SGD) and 195 µs (Adam) there, 37 and 115 µs
    here (an MLP of six tensors, one thread); the weights are the same to the last bit.
    """

    def __init__(self, settings: Settings, tensors: list[Tensor]) -> None:
        self.settings, self.tensors = settings, tensors
        adam = settings.optimizer == "adam"
        self.first = [torch.zeros_like(t) for t in tensors] if adam or settings.momentum > 0 else []
        self.second = [torch.zeros_like(t) for t in tensors] if adam else []

    @torch.no_grad()
    def update(self, gradients: Sequence[Tensor | None], step: int, factors: Sequence[Tensor | None]) -> None:
        """Update number `step`, counted from 0; a tensor without a gradient stays."""
        settings, lr = self.settings, self.settings.learning_rate(step)
        for j, (tensor, gradient, factor) in enumerate(zip(self.tensors, gradients, factors, strict=True)):
            if gradient is None:
                continue
            g = gradient if factor is None else gradient * factor
            if settings.weight_decay:
                g = g.add(tensor, alpha=settings.weight_decay)
            if settings.optimizer == "adam":
                mean = self.first[j].lerp_(g, 1 - BETAS[0])
                square = self.second[j].mul_(BETAS[1]).addcmul_(g, g, value=1 - BETAS[1])
                root = square.sqrt().div_(math.sqrt(1 - BETAS[1] ** (step + 1))).add_(1e-8)
                tensor.addcdiv_(mean, root, value=-lr / (1 - BETAS[0] ** (step + 1)))
            else:
                if settings.momentum:
                    g = self.first[j].mul_(settings.momentum).add_(g)
                tensor.add_(g, alpha=-lr)

    def state(self) -> State:
        named = {f"first/{j}": t for j, t in enumerate(self.first)}
        return {**named, **{f"second/{j}": t for j, t in enumerate(self.second)}}


def _clip_factor(gradients: Sequence[Tensor | None], clip: float | None) -> Sequence[Tensor | None]:
    """What the gradient is multiplied with so that its norm is at most `clip`, for every tensor the same."""
    if clip is None:
        return [None] * len(gradients)
    norms = [torch.linalg.vector_norm(g) for g in gradients if g is not None]
    return [shrink(torch.linalg.vector_norm(torch.stack(norms)), clip)] * len(gradients)


def shrink(norm: Tensor, clip: float) -> Tensor:
    return torch.clamp(clip / (norm + 1e-6), max=1.0)


def full_loss(model: nn.Module, X: Tensor, y: Tensor, settings: Settings, batch: int = 1024) -> float:
    """The loss over all samples in eval mode (their mean, or their sum for "sse"); the model is left as found."""
    loss_of, total = batch_loss(settings.loss, settings.label_smoothing), 0.0
    place = next((p.device for p in model.parameters()), torch.device("cpu"))
    with evaluating(model), torch.no_grad():
        for start in range(0, len(X), batch):
            x, t = (data[start : start + batch].to(place) for data in (X, y))
            total += float(loss_of(forward(model, x), t)) * (len(x) / len(X) if LOSSES[settings.loss].mean else 1)
    return total


def all_finite(tensors: list[Tensor]) -> bool:
    # a sum is finite iff all entries are, up to overflow, which is looked at again
    if all(math.isfinite(float(t.detach().sum())) for t in tensors):
        return True
    return all(bool(torch.isfinite(t.detach()).all()) for t in tensors)


def accuracy(model: nn.Module, X: Tensor, y: Tensor, *, state: State | None = None, batch: int = 512) -> float:
    """Share of samples whose largest output is their label, in eval mode.

    Parameters
    ----------
    model : torch.nn.Module
        The network; it is left as found.
    X : Tensor of shape (samples, *input_shape)
        Samples.
    y : Tensor of shape (samples,)
        Labels, whole numbers from 0.
    state : dict of str to Tensor, optional
        Weights to use instead of the model's own, such as ``Trained.state``.
    batch : int, default 512
        Samples per forward pass.

    Returns
    -------
    float
        From 0 to 1.

    Examples
    --------
    >>> net = nn.Linear(2, 2)
    >>> accuracy(net, torch.eye(2), torch.tensor([0, 0]), state={"weight": torch.eye(2), "bias": torch.zeros(2)})
    0.5
    """
    place = next((p.device for p in model.parameters()), torch.device("cpu"))
    call = model if state is None else partial(called_with, model, {n: t.to(place) for n, t in state.items()})
    X, labels = checked_samples(X), tensor_of(y, "y")
    right = 0
    with evaluating(model), torch.no_grad():
        for start in range(0, len(X), batch):
            outputs = forward(scoring(answering(call)), X[start : start + batch].to(place, model_dtype(model)))
            if start == 0:
                labels = checked_labels(labels, len(X), outputs.shape[1])
            right += int((outputs.argmax(1) == labels[start : start + batch].to(place)).sum())
    return right / len(X)
