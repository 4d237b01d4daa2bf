"""Members that take their steps together agree with the loop."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import netgrain.training.trained_members
from netgrain.models import MLP, LeNet
from netgrain.runtime.errors import GrainWarning
from netgrain.training import Settings, Trained, train

mlp = partial(MLP, channels=1, image_size=4, outputs=3, width=0.1)


mlp_norm = partial(mlp, norm="batch")


lenet = partial(LeNet, channels=1, image_size=16, outputs=3, width=0.5)


def data(size: int = 4, samples: int = 50) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(7)
    X = torch.randn(samples, 1, size, size, generator=generator)
    return X, (X.flatten(1)[:, :3] + 0.3 * torch.randn(samples, 3, generator=generator)).argmax(1)


def distance(a: dict[str, Tensor], b: dict[str, Tensor]) -> float:
    assert list(a) == list(b)
    return max(float((a[n].detach().double() - b[n].detach().double()).abs().max()) for n in a)


def same_bits(a: Trained, b: Trained) -> bool:
    states = [(a.state, b.state), *((a.snapshots[s], b.snapshots[s]) for s in a.snapshots)]
    return (
        list(a.snapshots) == list(b.snapshots)
        and torch.equal(a.losses, b.losses)
        and all(list(x) == list(y) and all(torch.equal(x[n], y[n]) for n in x) for x, y in states)
        and (a.steps, a.reached, a.diverged, a.train_accuracy) == (b.steps, b.reached, b.diverged, b.train_accuracy)
    )


@pytest.mark.parametrize(("make", "size"), [(mlp, 4), (lenet, 16)], ids=["mlp", "lenet"])
@pytest.mark.parametrize(
    "options",
    [{}, {"batch": None, "clip": 0.5, "decay": "linear"}, {"optimizer": "adam", "lr": 0.003}],
    ids=["sgd", "full batch, clip, decay", "adam"],
)
def test_vmapped_members_agree_with_the_loop(
    make: Callable[[], nn.Module], size: int, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(netgrain.training.trained_members, "MEMBERS_TOGETHER", 2)  # three members: a group and a rest
    X, y = data(size)
    settings = Settings(**{"steps": 20, "batch": 16, "lr": 0.05, "snapshots": (0, 4), **options})
    looped = train(make, X, y, settings, members=3, workers=1)
    together = train(make, X, y, settings, members=3, vmapped=True)
    for a, b in zip(looped, together, strict=True):
        assert b.how == "vmapped"
        assert (a.member, a.steps, a.reached, a.diverged) == (b.member, b.steps, b.reached, b.diverged)
        assert distance(a.state, b.state) < 1e-4
        assert torch.allclose(a.losses, b.losses, atol=1e-4)
        assert distance(a.snapshots[0], b.snapshots[0]) == 0
        assert distance(a.snapshots[4], b.snapshots[4]) < 1e-4
        assert abs(a.train_accuracy - b.train_accuracy) < 0.03
        assert a.distance == pytest.approx(b.distance, rel=1e-4)


@pytest.mark.quick
def test_vmapped_members_stop_one_by_one() -> None:
    X, y = data()
    settings = Settings(steps=80, batch=None, lr=0.1, stop_at_loss=0.55)
    looped = train(mlp, X, y, settings, members=4, workers=1)
    together = train(mlp, X, y, settings, members=4, vmapped=True)
    assert len({t.steps for t in looped}) > 1
    for a, b in zip(looped, together, strict=True):
        assert (a.steps, a.reached) == (b.steps, b.reached)
        assert distance(a.state, b.state) < 1e-3


class Noisy(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Flatten(), nn.Linear(16, 8), nn.Dropout(0.5), nn.Linear(8, 3))

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x)


@pytest.mark.parametrize(("make", "reason"), [(mlp_norm, "running statistics"), (Noisy, "vmap does not take")])
def test_what_cannot_be_vmapped_says_so_and_is_looped(make: Callable[[], nn.Module], reason: str) -> None:
    X, y = data()
    settings = Settings(steps=3, batch=16)
    with pytest.warns(GrainWarning, match=reason):
        together = train(make, X, y, settings, members=2, vmapped=True, workers=1)
    assert all(reason in t.how for t in together)
    looped = train(make, X, y, settings, members=2, workers=1)
    assert all(same_bits(a, b) for a, b in zip(together, looped, strict=True))


def test_looking_at_all_samples_is_not_vmapped() -> None:
    X, y = data()
    settings = Settings(steps=2, stop_at_loss=0.1, stop_every=1)
    with pytest.warns(GrainWarning, match="stop_every"):
        (trained,) = train(mlp, X, y, settings, members=1, vmapped=True)
    assert trained.how.startswith("loop: the loss over all samples")
    with pytest.warns(GrainWarning, match="micro-batches"):
        train(mlp, X, y, Settings(steps=1, microbatch=8), members=1, vmapped=True)
