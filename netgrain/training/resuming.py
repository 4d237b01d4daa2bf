"""A run on disk, to go on from after a kill."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch

from netgrain.runtime.devices import in_double
from netgrain.runtime.errors import NetgrainError
from netgrain.runtime.packed import read_packed, write_packed
from netgrain.training.loop import Run
from netgrain.training.settings import State, copied, tensors_of

LAYOUT = 1  # of a checkpoint; another one is refused, not guessed at


class Checkpoint:
    """A run on disk: weights, optimiser, losses, snapshots and random state in one safetensors file."""

    def __init__(self, path: Path, run: Run) -> None:
        self.path, self.run = path, run
        self.identity = _identity(run)

    def save(self) -> None:
        run = self.run
        tensors = {"losses": run.losses[: run.step], "random": torch.get_rng_state()}
        if run.losses.is_cuda:
            tensors["random gpu"] = torch.cuda.get_rng_state(run.losses.device)
        elif run.losses.is_mps:
            tensors["random gpu"] = torch.mps.get_rng_state()
        tensors.update(flat("model", copied(tensors_of(run.model))))
        tensors.update(flat("optimizer", run.optimizer.state()))
        if run.regularizer is not None:
            tensors.update(flat("regularizer", run.regularizer.state_dict()))
        for step, state in run.snapshots.items():
            tensors.update(flat(f"snapshot {step}", state))
        header = {
            "identity": self.identity,
            "step": run.step,
            "met": run.met,
            "diverged": run.diverged,
            "seconds": run.seconds,
            "snapshots": list(run.snapshots),
        }
        write_packed(self.path, "checkpoint", header, tensors)

    def restore(self) -> None:
        """Put the run where the file left it; without a file nothing happens."""
        if not self.path.exists():
            return
        header, tensors = self._read()
        run = self.run
        run.step, run.met, run.diverged = header["step"], header["met"], header["diverged"]
        run.seconds = header["seconds"]
        run.losses[: run.step] = tensors["losses"].to(run.losses)
        there = tensors_of(run.model)
        run.snapshots = {step: under(f"snapshot {step}", tensors, there) for step in header["snapshots"]}
        with torch.no_grad():
            for name, tensor in (flat("model", there) | flat("optimizer", run.optimizer.state())).items():
                tensor.copy_(tensors[name])
        if run.regularizer is not None:
            mine = {n.removeprefix("regularizer/"): t for n, t in tensors.items() if n.startswith("regularizer/")}
            run.regularizer.load_state_dict(mine)
        torch.set_rng_state(tensors["random"].clone())
        if run.losses.is_cuda:
            torch.cuda.set_rng_state(tensors["random gpu"].clone(), run.losses.device)
        elif run.losses.is_mps:
            torch.mps.set_rng_state(tensors["random gpu"].clone())

    def _read(self) -> tuple[dict[str, Any], State]:
        """Header and tensors, if they are of this run."""
        try:
            header, tensors = read_packed(self.path, "checkpoint")
        except NetgrainError as e:
            raise NetgrainError(f"{e} Delete the file to start the training afresh.") from e
        theirs = header["identity"]
        for key, ours in self.identity.items():
            if theirs.get(key) != ours:
                raise NetgrainError(
                    f"{self.path} belongs to another training: expected {key} {ours}, found {theirs.get(key)}; "
                    "pass another checkpoint path, or delete the file to start afresh."
                )
        return header, tensors


def _identity(run: Run) -> dict[str, Any]:
    """What makes a training this one and no other, each part readable or a short hash."""
    X, y = run.data
    some = X[:: max(1, len(X) // 256)].cpu().contiguous()  # all labels, and enough samples to know the data again
    data = hashlib.sha256(f"{tuple(X.shape)}{X.dtype}{y.dtype}{float(in_double(X).sum())}".encode())
    for tensor in (some, y.cpu().contiguous()):
        data.update(tensor.reshape(-1).view(torch.uint8).numpy().tobytes())
    shapes = repr([(name, tuple(t.shape), str(t.dtype)) for name, t in tensors_of(run.model).items()])
    frozen = repr([name for name, p in run.model.named_parameters() if not p.requires_grad])
    return {
        "layout": LAYOUT,
        "settings": json.dumps(run.settings.as_dict(), sort_keys=True),
        "regularizer": repr(run.regularizer),
        "seed": run.seed,
        "member": run.i,
        "device": run.losses.device.type,
        "data": data.hexdigest()[:16],
        "architecture": hashlib.sha256((shapes + frozen).encode()).hexdigest()[:16],
    }


def flat(prefix: str, state: State) -> State:
    return {f"{prefix}/{name}": t for name, t in state.items()}


def under(prefix: str, tensors: State, names: Iterable[str]) -> State:
    # copies: what was read from one file or message is one block of memory
    return {name: tensors[f"{prefix}/{name}"].clone() for name in names}
