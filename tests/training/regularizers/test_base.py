"""Regularisers: each against its formula, together, in the frame's training, and through save and restore."""

import copy
import math
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from netgrain.runtime.errors import NetgrainError
from netgrain.training import Settings, train_member
from netgrain.training.regularizers.base import Regularizer
from netgrain.training.regularizers.flatness import SAM, GradientNorm
from netgrain.training.regularizers.noise import InputNoise, LabelNoise
from netgrain.training.regularizers.norms import L2, SpectralNorm
from netgrain.training.regularizers.slopes import GeometricComplexity, Jacobian

ALL: list[Callable[[], Regularizer]] = [
    partial(L2, 0.01),
    partial(SpectralNorm, 0.1),
    partial(GeometricComplexity, 0.05),
    partial(Jacobian, 0.05),
    partial(GradientNorm, 0.1),
    partial(SAM, 0.1),
    partial(InputNoise, 0.3),
    partial(LabelNoise, 0.3),
]


NAMES = [a.func.__name__ for a in ALL if isinstance(a, partial)]


def net(seed: int = 0, outputs: int = 3) -> nn.Sequential:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, outputs)).double()


def batch(n: int = 16) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    return torch.randn(n, 5, generator=generator, dtype=torch.float64), torch.arange(n) % 3


def gradient(regularizer: Regularizer, model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    model.zero_grad()
    regularizer.backward(F.cross_entropy, model, x, y)
    return torch.cat(
        [torch.zeros_like(p).flatten() if p.grad is None else p.grad.flatten() for p in model.parameters()]
    )


def of(model: nn.Module, value: Tensor) -> Tensor:
    """The gradient of a scalar with respect to all parameters, plainly."""
    found = torch.autograd.grad(value, list(model.parameters()), allow_unused=True, retain_graph=True)
    pairs = zip(model.parameters(), found, strict=True)
    return torch.cat([torch.zeros_like(p).flatten() if g is None else g.flatten() for p, g in pairs])


@pytest.mark.quick
@pytest.mark.parametrize("make", ALL, ids=NAMES)
def test_nothing_of_the_caller_is_touched(make: Callable[[], Regularizer]) -> None:
    model, (x, y) = net(), batch()
    model[0].weight.grad = torch.ones_like(model[0].weight)
    weights, state = copy.deepcopy(model.state_dict()), torch.get_rng_state()
    loss = make().backward(F.cross_entropy, model, x, y)
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(weights[n], p) for n, p in model.state_dict().items())
    assert not x.requires_grad
    assert not loss.requires_grad
    first = copy.deepcopy(model[0].weight.grad)
    model[0].weight.grad = None
    make().backward(F.cross_entropy, model, x, y)
    torch.testing.assert_close(first, model[0].weight.grad + 1)  # gradients add up, as after loss.backward()


@pytest.mark.parametrize("make", ALL, ids=NAMES)
def test_strength_zero_is_plain_training(make: Callable[[], Regularizer]) -> None:
    model, (x, y) = net(), batch()
    off = type(make())(0.0)
    torch.testing.assert_close(gradient(off, model, x, y), of(model, F.cross_entropy(model(x), y)), rtol=0, atol=0)
    assert not torch.allclose(gradient(make(), model, x, y), gradient(off, model, x, y))


@pytest.mark.parametrize("make", ALL, ids=NAMES)
def test_state_is_saved_and_restored(make: Callable[[], Regularizer]) -> None:
    model, (x, y) = net(), batch()
    combined = make() + InputNoise(0.1, seed=5)
    for _ in range(3):
        gradient(combined, model, x, y)
    state = {name: t.clone() for name, t in combined.state_dict().items()}
    want = gradient(combined, model, x, y)
    resumed = make() + InputNoise(0.1, seed=5)
    resumed.load_state_dict(state)
    assert torch.equal(gradient(resumed, model, x, y), want)
    assert not torch.equal(gradient(make() + InputNoise(0.1, seed=5), model, x, y), want)


def test_parts_add_up() -> None:
    model, (x, y) = net(), batch()
    plain = of(model, F.cross_entropy(model(x), y))
    parts = [L2(0.1), Jacobian(0.3, vectors=None), GradientNorm(0.2)]
    apart = sum((gradient(p, model, x, y) - plain for p in parts), torch.zeros(1, dtype=torch.float64))
    torch.testing.assert_close(gradient(parts[0] + parts[1] + parts[2], model, x, y), plain + apart)
    assert repr(L2(0.1) + SAM(0.05) + LabelNoise(0.2)) == "L2(0.1) + SAM(0.05) + LabelNoise(0.2)"


