"""Velocities of weights and rates of gradients: slices, forward and reverse mode, fused attention."""

from functools import partial

import pytest
import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from netgrain.families.members import member
from netgrain.families.probes import Data
from netgrain.training.evolution import average_evolution
from netgrain.training.gradient_flow import backward_rates, forward_rates, rates_for, weight_velocity
from netgrain.training.losses import loss_of
from tests import naive
from tests.training.networks import POINTS, X, Y, _random, small


@pytest.mark.quick
def test_data_in_slices_is_the_whole_data() -> None:
    """More samples than fit one slice, under a loss that is a sum and under one that is not."""
    many, y = _random(600, 4, seed=1), _random(600, 2, seed=2)

    def own(f: Tensor, y: Tensor) -> Tensor:
        return (f - y).square().sum().sqrt()

    model = member(small, 0, 0).requires_grad_(True)
    for loss, plain in (("sse", (model(many) - y).square().sum() / 2), (own, own(model(many), y))):
        moving = [n for n, _ in model.named_parameters()]
        found = weight_velocity(model, many, y, loss_of(loss), moving)
        expected = naive.flow(model, plain)
        torch.testing.assert_close(torch.cat([found[n].flatten() for n in moving]), expected)


class Cube(torch.autograd.Function):
    """Twice differentiable in reverse mode, without a rule for forward mode."""

    @staticmethod
    def forward(ctx: object, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx: object, g: Tensor) -> Tensor:
        return 3 * ctx.saved_tensors[0] ** 2 * g


class Cubed(nn.Module):
    def __init__(self, own: bool = True) -> None:
        super().__init__()
        self.inner, self.head, self.own = nn.Linear(4, 5).double(), nn.Linear(5, 2).double(), own

    def forward(self, x: Tensor) -> Tensor:
        h = self.inner(x)
        return self.head(Cube.apply(h) if self.own else h**3)


def test_falls_back_to_reverse_mode() -> None:
    own, plain = (
        average_evolution(partial(Cubed, flag), X, Y, members=3, probe=Data(POINTS)) for flag in (True, False)
    )
    assert own.differentiation == "reverse over reverse"
    assert plain.differentiation == "forward over reverse"
    torch.testing.assert_close(own.matrix(), plain.matrix())
    model = member(small, 0, 0)
    speed = {n: _random(*p.shape, seed=1) for n, p in model.named_parameters()}
    for rates in zip(*(f(model, speed, POINTS, "all") for f in (forward_rates, backward_rates)), strict=True):
        torch.testing.assert_close(*rates)
    assert rates_for(model, list(speed), POINTS, "all")[0] is forward_rates


def test_fused_attention_is_differentiated() -> None:
    class Attends(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed, self.head = nn.Linear(1, 4), nn.Linear(4, 2)
            self.block = nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, batch_first=True)

        def forward(self, x: Tensor) -> Tensor:
            return self.head(self.block(self.embed(x[:, :, None])).mean(1))

    make = lambda: Attends().double()  # noqa: E731
    found = average_evolution(make, X, Y, members=2, probe=Data(POINTS), antithetic=False)
    models = [member(make, 0, i).requires_grad_(True) for i in range(2)]
    with sdpa_kernel(SDPBackend.MATH):
        M = naive.evolution(models, POINTS, lambda model: (model(X) - Y).square().sum() / 2)
    torch.testing.assert_close(found.M, M)
