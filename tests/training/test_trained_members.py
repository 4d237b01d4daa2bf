"""Members of a family: processes, results and what is refused."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from netgrain.families.members import member
from netgrain.models import MLP
from netgrain.runtime.errors import NetgrainError
from netgrain.training import Settings, Trained, accuracy, minibatch_order, train, train_member

mlp = partial(MLP, channels=1, image_size=4, outputs=3, width=0.1)


mlp_norm = partial(mlp, norm="batch")


def data(size: int = 4, samples: int = 50) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(7)
    X = torch.randn(samples, 1, size, size, generator=generator)
    return X, (X.flatten(1)[:, :3] + 0.3 * torch.randn(samples, 3, generator=generator)).argmax(1)


def tensors(model: nn.Module) -> dict[str, Tensor]:
    return {**dict(model.named_parameters()), **dict(model.named_buffers())}


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


@pytest.mark.quick
def test_losses_snapshots_and_loading() -> None:
    X, y = data()
    settings = Settings(steps=12, batch=16, snapshots=(0, 5, 12))
    trained = train_member(mlp_norm, X, y, settings, seed=0, i=0)
    assert list(trained.snapshots) == [0, 5, 12]
    assert distance(trained.snapshots[0], tensors(member(mlp_norm, 0, 0))) == 0
    assert distance(trained.snapshots[12], trained.state) == 0
    # without decay the first five steps are a training of five steps
    five = train_member(mlp_norm, X, y, Settings(steps=5, batch=16), seed=0, i=0)
    assert distance(trained.snapshots[5], five.state) == 0
    assert torch.equal(trained.losses[:5], five.losses)
    assert trained.losses.dtype == torch.float64
    order = minibatch_order(50, seed=0, i=0, epoch=0)[:16]
    first = F.cross_entropy(member(mlp_norm, 0, 0).train()(X[order]), y[order])
    assert float(trained.losses[0]) == pytest.approx(float(first), abs=1e-6)
    model = trained.model(mlp_norm)
    assert not model.training
    assert accuracy(model, X, y) == trained.train_accuracy > 0.5
    assert distance(tensors(trained.model(mlp_norm, step=5)), trained.snapshots[5]) == 0
    with pytest.raises(NetgrainError, match=r"no snapshot after 3 updates was kept .kept: 0, 5, 12"):
        trained.model(mlp_norm, step=3)
    with pytest.raises(NetgrainError, match="member of the same family"):
        trained.load_into(mlp())
    assert "12 steps" in repr(trained)


def test_distance_from_initialisation_is_that_of_the_parameters() -> None:
    X, y = data()
    trained = train_member(mlp_norm, X, y, Settings(steps=12, batch=16, snapshots=(0,)), seed=0, i=0)
    names = [name for name, _ in mlp_norm().named_parameters()]
    assert set(trained.state) > set(names)  # running statistics are no part of it
    flat = [torch.cat([state[n].flatten() for n in names]) for state in (trained.state, trained.snapshots[0])]
    assert trained.distance == pytest.approx(float((flat[0] - flat[1]).norm()), rel=1e-5)
    # one step of gradient descent is the learning rate times the gradient
    model = member(mlp_norm, 0, 0).train().requires_grad_(True)
    F.cross_entropy(model(X), y).backward()
    gradient = torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])
    step = train_member(mlp_norm, X, y, Settings(steps=1, batch=None, lr=0.3, momentum=0.0), seed=0, i=0)
    assert step.distance == pytest.approx(0.3 * float(gradient.norm()), rel=1e-4)
    assert math.isnan(train_member(mlp_norm, X, y, Settings(steps=9, lr=1e30), seed=0, i=0).distance)


def test_processes_do_not_change_bits() -> None:
    X, y = data()
    settings = Settings(steps=7, batch=16, snapshots=(0, 3))
    one = train(mlp_norm, X, y, settings, members=3, seed=5, workers=1)
    two = train(mlp_norm, X, y, settings, members=3, seed=5, workers=2)
    assert [t.distance for t in one] == [t.distance for t in two]
    some = train(mlp_norm, X, y, settings, members=[2, 0], seed=5)
    alone = train_member(mlp_norm, X, y, settings, seed=5, i=1)
    assert [t.member for t in two] == [0, 1, 2]
    assert all(same_bits(a, b) for a, b in zip(one, two, strict=True))
    assert same_bits(some[0], one[2])
    assert same_bits(some[1], one[0])
    assert same_bits(alone, one[1])
    assert not same_bits(one[0], one[1])


class Noisy(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Flatten(), nn.Linear(16, 8), nn.Dropout(0.5), nn.Linear(8, 3))

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x)


def test_parameters_frozen_by_the_family_do_not_move() -> None:
    def make() -> nn.Module:
        model = mlp()
        model.layers[1].weight.requires_grad_(False)
        return model

    X, y = data()
    settings = Settings(steps=5, batch=16, snapshots=(0,))
    (looped,) = train(make, X, y, settings, members=1, workers=1)
    (together,) = train(make, X, y, settings, members=1, vmapped=True)
    for trained in (looped, together):
        assert torch.equal(trained.state["layers.1.weight"], trained.snapshots[0]["layers.1.weight"])
        assert not torch.equal(trained.state["layers.3.weight"], trained.snapshots[0]["layers.3.weight"])


def test_the_caller_is_left_alone() -> None:
    X, y = data()
    X0, y0 = X.clone(), y.clone()
    torch.manual_seed(0)
    state, threads = torch.get_rng_state(), torch.get_num_threads()
    seen = set()

    class Watching(Noisy):
        def forward(self, x: Tensor) -> Tensor:
            if self.training:
                seen.add(torch.get_num_threads())
            return super().forward(x)

    torch.set_num_threads(2)
    try:
        with torch.no_grad():
            train(Noisy, X, y.int(), Settings(steps=2, batch=16), members=2, workers=1)
            train_member(Watching, X.double(), y, Settings(steps=2, batch=500), seed=0, i=0)
            assert not torch.is_grad_enabled()
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(threads)
    assert seen == {1}
    assert torch.equal(state, torch.get_rng_state())
    assert torch.equal(X, X0)
    assert torch.equal(y, y0)


_one = mlp()


X4, Y4 = data()


S4 = Settings(steps=1, batch=16)


BAD: dict[str, tuple[Callable[[], Any], str]] = {
    "optimizer": (lambda: Settings(optimizer="lion"), "expected optimizer as 'sgd' or 'adam', found 'lion'"),
    "lr": (lambda: Settings(lr=0.0), "expected lr"),
    "lr nan": (lambda: Settings(lr=math.nan), "expected lr"),
    "momentum": (lambda: Settings(momentum=1.0), "expected momentum"),
    "weight decay": (lambda: Settings(weight_decay=-1.0), "expected weight_decay"),
    "steps": (lambda: Settings(steps=0), "expected steps"),
    "batch": (lambda: Settings(batch=0), "None for full batch"),
    "decay": (lambda: Settings(decay="cosine"), "expected decay"),
    "clip": (lambda: Settings(clip=0.0), "expected clip"),
    "loss": (lambda: Settings(loss="hinge"), "expected loss"),
    "stop": (lambda: Settings(stop_at_loss=math.inf), "expected stop_at_loss"),
    "snapshots": (lambda: Settings(steps=5, snapshots=(6,)), r"from 0 to steps=5, found \(6,\)"),
    "log": (lambda: Settings(log_every=0), "expected log_every"),
    "float labels": (lambda: train(mlp, X4, Y4.float(), S4, members=1), "whole-number labels, found torch.float32"),
    "fractions": (lambda: train(mlp, X4, Y4 + 0.5, S4, members=1), "regression targets are not supported"),
    "labels out of range": (
        lambda: train(mlp, X4, Y4 + 1, S4, members=1),
        "from 1 to 3, .* expected labels 0 to 2: pass y - 1",
    ),
    "negative labels": (lambda: train(mlp, X4, Y4 - 1, S4, members=1), "labels run from -1 to 1"),
    "fewer labels": (lambda: train(mlp, X4, Y4[:9], S4, members=1), r"y has shape \(9,\), expected \(50,\)"),
    "whole numbers": (lambda: train(mlp, X4.byte(), Y4, S4, members=1), "X.float"),
    "nan": (lambda: train(mlp, X4 * math.nan, Y4, S4, members=1), "800 numbers that are not finite"),
    "no samples": (lambda: train(mlp, X4[:0], Y4[:0], S4, members=1), "at least one sample"),
    "wrong shape": (lambda: train(mlp, X4[:, :, :2], Y4, S4, members=1), "failed on inputs of shape"),
    "targets": (lambda: train(mlp, X4, Y4.float(), Settings(loss="sse"), members=1), r"targets of shape \(50, 3\)"),
    "one output": (lambda: train(partial(mlp, outputs=1), X4, Y4 * 0, S4, members=1), "two outputs or more"),
    "no members": (lambda: train(mlp, X4, Y4, S4, members=0), "members as a count"),
    "same members": (lambda: train(mlp, X4, Y4, S4, members=[1, 1]), "different numbers"),
    "same module": (lambda: train(lambda: _one, X4, Y4, S4, members=2), "same module twice"),
    "all frozen": (
        lambda: train_member(lambda: mlp().requires_grad_(False), X4, Y4, S4, seed=0, i=0),
        "every parameter of MLP is frozen",
    ),
    "batch of one": (
        lambda: train_member(mlp_norm, X4, Y4, Settings(batch=1, steps=1), seed=0, i=0),
        "mixes the samples of a batch",
    ),
    "workers": (lambda: train(mlp, X4, Y4, S4, members=2, workers=0), "at least one worker"),
    "checkpoint every": (
        lambda: train_member(mlp, X4, Y4, S4, seed=0, i=0, checkpoint_every=0),
        "expected checkpoint_every",
    ),
    "accuracy": (lambda: accuracy(mlp(), X4, Y4.float()), "whole-number labels"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_gets_a_sentence(case: str) -> None:
    call, message = BAD[case]
    with pytest.raises(NetgrainError, match=message):
        call()