@pytest.mark.parametrize("make", [*ALL, lambda: L2(0.01) + SAM(0.05) + InputNoise(0.2) + SpectralNorm(0.1)])
def test_training_resumes_to_the_same_bits(make: Callable[[], Regularizer], tmp_path: Path) -> None:
    X, y = batch(40)
    X = X.float()
    family = partial(nn.Linear, 5, 3)
    settings = Settings(steps=30, batch=8, lr=0.1, replacement=True)
    whole = train_member(family, X, y, settings, seed=1, i=0, regularizer=make())
    file = tmp_path / "run.safetensors"

    class Killed(Exception):
        pass

    def killing() -> Callable[[Tensor], Tensor]:
        calls = 0

        def forward(_: nn.Module, args: tuple[Tensor, ...]) -> None:
            nonlocal calls
            calls += 1
            if calls == 14:
                raise Killed

        return forward  # type: ignore[return-value]

    def fragile() -> nn.Module:
        layer = nn.Linear(5, 3)
        layer.register_forward_pre_hook(killing())
        return layer

    with pytest.raises(Killed):
        train_member(fragile, X, y, settings, seed=1, i=0, regularizer=make(), checkpoint=file, checkpoint_every=3)
    assert file.exists()
    resumed = train_member(family, X, y, settings, seed=1, i=0, regularizer=make(), checkpoint=file, checkpoint_every=3)
    assert torch.equal(whole.state["weight"], resumed.state["weight"])
    with pytest.raises(NetgrainError, match="belongs to another training: expected regularizer None"):
        train_member(family, X, y, settings, seed=1, i=0, checkpoint=file)


def test_the_frame_and_a_plain_loop_agree() -> None:
    X, y = batch(32)
    settings = Settings(steps=12, batch=None, lr=0.2, momentum=0.0)
    family = partial(net, 4)
    trained = train_member(family, X, y, settings, seed=0, i=0, regularizer=L2(0.02) + GeometricComplexity(0.1, seed=3))
    model, regularizer = net(4), L2(0.02) + GeometricComplexity(0.1, seed=3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
    for _ in range(12):
        optimizer.zero_grad()
        regularizer.backward(F.cross_entropy, model, X, y)
        optimizer.step()
    torch.testing.assert_close(trained.state["0.weight"], model[0].weight.detach())


@pytest.mark.parametrize("kind", [type(a()) for a in ALL], ids=NAMES)
@pytest.mark.parametrize("bad", [-0.1, math.nan, math.inf, "much", True])
def test_bad_strength(kind: type[Regularizer], bad: float) -> None:
    what = {"SAM": "radius", "InputNoise": "standard deviation", "LabelNoise": "probability"}.get(
        kind.__name__, "strength"
    )
    with pytest.raises(
        NetgrainError, match=rf"{kind.__name__} expects a number ≥ 0 as its {what}, found .*switches it off"
    ):
        kind(bad)


def test_bad_use() -> None:
    model, (x, y) = net(), batch()
    with pytest.raises(NetgrainError, match=r"a number from 0 to 1 as its probability, found 1\.5"):
        LabelNoise(1.5).backward(F.cross_entropy, model, x, y)
    with pytest.raises(NetgrainError, match="vectors= as a whole number from 1 upwards, found 0"):
        GeometricComplexity(1.0, vectors=0)
    with pytest.raises(NetgrainError, match=r"SAM\(0.1\) is not a penalty on the model alone; call backward"):
        (L2(0.1) + SAM(0.1)).penalty(model, x)
    with pytest.raises(NetgrainError, match="at most one in a sum"):
        SAM(0.1) + SAM(0.2)
    twice = L2(0.1)
    with pytest.raises(NetgrainError, match="added twice"):
        twice + twice
    with pytest.raises(NetgrainError, match="criterion that returns one number, found shape"):
        L2(0.1).backward(partial(F.cross_entropy, reduction="none"), model, x, y)
    with pytest.raises(NetgrainError, match=r"floating-point inputs to differentiate, found torch\.int64"):
        GeometricComplexity(1.0).backward(F.cross_entropy, nn.Embedding(9, 3), y, y)
    with pytest.raises(NetgrainError, match="every parameter of Sequential is frozen"):
        L2(0.1).backward(F.cross_entropy, net().requires_grad_(False), x, y)
    with pytest.raises(NetgrainError, match="state of a regulariser with 2 parts"):
        (L2(0.1) + L2(0.2)).load_state_dict(L2(0.1).state_dict())
    norm = nn.Sequential(nn.Linear(5, 4), nn.BatchNorm1d(4, track_running_stats=False), nn.Linear(4, 3)).double()
    with pytest.raises(NetgrainError, match="without running statistics"):
        GeometricComplexity(1.0).backward(F.cross_entropy, norm, x, y)
