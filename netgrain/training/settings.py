"""How a member is trained, what training it gave, and the order in which it sees the samples."""

from __future__ import annotations

import math
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
        Of SGD, in [0, 1).
    weight_decay : float
        Added to the gradient, times the weights.
    steps : int
        Number of updates.
    batch : int or None
        Samples per update; None (or at least all samples) is full batch.
    decay : {"linear"} or None
        ``"linear"``: step t of T has learning rate lr·(1 − t/T).
    clip : float or None
        Largest norm of the whole gradient.
    loss : {"cross-entropy", "sse", "mse"}
        Mean cross-entropy over the batch; ½Σ(f − y)² summed over the batch; its mean over the batch. For the
        last two integer labels mean one-hot targets.
    label_smoothing : float
        Of cross-entropy.
    replacement : bool
        Draw every batch anew from all samples instead of going through them.
    stop_at_loss : float or None
        End training once the loss is at most that: the loss of the step for full batch, the mean over the
        last n // batch steps (one epoch) for minibatches, both before the update of their step.
    stop_every : int or None
        With it `stop_at_loss` looks at the loss over all samples, every so many steps, so that trainings at
        different speeds end at the same loss.
    snapshots : tuple of int
        Numbers of updates after which weights are kept (0: as initialised).
    log_every : int
        Steps between looks at the weights (are they finite?) and, off the CPU, at the loss.

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
        _expect(self.optimizer in ("sgd", "adam"), "optimizer", "'sgd' or 'adam'", self.optimizer)
        _expect(_real(self.lr) and self.lr > 0, "lr", "a positive number such as 0.1", self.lr)
        _expect(_real(self.momentum) and 0 <= self.momentum < 1, "momentum", "a number in [0, 1)", self.momentum)
        _expect(_real(self.weight_decay) and self.weight_decay >= 0, "weight_decay", "a number ≥ 0", self.weight_decay)
        _expect(_whole(self.steps) and self.steps >= 1, "steps", "a whole number ≥ 1", self.steps)
        full = "a whole number ≥ 1, or None for full batch"
        _expect(self.batch is None or (_whole(self.batch) and self.batch >= 1), "batch", full, self.batch)
        _expect(self.decay in ("linear", None), "decay", "'linear' or None", self.decay)
        _expect(self.clip is None or (_real(self.clip) and self.clip > 0), "clip", "a positive norm or None", self.clip)
        losses = [name for name, row in LOSSES.items() if row.on_batch is not None]
        _expect(self.loss in losses, "loss", f"one of {', '.join(map(repr, losses))}", self.loss)
        smooth = _real(self.label_smoothing) and 0 <= self.label_smoothing < 1
        _expect(smooth, "label_smoothing", "a number in [0, 1)", self.label_smoothing)
        _expect(LOSSES[self.loss].smooths or not self.label_smoothing, "label_smoothing", "0", self.label_smoothing)
        _expect(isinstance(self.replacement, bool), "replacement", "True or False", self.replacement)
        often = self.stop_every
        _expect(often is None or (_whole(often) and often >= 1), "stop_every", "a whole number ≥ 1 or None", often)
        stop = self.stop_at_loss
        _expect(stop is None or _real(stop), "stop_at_loss", "a number or None", stop)
        _expect(_whole(self.log_every) and self.log_every >= 1, "log_every", "a whole number ≥ 1", self.log_every)
        good = isinstance(self.snapshots, list | tuple) and all(
            _whole(s) and 0 <= s <= self.steps for s in self.snapshots
        )
        _expect(good, "snapshots", f"numbers of updates from 0 to steps={self.steps}", self.snapshots)
        object.__setattr__(self, "snapshots", tuple(sorted(set(self.snapshots))))

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {**asdict(self), "snapshots": list(self.snapshots)}

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
    """What training one member gave. Tensors are on the CPU.

    Attributes
    ----------
    member : int
        Number of the member.
    state : dict of str to Tensor
        Every parameter and buffer by name.
    snapshots : dict of int to dict
        Updates → state; those after an early end are missing.
    losses : Tensor of shape (steps,)
        Training loss of each step before its update, in float64.
    steps : int
        Updates that were made.
    reached : bool or None
        Whether ``stop_at_loss`` was met; None: not asked for.
    diverged : bool
        A loss or weight was not finite, and training ended there.
    train_accuracy : float
        In eval mode; NaN when diverged and for targets that are not labels.
    seconds : float
        Time it took.
    how : str
        "loop", "vmapped", or why it was a loop after all.
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

    def load_into(self, model: nn.Module, *, step: int | None = None) -> nn.Module:
        """Copy the weights into a model of the same family.

        Parameters
        ----------
        model : torch.nn.Module
            A member of the family.
        step : int, optional
            Those of the snapshot after so many updates instead of the last ones.

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
            The weights of the snapshot after so many updates instead of the last ones.

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

    A function of the arguments alone. An epoch is samples // batch steps; the short rest is dropped, and another rest
    in the next epoch.

    Parameters
    ----------
    samples : int
        Number of samples.
    seed : int
        Seed of the training.
    i : int
        Number of the member.
    epoch : int
        Number of the epoch.
    replacement : bool, default False
        Draw every place from all samples.

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


def _expect(good: bool, name: str, expected: str, found: object) -> None:
    if not good:
        raise NetgrainError(f"expected {name} as {expected}, found {found!r}; change it in Settings.")


def _real(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
