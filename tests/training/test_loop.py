"""The training loop: equal to the obvious one, repeatable to the bit, resumable, and open about what went wrong."""

import json
import math
import multiprocessing
import os
import signal
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import netgrain.training.trained_members
from netgrain.families.members import member
from netgrain.models import MLP, LeNet, ResNet18
from netgrain.runtime.errors import GrainWarning, NetgrainError
from netgrain.training import Settings, Trained, accuracy, minibatch_order, train, train_member

mlp = partial(MLP, channels=1, image_size=4, outputs=3, width=0.1)
mlp_norm = partial(mlp, norm="batch")
lenet = partial(LeNet, channels=1, image_size=16, outputs=3, width=0.5)
resnet = partial(ResNet18, channels=1, image_size=8, outputs=3, width=1 / 32, norm="batch")


def data(size: int = 4, samples: int = 50) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(7)
    X = torch.randn(samples, 1, size, size, generator=generator)
    return X, (X.flatten(1)[:, :3] + 0.3 * torch.randn(samples, 3, generator=generator)).argmax(1)


def obvious(make: Callable[[], nn.Module], X: Tensor, y: Tensor, s: Settings, seed: int, i: int) -> dict[str, Tensor]:
    """What one writes first; the order of the samples is the only thing shared with the library."""
    model = member(make, seed, i).requires_grad_(True).train()
    if s.optimizer == "sgd":
        optimizer: torch.optim.Optimizer = torch.optim.SGD(
            model.parameters(), lr=s.lr, momentum=s.momentum, weight_decay=s.weight_decay, foreach=False
        )
    else:
        optimizer = torch.optim.Adam(model.parameters(), lr=s.lr, weight_decay=s.weight_decay, foreach=False)
    step, epoch = 0, 0
    while step < s.steps:
        order = minibatch_order(len(X), seed=seed, i=i, epoch=epoch)
        batches = [torch.arange(len(X))] if s.batch is None else [b for b in order.split(s.batch) if len(b) == s.batch]
        for rows in batches:
            if step == s.steps:
                break
            for group in optimizer.param_groups:
                group["lr"] = s.lr * (1 - step / s.steps) if s.decay == "linear" else s.lr
            optimizer.zero_grad()
            outputs = model(X[rows])
            if s.loss == "sse":
                loss = 0.5 * ((outputs - torch.eye(3)[y[rows]]) ** 2).sum()
            else:
                loss = F.cross_entropy(outputs, y[rows])
            loss.backward()
            if s.clip is not None:
                torch.nn.utils.clip_grad_norm_(model.parameters(), s.clip)
            optimizer.step()
            step += 1
        epoch += 1
    return tensors(model)


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


def test_comparisons_can_fail() -> None:
    X, y = data()
    a, b = (train_member(mlp, X, y, Settings(steps=2, batch=16), seed=0, i=i) for i in (0, 1))
    assert same_bits(a, a)
    assert not same_bits(a, b)
    assert distance(a.state, b.state) > 1e-2


OPTIONS: dict[str, dict[str, Any]] = {
    "sgd": {},
    "decay, weight decay, clip": {"decay": "linear", "weight_decay": 0.01, "clip": 0.1},
    "no momentum": {"momentum": 0.0},
    "full batch": {"batch": None},
    "adam": {"optimizer": "adam", "lr": 0.01, "weight_decay": 0.01},
    "sse": {"loss": "sse", "lr": 0.002},
}


@pytest.mark.parametrize("make", [mlp, mlp_norm], ids=["mlp", "batch norm"])
@pytest.mark.parametrize("options", OPTIONS.values(), ids=list(OPTIONS))
def test_weights_are_those_of_the_obvious_loop(make: Callable[[], nn.Module], options: dict[str, Any]) -> None:
    X, y = data()
    settings = Settings(**{"steps": 10, "batch": 16, **options})  # 3 steps an epoch, 2 samples dropped
    trained = train_member(make, X, y, settings, seed=3, i=2)
    assert distance(trained.state, obvious(make, X, y, settings, 3, 2)) < 1e-6
    assert distance(trained.state, obvious(make, X, y, settings, 3, 1)) > 1e-3
    assert trained.steps == len(trained.losses) == 10


@pytest.mark.parametrize(("make", "size"), [(lenet, 16), (resnet, 8)], ids=["lenet", "resnet"])
def test_convolutional_members(make: Callable[[], nn.Module], size: int) -> None:
    X, y = data(size)
    settings = Settings(steps=4, batch=20)
    trained = train_member(make, X, y, settings, seed=0, i=0)
    assert distance(trained.state, obvious(make, X, y, settings, 0, 0)) < 1e-6


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


