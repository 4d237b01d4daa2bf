"""Input gradients are right and leave everything as it was; models that cannot be differentiated are refused."""

import pytest
import torch
from torch import nn

import netgrain as ng
from netgrain.families.gradients import check_deterministic, cut_at, gradients
from netgrain.families.members import member
from tests import naive


def small() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(12, 8), nn.GELU(), nn.Linear(8, 3))


@pytest.mark.quick
@pytest.mark.parametrize("points", [1, 5, 130])
def test_gradients_equal_the_jacobian(points: int) -> None:
    model = member(small, 0, 0)
    X = torch.randn(points, 12)
    rows = gradients(model, X).reshape(points, 3, 12)
    for x, found in zip(X[:3], rows[:3], strict=True):
        torch.testing.assert_close(found.double(), naive.jacobian(model, x), rtol=1e-5, atol=1e-6)


def test_given_models_are_left_as_found_and_get_no_parameter_gradients() -> None:
    torch.manual_seed(0)
    model = small().train()  # no dropout, no batch norm: train mode changes nothing
    model[1].weight.grad = torch.ones_like(model[1].weight)
    before = [p.clone() for p in model.parameters()]
    X = torch.randn(4, 12)
    G = ng.geometry_of(model, ng.Data(X))
    torch.testing.assert_close(G.matrix(), naive.geometry([model], X), rtol=1e-5, atol=1e-7)
    assert all(torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))
    assert all(p.requires_grad for p in model.parameters())
    assert model.training
    assert torch.equal(model[1].weight.grad, torch.ones_like(model[1].weight))
    assert model[3].weight.grad is None
    assert not X.requires_grad


def test_gradients_at_a_place_inside() -> None:
    """With the last layer W after the place, the gradient there is a row of W."""
    model = member(small, 0, 0)
    at = gradients(model, torch.randn(2, 12), at=lambda x: cut_at(model, model[2], x))
    torch.testing.assert_close(at, model[3].weight.repeat(2, 1))
    twice = nn.Sequential(layer := nn.Linear(3, 3), nn.Tanh(), layer)
    with pytest.raises(ng.NetgrainError, match="called 2 times"):
        cut_at(twice, layer, torch.zeros(1, 3))


def test_mixing_and_noise_are_noticed() -> None:
    class Mixes(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x - x.mean(0)

    class Noisy(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + torch.randn_like(x)

    with pytest.raises(ng.NetgrainError, match="mixes the samples"):
        check_deterministic(Mixes(), torch.randn(3, 2))
    with pytest.raises(ng.NetgrainError, match="stochastic in eval mode"):
        check_deterministic(Noisy(), torch.randn(3, 2))


def test_outputs_that_are_not_finite_are_not_called_stochastic() -> None:
    class Blank(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * float("nan")

    check_deterministic(Blank(), torch.randn(3, 2))  # told by those who look at the gradients
    with pytest.raises(ng.NetgrainError, match=r"not finite|NaN"):
        ng.geometric_complexity(Blank(), torch.randn(3, 2))


def test_points_in_several_passes_have_the_same_gradients() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(1, 3, 3), nn.Tanh(), nn.Flatten(), nn.Linear(48, 2)).requires_grad_(False)
    X = torch.randn(5, 1, 6, 6)
    assert torch.allclose(gradients(model, X, at_once=2), gradients(model, X), rtol=1e-5, atol=1e-7)
