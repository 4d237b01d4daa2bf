"""Training members of a family: each on its own, in processes, or together."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from netgrain.families.members import Family, member
from netgrain.runtime.devices import best_device, checked_device
from netgrain.runtime.engines import engine_for
from netgrain.runtime.errors import GrainWarning, NetgrainError
from netgrain.runtime.local import Local
from netgrain.runtime.processes import Processes
from netgrain.runtime.progress import Bar
from netgrain.runtime.randomness import derived_seed, seeded
from netgrain.runtime.threads import one_thread
from netgrain.runtime.units import Engine, Outcome, Unit, in_order
from netgrain.training.checks import checked, member_numbers
from netgrain.training.loop import Run, accuracy, fresh
from netgrain.training.regularizers.base import Regularizer
from netgrain.training.resuming import Checkpoint, flat, under
from netgrain.training.settings import Settings, Trained, copied, tensors_of
from netgrain.training.together import train_together, why_not_vmapped

CHECKPOINT_EVERY = 100
MEMBERS_TOGETHER = 32  # members of one vmapped step
PLAIN = ("member", "steps", "reached", "diverged", "train_accuracy", "seconds", "distance")  # sent as they are


def train(
    make: Family,
    X: Tensor,  # (samples, *input_shape)
    y: Tensor,  # (samples,) labels, or floating-point targets for "sse"
    settings: Settings,
    *,
    members: int | Sequence[int],
    seed: int = 0,
    engine: Engine | str | None = None,
    workers: int | None = None,
    progress: bool | None = None,
    device: torch.device | str | None = None,
    vmapped: bool | None = None,
) -> list[Trained]:
    """Train members of a family.

    On a CPU every member is trained on one thread, in as many processes as there are cores, or through another engine;
    results are bit-identical on every engine. On a GPU (or with vmapped=True) members take their steps together, which
    gives the same numbers up to rounding; models that cannot (batch norm, dropout) are trained one after the other, and
    ``Trained.how`` says why.

    Parameters
    ----------
    make : callable
        Returns a fresh module on every call.
    X : Tensor of shape (samples, *input_shape)
        Training samples.
    y : Tensor of shape (samples,)
        Labels, or floating-point targets of shape (samples, outputs) for "sse" and "mse".
    settings : Settings
        How a member is trained.
    members : int or sequence of int
        Number of members to train, or the indices of the members.
    seed : int, default 0
        Member i depends on ``(seed, i)`` only.

    Returns
    -------
    list of Trained
        One per member, in the order of `members`.

    Other Parameters
    ----------------
    engine : Engine or str, optional
        Where members are trained: ``"local"``, ``"processes"``, ``"ray"`` or ``"slurm"``.
    workers : int, optional
        Number of workers of the engine.
    progress : bool, optional
        Show a progress bar; by default on a terminal, after two seconds.
    device : torch.device or str, optional
        Device for training; by default the best one.
    vmapped : bool, optional
        Take the steps of several members together; the default on a GPU.

    Raises
    ------
    NetgrainError
        If the data do not fit the model or the loss, or the family returns the same module twice.

    Warns
    -----
    GrainWarning
        If vmapped=True was asked for and is not possible.

    Examples
    --------
    The line through (1, 3) and (2, 6) has slope 3.

    >>> line = lambda: torch.nn.Linear(1, 1, bias=False)
    >>> X, y = torch.tensor([[1.0], [2.0]]), torch.tensor([3.0, 6.0])
    >>> settings = Settings(loss="sse", batch=None, lr=0.1, momentum=0.0, steps=100)
    >>> [round(float(t.state["weight"]), 4) for t in train(line, X, y, settings, members=2, workers=1)]
    [3.0, 3.0]
    """
    numbers = member_numbers(members)
    place = best_device() if device is None else checked_device(device)
    first = member(make, seed, numbers[0])
    if member(make, seed, numbers[0]) is first:
        raise NetgrainError(
            "the family returned the same module twice; expected a fresh one on every call, "
            "or training one member would change the others."
        )
    X, y = checked(first, X, y, settings.loss)
    together = place.type != "cpu" if vmapped is None else vmapped
    how = "loop"
    if together:
        why_not = why_not_vmapped(make, seed, numbers[0], X, y, settings, place)
        if why_not is None:
            how = "vmapped"
        else:
            how = f"loop: {why_not}"
            if vmapped:
                warnings.warn(f"trained one after the other: {why_not}.", GrainWarning, stacklevel=2)
    with Bar(f"training {type(first).__name__}", len(numbers), progress) as bar:
        out: list[Trained] = []
        if how == "vmapped":
            for start in range(0, len(numbers), MEMBERS_TOGETHER):
                some = numbers[start : start + MEMBERS_TOGETHER]
                out += train_together(make, X, y, settings, seed, some, place)
                bar.advance(len(some))
            return out
        via = engine_for(engine, workers, place) or (Processes() if len(numbers) > 1 else Local())
        units = [Unit({"member": i, "place": n}) for n, i in enumerate(numbers)]
        found = via.run(partial(_packed_member, make, X, y, settings, seed, place, how), units)
        for outcome in in_order(found, units):
            out.append(_unpack(outcome))
            bar.advance()
        return out


@one_thread()
def train_member(
    make: Family,
    X: Tensor,
    y: Tensor,
    settings: Settings,
    *,
    seed: int,
    i: int,
    regularizer: Regularizer | None = None,
    device: torch.device | str = "cpu",
    checkpoint: str | Path | None = None,
    checkpoint_every: int = CHECKPOINT_EVERY,
) -> Trained:
    """Train member i of a family; all randomness depends on (seed, i) only.

    Parameters
    ----------
    make : callable
        Returns a fresh module on every call.
    X : Tensor of shape (samples, *input_shape)
        Training samples.
    y : Tensor of shape (samples,)
        Labels, or floating-point targets of shape (samples, outputs) for "sse" and "mse".
    settings : Settings
        How a member is trained.
    seed : int
        Seed of the family.
    i : int
        Index of the member.
    regularizer : Regularizer, optional
        It changes during training, so make a new one for each member.
    device : torch.device or str, default "cpu"
        Where to train.
    checkpoint : str or Path, optional
        Save the run there; a run that was killed resumes from the last save, with bit-identical results. A file of
        another run (settings, seed, member, data, architecture) is an error.
    checkpoint_every : int, default 100
        Steps between saves.

    Returns
    -------
    Trained
        Weights, snapshots and losses.
    """
    if checkpoint_every < 1:
        raise NetgrainError(f"expected checkpoint_every as a number of steps ≥ 1, found {checkpoint_every}.")
    place = torch.device(device)
    model, trainable = fresh(make, seed, i, place)
    X, y = checked(model, X, y, settings.loss)
    data = (X.to(place), y.to(place))
    # the model's own randomness (dropout) is seeded, too, and its state is part of a checkpoint
    with seeded(derived_seed(seed, "training", i)), torch.enable_grad():
        run = Run(model, trainable, data, settings, seed, i, regularizer)
        file = None if checkpoint is None else Checkpoint(Path(checkpoint), run)
        if file is not None:
            file.restore()
        run.go(None if file is None else file.save, checkpoint_every)
    correct = math.nan if run.diverged or y.is_floating_point() else accuracy(model, *data)
    return Trained(
        member=i,
        state=copied(tensors_of(model)),
        snapshots=run.snapshots,
        losses=run.losses[: run.step].cpu(),
        steps=run.step,
        reached=None if settings.stop_at_loss is None else run.met,
        diverged=run.diverged,
        train_accuracy=correct,
        seconds=run.seconds,
        distance=run.distance(),
    )


def _packed_member(
    make: Family,
    X: Tensor,
    y: Tensor,
    settings: Settings,
    seed: int,
    device: torch.device,
    how: str,
    unit: Mapping[str, Any],
) -> Outcome:
    t = train_member(make, X, y, settings, seed=seed, i=unit["member"], device=device)
    tensors = {"losses": t.losses, **flat("state", t.state)}
    for step, state in t.snapshots.items():
        tensors.update(flat(f"snapshot {step}", state))
    plain = {name: getattr(t, name) for name in PLAIN}
    return Outcome({**plain, "how": how, "kept": list(t.snapshots), "names": list(t.state)}, tensors)


def _unpack(outcome: Outcome) -> Trained:
    tensors, facts = outcome.arrays, dict(outcome.numbers)
    names = facts.pop("names")
    snapshots = {step: under(f"snapshot {step}", tensors, names) for step in facts.pop("kept")}
    return Trained(state=under("state", tensors, names), snapshots=snapshots, losses=tensors["losses"], **facts)