def test_accuracy_by_hand_leaves_the_model_as_found() -> None:
    X, y = data()
    model = mlp_norm().train()
    model.layers[2].eval()  # a mixed mode comes back as it was
    buffers = {name: t.clone() for name, t in model.named_buffers()}
    modes = [m.training for m in model.modules()]
    twin = mlp_norm().eval()
    twin.load_state_dict(model.state_dict())
    expected = sum(int(twin(x[None]).argmax()) == int(t) for x, t in zip(X, y, strict=True)) / 50
    assert accuracy(model, X, y, batch=7) == accuracy(mlp_norm(), X, y, state=model.state_dict()) == expected
    assert [m.training for m in model.modules()] == modes
    assert all(torch.equal(t, buffers[name]) for name, t in model.named_buffers())


def test_processes_do_not_change_bits() -> None:
    X, y = data()
    settings = Settings(steps=7, batch=16, snapshots=(0, 3))
    one = train(mlp_norm, X, y, settings, members=3, seed=5, workers=1)
    two = train(mlp_norm, X, y, settings, members=3, seed=5, workers=2)
    some = train(mlp_norm, X, y, settings, members=[2, 0], seed=5)
    alone = train_member(mlp_norm, X, y, settings, seed=5, i=1)
    assert [t.member for t in two] == [0, 1, 2]
    assert all(same_bits(a, b) for a, b in zip(one, two, strict=True))
    assert same_bits(some[0], one[2])
    assert same_bits(some[1], one[0])
    assert same_bits(alone, one[1])
    assert not same_bits(one[0], one[1])


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


def test_stopping_at_a_loss() -> None:
    X, y = data()
    full = train_member(mlp, X, y, Settings(steps=100, batch=None, stop_at_loss=0.6), seed=0, i=0)
    assert full.reached is True
    assert full.steps < 100
    assert float(full.losses[-1]) <= 0.6 < float(full.losses[:-1].min())
    small = train_member(mlp, X, y, Settings(steps=100, batch=16, stop_at_loss=0.6), seed=0, i=2)
    assert float(small.losses[:-1].min()) < 0.6  # one good batch is not enough
    means = small.losses.unfold(0, 3, 1).mean(1)  # three steps an epoch
    assert float(means[-1]) <= 0.6 < float(means[:-1].min())
    never = train_member(mlp, X, y, Settings(steps=3, stop_at_loss=0.0, batch=16), seed=0, i=0)
    assert never.reached is False
    assert never.steps == 3


@pytest.mark.parametrize("vmapped", [False, True])
def test_divergence_is_flagged_not_raised(vmapped: bool) -> None:
    X, y = data()
    wild = Settings(steps=200, batch=None, loss="sse", lr=100.0)
    (trained,) = train(mlp, X, y, wild, members=1, vmapped=vmapped)
    assert trained.diverged
    assert trained.steps == len(trained.losses) < 200
    assert not math.isfinite(float(trained.losses[-1]))
    assert bool(torch.isfinite(trained.losses[:-1]).all())
    assert math.isnan(trained.train_accuracy)
    assert "diverged" in repr(trained)


class Overflowing(nn.Module):
    """A weight that only weight decay sees: it can be infinite while the loss is not."""

    def __init__(self) -> None:
        super().__init__()
        self.shift = nn.Parameter(torch.tensor(1.0))

    def forward(self, x: Tensor) -> Tensor:
        return x.flatten(1)[:, :3] + self.shift.clamp(-1, 1)


@pytest.mark.parametrize("vmapped", [False, True])
def test_weights_that_are_not_finite_are_noticed(vmapped: bool) -> None:
    X, y = data()
    settings = Settings(steps=50, batch=None, lr=2.0, momentum=0.0, weight_decay=1e3, log_every=1)
    (trained,) = train(Overflowing, X, y, settings, members=1, vmapped=vmapped)
    assert trained.diverged
    assert trained.steps < 50
    assert bool(torch.isfinite(trained.losses).all())
    assert bool(trained.state["shift"].isinf())


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


def test_targets_for_the_sum_of_squares() -> None:
    """Full-batch gradient descent on ½Σ(wx − y)² by hand."""
    X, y = torch.tensor([[1.0], [2.0]]), torch.tensor([3.0, 5.0])
    line = partial(nn.Linear, 1, 1, bias=False)
    settings = Settings(loss="sse", batch=None, lr=0.05, momentum=0.0, steps=3)
    trained = train_member(line, X, y, settings, seed=0, i=0)
    w = float(member(line, 0, 0).weight)
    for step in range(3):
        assert float(trained.losses[step]) == pytest.approx(((w - 3) ** 2 + (2 * w - 5) ** 2) / 2, rel=1e-5)
        w -= 0.05 * ((w - 3) + 2 * (2 * w - 5))
    assert float(trained.state["weight"]) == pytest.approx(w, rel=1e-5)
    assert math.isnan(trained.train_accuracy)


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


