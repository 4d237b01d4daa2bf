"""A last layer with a symmetric law: members with ω and −ω count together, and labels drop out."""

import re
from collections.abc import Callable
from functools import partial

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from netgrain.families.members import member
from netgrain.families.probes import Data, Gaussian
from netgrain.families.reading import read
from netgrain.families.reasons import Reason
from netgrain.runtime.errors import NetgrainError
from netgrain.training.evolution import average_evolution, evolution_of
from netgrain.training.last_layer import head_or_reason


def _random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def arbitrary(mean: float = 0.0) -> nn.Module:
    """Convolutions, a skip, a normalisation, several outputs: nothing but the last layer matters here."""

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Conv2d(1, 3, 3, padding=1), nn.Conv2d(3, 3, 3, padding=1)
            self.norm, self.head = nn.LayerNorm(27), nn.Linear(27, 3)
            with torch.no_grad():
                self.head.weight += mean

        def forward(self, x: Tensor) -> Tensor:
            h = F.gelu(self.a(x))
            return self.head(self.norm((h + torch.sin(self.b(h))).flatten(1)))

    return Net().double()


IMAGES, LABELS = _random(7, 1, 3, 3, seed=7), torch.tensor([0, 1, 2, 2, 1, 0, 1])


def _with_opposite_heads(make: Callable[[], nn.Module], count: int) -> list[nn.Module]:
    models = []
    for i in range(count):
        for sign in (1, -1):
            model = member(make, 0, i)
            model.head.weight.mul_(sign)
            models.append(model)
    return models


def test_labels_drop_out_of_pairs_of_heads() -> None:
    probe = Gaussian(1.0)
    models = _with_opposite_heads(arbitrary, 2)
    targets = [_random(7, 3, seed=seed) for seed in (8, 9)]

    def deltas(chosen: list[nn.Module]) -> list[Tensor]:
        points = Data(probe.points((1, 3, 3), 4, 0).double())
        return [evolution_of(chosen, IMAGES, t, points).matrix() for t in targets]

    one, other = deltas(models[:1])
    assert float((one - other).norm()) > 0.1 * float(one.norm())
    one, other = deltas(models)
    assert float((one - other).norm()) < 1e-12 * float(one.norm())


def test_antithetic_heads_are_the_mean_of_both_members() -> None:
    points = Data(_random(3, 1, 3, 3, seed=10))
    for loss, y in (("sse", _random(7, 3, seed=8)), ("cross-entropy", LABELS)):
        found = average_evolution(arbitrary, IMAGES, y, loss=loss, members=3, probe=points)
        pairs = evolution_of(_with_opposite_heads(arbitrary, 3), IMAGES, y, points, loss=loss)
        assert float((found.matrix() - pairs.matrix()).norm()) < 1e-12 * float(pairs.matrix().norm())
        assert found.about.averaged.startswith("antithetic heads ('head', uniform in")
        assert found.labels_used == (loss != "sse")


def test_a_head_with_a_mean_keeps_its_labels() -> None:
    make = partial(arbitrary, 0.3)
    found = [average_evolution(make, IMAGES, _random(7, 3, seed=s), members=40, probe=Gaussian(1.0)) for s in (8, 9)]
    assert all(e.labels_used and "do not have mean zero" in e.about.averaged for e in found)
    assert float((found[0].matrix() - found[1].matrix()).norm()) > 0.1 * float(found[0].matrix().norm())
    with pytest.raises(NetgrainError, match=r"labels y are needed: they do not drop out here \('head': its weights"):
        average_evolution(make, IMAGES, members=4)


def test_pairs_of_heads_reduce_the_noise() -> None:
    y = 3 * _random(7, 3, seed=8)
    with_pairs = average_evolution(arbitrary, IMAGES, y, members=30, probe=Gaussian(1.0))
    without = average_evolution(arbitrary, IMAGES, y, members=30, probe=Gaussian(1.0), antithetic=False)
    assert float(with_pairs.errors().norm()) < 0.5 * float(without.errors().norm())


class Around(nn.Module):
    """x reaches the output around the last layer."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.head = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(torch.tanh(self.inner(x))) + x


def skewed() -> nn.Module:
    net = nn.Sequential(nn.Linear(4, 40), nn.Tanh(), nn.Linear(40, 4, bias=False))
    with torch.no_grad():
        net[2].weight.copy_(-torch.rand(4, 40).log() - 1)
    return net


NO_HEADS = {
    "not linear in the weight of '0'": lambda: nn.Sequential(nn.Linear(4, 4), nn.Softplus()),
    "x also reaches the output around 'head'": Around,
    "not linear in the weight of '0' \\(layer_norm in '1'": lambda: nn.Sequential(
        nn.Linear(4, 4), nn.LayerNorm(4, 1e9)
    ),
    "a skewed law": skewed,
    "weights are correlated|not random|same variance": lambda: nn.Sequential(
        nn.Linear(4, 5), nn.Tanh(), nn.utils.parametrizations.orthogonal(nn.Linear(5, 4))
    ),
}


@pytest.mark.quick
@pytest.mark.parametrize("reason", NO_HEADS)
def test_what_is_not_a_symmetric_head_is_said(reason: str) -> None:
    found = head_or_reason(read(NO_HEADS[reason], (4,)), "all", antithetic=None)
    assert isinstance(found, Reason)
    assert re.search(reason, str(found)) or found.kind == "computed weight"
