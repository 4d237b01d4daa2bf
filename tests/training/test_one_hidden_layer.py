"""One hidden layer under SSE, averaged over all output weights: equal to the mean over every one of them."""

import itertools
import math
from functools import partial

import pytest
import torch
from torch import Tensor, nn

from netgrain.families.members import member
from netgrain.families.outputs import Output
from netgrain.families.probes import Data
from netgrain.families.reading import read
from netgrain.training.evolution import average_evolution, evolution_of
from netgrain.training.last_layer import Head, head_or_reason
from netgrain.training.one_hidden_layer import _moments, find_shallow


def _random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


X, POINTS = _random(6, 4, seed=1), _random(3, 4, seed=3)


def two_signs(relu: bool) -> nn.Module:
    """One hidden layer with biases, its output weights ±0.7 with equal chances."""
    net = nn.Sequential(nn.Linear(4, 2), nn.ReLU() if relu else nn.Identity(), nn.Linear(2, 3)).double()
    with torch.no_grad():
        net[2].weight.copy_(0.7 * net[2].weight.sign())
    return net


@pytest.mark.quick
@pytest.mark.parametrize("relu", [True, False])
@pytest.mark.parametrize("output", ["all", 1, "mean", ("diff", 0, 1)])
def test_integrated_heads_are_the_mean_over_all_heads(relu: bool, output: Output) -> None:
    make = partial(two_signs, relu)
    heads = []
    for signs in itertools.product((0.7, -0.7), repeat=6):
        heads.append(member(make, 0, 0))
        heads[-1][2].weight.copy_(torch.tensor(signs).reshape(3, 2))
    every = evolution_of(heads, X, _random(6, 3, seed=2), Data(POINTS), output=output)
    model = member(make, 0, 0)
    shallow = find_shallow(read(make, (4,)), Head("2", ""), output)
    assert shallow is not None
    assert shallow.relu == relu
    moving = [name for name, _ in model.named_parameters()]
    a, b = shallow.rows(model, X, POINTS, output, moving)
    torch.testing.assert_close(b.T @ a / 3, every.M)
    torch.testing.assert_close(a.T @ a / 3, every.G.matrix())
    for name in ("0.weight", "2.weight"):  # one layer held fixed
        for head in heads:
            for n, p in head.named_parameters():
                p.requires_grad_(n != name)
        held = evolution_of(heads, X, _random(6, 3, seed=2), Data(POINTS), output=output).M
        a, b = shallow.rows(model, X, POINTS, output, [n for n in moving if n != name])
        torch.testing.assert_close(b.T @ a / 3, held)


def test_moments_of_output_weights_are_unbiased() -> None:
    drawn = torch.tensor([_moments(omega) for omega in 2 * _random(3000, 1, 3)])
    for found, truth in zip(drawn.T, (4.0, 16.0, 48.0), strict=True):  # σ², σ⁴, 3σ⁴
        assert abs(float(found.mean()) - truth) < 4 * float(found.std()) / math.sqrt(3000)


class Sorted(nn.Module):
    """Two linear layers, and something else before them."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.head = nn.Linear(4, 5), nn.Linear(5, 2)

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.head(self.first(x.flip(1)).relu())
        return found


OTHERS = {
    "three layers": lambda: nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 3), nn.ReLU(), nn.Linear(3, 2)),
    "another activation": lambda: nn.Sequential(nn.Linear(4, 5), nn.LeakyReLU(), nn.Linear(5, 2)),
    "rearranged": Sorted,
    "tokens": lambda: nn.Sequential(nn.Unflatten(1, (2, 2)), nn.Linear(2, 5), nn.ReLU(), nn.Linear(5, 2), nn.Flatten()),
}


@pytest.mark.parametrize("name", OTHERS)
def test_what_is_not_one_hidden_layer(name: str) -> None:
    reading = read(OTHERS[name], (4,))
    head = head_or_reason(reading, "all", antithetic=None)
    assert isinstance(head, Head), head
    assert find_shallow(reading, head, "all") is None


def test_what_is_not_one_hidden_layer_is_not_integrated() -> None:
    def make() -> nn.Module:
        return nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 2)).double()

    found = average_evolution(make, X, _random(6, 2, seed=2), members=2)
    assert found.about.averaged.startswith("antithetic")