def test_order_is_a_permutation_of_its_own() -> None:
    orders = [
        minibatch_order(20, seed=s, i=i, epoch=e).tolist() for s, i, e in ((0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1))
    ]
    assert all(sorted(o) == list(range(20)) for o in orders)
    assert len({tuple(o) for o in orders}) == 4


def test_settings_go_through_json() -> None:
    settings = Settings(snapshots=(5, 0, 5), batch=None, decay="linear", clip=0.5)
    assert settings.snapshots == (0, 5)
    assert Settings(**json.loads(json.dumps(settings.as_dict()))) == settings


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
        "the model failed on inputs",
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


# --- losses, batches and stops of sweeps ------------------------------------------------------------------------


def test_mean_squared_error_is_half_the_mean_over_samples() -> None:
    X, y = data()
    settings = Settings(loss="mse", steps=1, batch=None, lr=0.3, momentum=0.0)
    trained = train_member(mlp, X, y, settings, seed=2, i=0)
    model = member(mlp, 2, 0).requires_grad_(True)
    loss = 0.5 * sum((f - torch.eye(3)[t]).square().sum() for f, t in zip(model(X), y, strict=True)) / len(X)
    assert float(trained.losses[0]) == pytest.approx(float(loss.detach()), rel=1e-6)
    for (name, p), g in zip(model.named_parameters(), torch.autograd.grad(loss, list(model.parameters())), strict=True):
        torch.testing.assert_close(trained.state[name], (p - 0.3 * g).detach())
    real = train_member(mlp, X, torch.eye(3)[y], settings, seed=2, i=0)  # one-hot targets given as numbers
    assert torch.equal(real.state["layers.1.weight"], trained.state["layers.1.weight"])


def test_smoothed_labels() -> None:
    X, y = data()
    settings = Settings(label_smoothing=0.2, steps=1, batch=None)
    target = 0.8 * torch.eye(3)[y] + 0.2 / 3
    loss = -(target * member(mlp, 2, 0)(X).log_softmax(1)).sum(1).mean()
    assert float(train_member(mlp, X, y, settings, seed=2, i=0).losses[0]) == pytest.approx(float(loss), rel=1e-6)


def test_batches_with_replacement() -> None:
    order = minibatch_order(1000, seed=0, i=0, epoch=0, replacement=True)
    assert len(order) == 1000
    assert 600 < len(order.unique()) < 665  # 1 − 1/e of them, ± 4 standard deviations
    assert torch.equal(order, minibatch_order(1000, seed=0, i=0, epoch=0, replacement=True))
    X, y = data()
    without = train_member(mlp, X, y, Settings(steps=12, batch=10), seed=0, i=0)
    drawn = train_member(mlp, X, y, Settings(steps=12, batch=10, replacement=True), seed=0, i=0)
    assert not torch.equal(without.losses, drawn.losses)
    whole = train_member(mlp, X, y, Settings(steps=2, batch=len(X), replacement=True), seed=0, i=0)
    assert not torch.equal(whole.losses, train_member(mlp, X, y, Settings(steps=2, batch=None), seed=0, i=0).losses)


def test_stopping_at_the_loss_over_all_samples() -> None:
    X, y = data()
    settings = Settings(
        steps=400, batch=10, momentum=0.0, stop_at_loss=0.6, stop_every=3, snapshots=tuple(range(0, 400, 3))
    )
    trained = train_member(mlp_norm, X, y, settings, seed=0, i=0)
    assert trained.reached
    assert trained.steps % 3 == 0

    def loss(step: int | None) -> float:  # in eval mode
        model = trained.model(mlp_norm, step=step)
        return float(F.cross_entropy(model(X), y))

    assert loss(None) <= 0.6 < loss(trained.steps - 3)
    slow = train_member(
        mlp_norm, X, y, Settings(steps=9, batch=10, lr=1e-6, stop_at_loss=0.6, stop_every=3), seed=0, i=0
    )
    assert slow.reached is False


def test_looking_at_all_samples_is_not_vmapped() -> None:
    X, y = data()
    settings = Settings(steps=2, stop_at_loss=0.1, stop_every=1)
    with pytest.warns(GrainWarning, match="stop_every"):
        (trained,) = train(mlp, X, y, settings, members=1, vmapped=True)
    assert trained.how.startswith("loop: the loss over all samples")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"loss": "huber"}, "loss as one of 'sse', 'cross-entropy', 'mse', found 'huber'"),
        ({"label_smoothing": 1.0}, r"label_smoothing as a number in \[0, 1\), found 1.0"),
        ({"label_smoothing": 0.1, "loss": "mse"}, "label_smoothing as 0, found 0.1"),
        ({"replacement": 1}, "replacement as True or False, found 1"),
        ({"stop_every": 0}, "stop_every as a whole number ≥ 1 or None, found 0"),
    ],
)
def test_new_settings_are_checked(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(NetgrainError, match=message):
        Settings(**changes)
