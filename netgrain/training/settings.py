"""How a member is trained, what training it gave, and the order in which it sees the samples."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor, nn

from netgrain.families.members import Family, member
from netgrain.runtime.errors import NetgrainError
from netgrain.runtime.randomness import derived_seed
from netgrain.training.losses import LOSSES

State = dict[str, Tensor]


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How a member is trained; plain values, checked when made.

    ``Settings(**settings.as_dict())`` gives it back.

    Attributes
    ----------
    optimizer : {"sgd", "adam"}
        SGD with momentum, or Adam with its own averages (0.9 and 0.999; `momentum` is not used).
    lr : float
        Learning rate.
    momentum : float
        Momentum of SGD, in [0, 1).
    weight_decay : float
        Added to the gradient, times the weights.
    steps : int
        Number of updates.
    batch : int or None
        Samples per update; None (or at least all samples) is full batch.
    microbatch : int or None
        Accumulate the gradients of an update over slices of this many samples, so that a large batch fits into memory.
        The update is that of the whole batch up to rounding. Not for networks with batch norm; dropout draws a mask for
        each slice.
    decay : {"linear"} or None
        ``"linear"``: step t of T has learning rate lr·(1 − t/T).
    clip : float or None
        Largest norm of the whole gradient.
    loss : {"cross-entropy", "sse", "mse"}
        Mean cross-entropy over the batch; ½Σ(f − y)² summed over the batch; its mean over the batch. For the
        last two integer labels mean one-hot targets.
    label_smoothing : float
        Label smoothing of cross-entropy, in [0, 1).
    replacement : bool
        Draw every batch anew from all samples instead of going through them.
    stop_at_loss : float or None
        End training once the loss is at most this value: the loss of the step for full batch, the mean over the last n
        // batch steps (one epoch) for minibatches, both before the update of their step.
    stop_every : int or None
        Check `stop_at_loss` against the loss over all samples, once in this many steps, so that trainings at different
        speeds end at the same loss.
    snapshots : tuple of int
        Numbers of updates after which to save the weights (0: as initialised).
    log_every : int
        Steps between checks that the weights are finite and, on other devices than the CPU, that the loss is.

    Examples
    --------
    >>> Settings(steps=20, batch=None).learning_rate(5)
    0.1
    >>> Settings(steps=20, decay="linear").learning_rate(5)
    0.07500000000000001
    """

    optimizer: str = "sgd"
    lr: float = 0.1
    momentum: float = 0.9
    weight_decay: float = 0.0
    steps: int = 100
    batch: int | None = 128
    microbatch: int | None = None
    decay: str | None = None
    clip: float | None = None
    loss: str = "cross-entropy"
    label_smoothing: float = 0.0
    replacement: bool = False
    stop_at_loss: float | None = None
    stop_every: int | None = None
    snapshots: tuple[int, ...] = ()
    log_every: int = 10

    def __post_init__(self) -> None:
        for name, good, expected in self._rules():
            if not good:
                raise NetgrainError(
                    f"expected {name} as {expected}, found {getattr(self, name)!r}; change it in Settings."
                )
        object.__setattr__(self, "snapshots", tuple(sorted(set(self.snapshots))))

    def _rules(self) -> Iterator[tuple[str, bool, str]]:
        """Fields, whether they are good, and what is expected; one is looked at only if those before are good."""
        batch, clip, often, stop = self.batch, self.clip, self.stop_every, self.stop_at_loss
        losses = [name for name, row in LOSSES.items() if row.on_batch is not None]
        yield "optimizer", self.optimizer in ("sgd", "adam"), "'sgd' or 'adam'"
        yield "lr", _real(self.lr) and self.lr > 0, "a positive number such as 0.1"
        yield "momentum", _real(self.momentum) and 0 <= self.momentum < 1, "a number in [0, 1)"
        yield "weight_decay", _real(self.weight_decay) and self.weight_decay >= 0, "a number ≥ 0"
        yield "steps", _whole(self.steps), "a whole number ≥ 1"
        yield "batch", batch is None or _whole(batch), "a whole number ≥ 1, or None for full batch"
        micro = self.microbatch
        yield "microbatch", micro is None or _whole(micro), "a whole number ≥ 1, or None for the whole batch at once"
        yield "decay", self.decay in ("linear", None), "'linear' or None"
        yield "clip", clip is None or (_real(clip) and clip > 0), "a positive norm or None"
        yield "loss", self.loss in losses, f"one of {', '.join(map(repr, losses))}"
        smooth = self.label_smoothing
        yield "label_smoothing", _real(smooth) and 0 <= smooth < 1, "a number in [0, 1)"
        yield "label_smoothing", LOSSES[self.loss].smooths or not smooth, "0"
        yield "replacement", isinstance(self.replacement, bool), "True or False"
        yield "stop_every", often is None or _whole(often), "a whole number ≥ 1 or None"
        yield "stop_at_loss", stop is None or _real(stop), "a number or None"
        yield "log_every", _whole(self.log_every), "a whole number ≥ 1"
        listed = isinstance(self.snapshots, list | tuple)
        inside = listed and all(_whole(s, 0) and s <= self.steps for s in self.snapshots)
        yield "snapshots", inside, f"numbers of updates from 0 to steps={self.steps}"

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON; `microbatch` only where it is asked for."""
        # it changes no more than rounding, so that units without it keep their names
        found = {**asdict(self), "snapshots": list(self.snapshots)}
        return {name: value for name, value in found.items() if name != "microbatch" or value is not None}

    def learning_rate(self, step: int) -> float:
        """Learning rate of an update.

        Parameters
        ----------
        step : int
            Number of the update, counted from 0.

        Returns
        -------
        float
            The rate.
        """
        return self.lr if self.decay is None else self.lr * (1 - step / self.steps)


@dataclass(frozen=True, eq=False, repr=False)
class Trained:
    """Result of training one member. Tensors are on the CPU.

    Attributes
    ----------
    member : int
        Index of the member.
    state : dict of str to Tensor
        Every parameter and buffer by name.
    snapshots : dict of int to dict
        Updates → state; those after an early end are missing.
    losses : Tensor of shape (steps,)
        Training loss of each step before its update, in float64.
    steps : int
        Number of updates made.
    reached : bool or None
        Whether ``stop_at_loss`` was met; None if it was not set.
    diverged : bool
        A loss or weight was not finite, and training ended there.
    train_accuracy : float
        In eval mode; NaN when diverged and for targets that are not labels.
    seconds : float
        Time it took.
    how : str
        "loop", "vmapped", or the reason for falling back to a loop.
    distance : float
        ‖θ_t − θ_0‖, how far the trained parameters are from their initialisation; NaN when diverged.
    """

    member: int
    state: State  # every parameter and buffer by name
    snapshots: dict[int, State]  # updates → state; those after an early end are missing
    losses: Tensor  # (steps,) float64, the training loss of each step before its update
    steps: int  # updates that were made
    reached: bool | None  # stop_at_loss was met; None: not asked for
    diverged: bool  # a loss or weight was not finite, and training ended there
    train_accuracy: float  # in eval mode; NaN when diverged and for targets that are not labels
    seconds: float
    how: str = "loop"  # or "vmapped", or why it was a loop after all
    distance: float = math.nan  # ‖θ_t − θ_0‖ over the parameters that are trained

    def load_into(self, model: nn.Module, *, step: int | None = None) -> nn.Module:
        """Copy the weights into a model of the same family.

        Parameters
        ----------
        model : torch.nn.Module
            A member of the family.
        step : int, optional
            Use the snapshot after this many updates instead of the final weights.

        Returns
        -------
        torch.nn.Module
            The model itself.
        """
        state = self._at(step)
        there = tensors_of(model)
        wrong = sorted(set(state) ^ set(there) or {n for n in state if n in there and state[n].shape != there[n].shape})
        if wrong:
            raise NetgrainError(
                f"expected a model with the weights that were trained, found that '{wrong[0]}' is missing on one side "
                f"or has another shape in {type(model).__name__}; pass a member of the same family."
            )
        with torch.no_grad():
            for name, tensor in there.items():
                tensor.copy_(state[name])
        return model

    def model(self, make: Family, *, step: int | None = None) -> nn.Module:
        """A model of the family with these weights, in eval mode and frozen.

        Parameters
        ----------
        make : callable
            The family.
        step : int, optional
            Use the snapshot after this many updates instead of the final weights.

        Returns
        -------
        torch.nn.Module
            A fresh model.
        """
        return self.load_into(member(make, 0, 0), step=step)

    def _at(self, step: int | None) -> State:
        if step is None:
            return self.state
        if step not in self.snapshots:
            kept = ", ".join(map(str, self.snapshots)) or "none"
            raise NetgrainError(
                f"no snapshot after {step} updates was kept (kept: {kept}); ask for it with Settings(snapshots=...)."
            )
        return self.snapshots[step]

    def __repr__(self) -> str:
        facts = [f"member {self.member}", f"{self.steps} steps", f"loss {float(self.losses[-1]):.4g}"]
        if not math.isnan(self.train_accuracy):
            facts.append(f"train accuracy {self.train_accuracy:.1%}")
        if self.diverged:
            facts.append("diverged")
        if self.reached is not None:
            facts.append("target loss reached" if self.reached else "target loss not reached")
        return f"Trained({', '.join([*facts, f'{self.seconds:.1f} s', self.how])})"


def minibatch_order(samples: int, *, seed: int, i: int, epoch: int, replacement: bool = False) -> Tensor:
    """Order in which a member sees the samples in one epoch.

    The order depends on the arguments alone. An epoch has samples // batch steps; the incomplete last batch is dropped,
    and holds other samples in each epoch.

    Parameters
    ----------
    samples : int
        Number of samples.
    seed : int
        Seed of the training.
    i : int
        Index of the member.
    epoch : int
        Number of the epoch.
    replacement : bool, default False
        Draw every index from all samples, with replacement.

    Returns
    -------
    Tensor of shape (samples,)
        Indices of samples.
    """
    generator = torch.Generator().manual_seed(derived_seed(seed, "minibatches", i, epoch))
    if replacement:
        return torch.randint(samples, (samples,), generator=generator)
    return torch.randperm(samples, generator=generator)


def tensors_of(model: nn.Module) -> State:
    return {**dict(model.named_parameters()), **dict(model.named_buffers())}


def copied(state: State) -> State:
    return {name: t.detach().to("cpu", copy=True).contiguous() for name, t in state.items()}


def distance(start: State, state: State) -> float:
    """‖θ_t − θ_0‖ over the tensors of `start`; what else `state` holds, such as running statistics, does not count.

    >>> distance({"w": torch.zeros(2)}, {"w": torch.tensor([3.0, 4.0]), "running_mean": torch.ones(1)})
    5.0
    """
    return math.sqrt(sum(float((state[name].double() - t.double()).square().sum()) for name, t in start.items()))


def _real(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _whole(value: object, least: int = 1) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least
