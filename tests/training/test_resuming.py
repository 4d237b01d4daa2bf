"""A killed run resumes to the same bits, and from its own file only."""

import multiprocessing
import os
import signal
import warnings
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from netgrain.models import MLP
from netgrain.runtime.errors import NetgrainError
from netgrain.training import Settings, Trained, train_member

mlp = partial(MLP, channels=1, image_size=4, outputs=3, width=0.1)


mlp_norm = partial(mlp, norm="batch")


def data(size: int = 4, samples: int = 50) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(7)
    X = torch.randn(samples, 1, size, size, generator=generator)
    return X, (X.flatten(1)[:, :3] + 0.3 * torch.randn(samples, 3, generator=generator)).argmax(1)


def same_bits(a: Trained, b: Trained) -> bool:
    states = [(a.state, b.state), *((a.snapshots[s], b.snapshots[s]) for s in a.snapshots)]
    return (
        list(a.snapshots) == list(b.snapshots)
        and torch.equal(a.losses, b.losses)
        and all(list(x) == list(y) and all(torch.equal(x[n], y[n]) for n in x) for x, y in states)
        and (a.steps, a.reached, a.diverged, a.train_accuracy) == (b.steps, b.reached, b.diverged, b.train_accuracy)
        and a.distance == b.distance
    )


class Killed(nn.Module):
    """Batch norm and dropout, and a forward pass that ends the process in its n-th call in train mode."""

    def __init__(self, calls: int) -> None:
        super().__init__()
        self.calls = calls
        self.layers = nn.Sequential(nn.Flatten(), nn.Linear(16, 8), nn.BatchNorm1d(8), nn.Dropout(0.2), nn.Linear(8, 3))

    def forward(self, x: Tensor) -> Tensor:
        self.calls -= self.training
        if self.calls < 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return self.layers(x)


@pytest.mark.parametrize(
    "options",
    [{}, {"optimizer": "adam", "lr": 0.01}, {"decay": "linear", "stop_at_loss": 0.4, "lr": 0.1}],
    ids=["momentum", "adam", "decay and a target"],
)
def test_a_killed_run_goes_on_to_the_same_bits(tmp_path: Path, options: dict[str, Any]) -> None:
    X, y = data()
    settings = Settings(**{"steps": 20, "batch": 16, "snapshots": (2, 19), **options})
    path = tmp_path / "member.safetensors"
    whole = train_member(partial(Killed, 1000), X, y, settings, seed=0, i=1)

    def run(calls: int) -> None:
        train_member(partial(Killed, calls), X, y, settings, seed=0, i=1, checkpoint=path, checkpoint_every=4)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        for calls in (6, 5):  # dies in its 7th step, resumes at 4 (mid-epoch), dies again, resumes at 8
            process = multiprocessing.get_context("fork").Process(target=run, args=(calls,))
            process.start()
            process.join()
            assert process.exitcode == -signal.SIGKILL
    assert [p.name for p in tmp_path.iterdir()] == [path.name]
    resumed = train_member(partial(Killed, 12), X, y, settings, seed=0, i=1, checkpoint=path, checkpoint_every=4)
    assert same_bits(whole, resumed)
    # a finished run is read, not repeated
    again = train_member(partial(Killed, 0), X, y, settings, seed=0, i=1, checkpoint=path)
    assert same_bits(whole, again)


@pytest.mark.quick
def test_foreign_checkpoints_are_refused(tmp_path: Path) -> None:
    X, y = data()
    settings = Settings(steps=2, batch=16)
    path = tmp_path / "run.safetensors"
    again = partial(train_member, checkpoint=path)
    again(mlp, X, y, settings, seed=0, i=0)
    with pytest.raises(NetgrainError, match="another training: expected settings"):
        again(mlp, X, y, Settings(steps=3, batch=16), seed=0, i=0)
    with pytest.raises(NetgrainError, match="expected seed 1, found 0"):
        again(mlp, X, y, settings, seed=1, i=0)
    with pytest.raises(NetgrainError, match="expected member 2, found 0"):
        again(mlp, X, y, settings, seed=0, i=2)
    with pytest.raises(NetgrainError, match="expected data"):
        again(mlp, X + 1, y, settings, seed=0, i=0)
    with pytest.raises(NetgrainError, match="expected data"):
        again(mlp, X, (y + 1) % 3, settings, seed=0, i=0)
    with pytest.raises(NetgrainError, match="expected architecture"):
        again(mlp_norm, X, y, settings, seed=0, i=0)
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(NetgrainError, match="damaged"):
        again(mlp, X, y, settings, seed=0, i=0)
