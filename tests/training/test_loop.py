"""The training loop: equal to the obvious one, repeatable to the bit, resumable, and open about what went wrong."""

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from netgrain.families.members import forward, member
from netgrain.models import MLP, LeNet, ResNet18
from netgrain.runtime.errors import NetgrainError
from netgrain.training import Settings, Trained, accuracy, loop, minibatch_order, train, train_member
from netgrain.training.regularizers.norms import L2

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


@pytest.mark.quick
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


@pytest.mark.parametrize(("loss", "batch"), [("cross-entropy", None), ("sse", None), ("mse", 20)])
def test_micro_batches_add_up_to_the_batch(loss: str, batch: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = data()
    seen: list[int] = []
    monkeypatch.setattr(loop, "forward", lambda model, x: seen.append(len(x)) or forward(model, x))
    whole = Settings(loss=loss, batch=batch, steps=8, lr=0.02, clip=0.5, decay="linear")

    def double() -> nn.Module:
        return mlp().double()

    one = train_member(double, X, y, whole, seed=0, i=0)
    seen.clear()
    many = train_member(double, X, y, replace(whole, microbatch=7), seed=0, i=0)
    assert seen.pop() == len(X)  # for the accuracy, without gradients
    assert max(seen) == 7  # slices of 7 and a rest
    assert sum(seen) == 8 * (batch or len(X))
    for name, tensor in one.state.items():
        torch.testing.assert_close(many.state[name], tensor, rtol=1e-12, atol=1e-13)
    torch.testing.assert_close(many.losses, one.losses, rtol=1e-12, atol=0)
    single = train_member(mlp, X, y, replace(whole, microbatch=len(X)), seed=0, i=0)
    assert torch.equal(single.losses, train_member(mlp, X, y, whole, seed=0, i=0).losses)


def test_micro_batches_are_refused_where_a_batch_is_not_a_sum() -> None:
    X, y = data()
    settings = Settings(steps=1, microbatch=5)
    with pytest.raises(NetgrainError, match=r"microbatch cannot be used with '.*' \(BatchNorm1d\), which normalises"):
        train_member(mlp_norm, X, y, settings, seed=0, i=0)
    with pytest.raises(NetgrainError, match="microbatch cannot be combined with a regularizer"):
        train_member(mlp, X, y, settings, seed=0, i=0, regularizer=L2(1e-3))
