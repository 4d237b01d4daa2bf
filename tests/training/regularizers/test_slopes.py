"""Penalties on slopes: geometric complexity and Jacobians."""

import copy
import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from netgrain.training.regularizers.base import Regularizer
from netgrain.training.regularizers.slopes import GeometricComplexity, Jacobian


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


def exact_complexity(model: nn.Module, x: Tensor) -> Tensor:
    J = torch.func.vmap(torch.func.jacrev(lambda one: model(one[None])[0]))(x)
    return J.square().sum() / len(x)


@pytest.mark.parametrize(("kind", "share"), [(GeometricComplexity, 1.0), (Jacobian, 0.5)])
def test_probes_are_unbiased(kind: type[GeometricComplexity], share: float) -> None:
    model, (x, _) = net(), batch()
    regularizer = kind(1.0, seed=3)
    draws = torch.stack([regularizer.penalty(model, x).detach() for _ in range(3000)])
    error = (draws.mean() - share * exact_complexity(model, x).detach()) / (draws.std() / math.sqrt(len(draws)))
    assert abs(float(error)) < 4
    assert float(draws.std()) > 0


@pytest.mark.quick
def test_one_output_needs_no_luck() -> None:
    model, (x, _) = net(outputs=1), batch()
    torch.testing.assert_close(GeometricComplexity(2.0).penalty(model, x), 2 * exact_complexity(model, x))


def test_exact_jacobian_and_its_gradient() -> None:
    model, (x, y) = net(), batch()
    want = of(model, F.cross_entropy(model(x), y) + 0.5 * 0.7 * exact_complexity(model, x))
    torch.testing.assert_close(gradient(Jacobian(0.7, vectors=None), model, x, y), want)


def test_batch_norm_is_penalised_with_its_running_statistics() -> None:
    model = nn.Sequential(nn.Linear(5, 4), nn.BatchNorm1d(4), nn.Tanh(), nn.Linear(4, 1)).double()
    x, _ = batch()
    model.train()(x)
    want = exact_complexity(copy.deepcopy(model).eval(), x)
    modes, statistics = [m.training for m in model.modules()], copy.deepcopy(dict(model.named_buffers()))
    found = GeometricComplexity(1.0).penalty(model, x)
    torch.testing.assert_close(found, want)
    assert [m.training for m in model.modules()] == modes
    for name, buffer in model.named_buffers():
        torch.testing.assert_close(buffer, statistics[name], rtol=0, atol=0)
    # with a loss the forward pass in train mode counts, once
    again = copy.deepcopy(model)
    again(x)
    GeometricComplexity(1.0).backward(lambda f, t: f.square().mean(), model, x, x)
    for name, buffer in model.named_buffers():
        torch.testing.assert_close(buffer, dict(again.named_buffers())[name])
