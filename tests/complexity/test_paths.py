"""Total variation along segments, arcs, and the flattest interpolant."""

import math
from functools import partial
from itertools import pairwise

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from netgrain.complexity import geometric_complexity
from netgrain.complexity.paths import arc_length, interpolation_minimum, path_total_variation
from netgrain.complexity.random_functions import complexity_profile
from netgrain.runtime.errors import NetgrainError


def noise(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def mlp(*sizes: int, act: type[nn.Module] = nn.Tanh, seed: int = 0) -> nn.Sequential:
    torch.manual_seed(seed)
    parts: list[nn.Module] = []
    for n_in, n_out in pairwise(sizes):
        parts += [nn.Linear(n_in, n_out), act()]
    return nn.Sequential(*parts[:-1]).double().eval()


def test_all_pairs_of_an_affine_map() -> None:
    net, X = mlp(4, 3), noise(12, 4)
    found = path_total_variation(net, X, paths=66, points=7)
    WX = X @ net[0].weight.detach().T
    pairs = torch.pdist(WX)
    assert math.isclose(found, float(pairs.mean()), rel_tol=1e-12)
    assert found.stderr == 0
    sampled = path_total_variation(net, X, paths=65, points=2)
    assert sampled.stderr > 0


def test_random_pairs_estimate_the_mean_over_all() -> None:
    net, X = mlp(4, 3), noise(40, 4)
    true = float(torch.pdist(X @ net[0].weight.detach().T).mean())
    found = [path_total_variation(net, X, paths=400, points=2, seed=seed) for seed in range(30)]
    z = np.array([(e - true) / e.stderr for e in found])
    assert np.abs(z).max() < 4
    assert abs(z.mean()) * math.sqrt(30) < 4  # a pair of a sample with itself, one in forty, would show here
    assert 0.7 < z.std() < 1.4  # standard errors are neither too small nor too large
    assert len({e.value for e in found}) == 30
    assert path_total_variation(net, X, seed=3).value == path_total_variation(net, X, seed=3).value


def test_variation_is_above_the_distance_and_grows_with_refinement() -> None:
    net = mlp(3, 20, 2)
    for p in net.parameters():
        p.data.mul_(4)
    X = noise(6, 3)
    coarse, fine, finer = (path_total_variation(net, X, points=points) for points in (2, 33, 65))
    assert math.isclose(coarse, float(torch.pdist(net(X).detach()).mean()), rel_tol=1e-9)
    assert coarse < fine < finer  # points of one are points of the next


def test_variation_of_images_by_hand() -> None:
    """f = |x₁| from −1 to 2: up and down, 3 in all, where the ends are 1 apart."""

    class Fold(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x.flatten(1)[:, :1].abs()

    X = torch.zeros(2, 1, 2, 2, dtype=torch.float64)
    X[:, 0, 0, 0] = torch.tensor([-1.0, 2.0])
    assert math.isclose(path_total_variation(Fold(), X, points=4), 3.0)


def test_bad_paths() -> None:
    net = mlp(2, 2)
    for X, options, message in (
        (noise(1, 2), {}, "two samples"),
        (noise(3, 2), {"paths": 1}, "two paths"),
        (noise(3, 2), {"points": 1}, "two points"),
        (noise(3, 2).long(), {}, "floating-point"),
    ):
        with pytest.raises(NetgrainError, match=message):
            path_total_variation(net, X, **options)


def test_arc_of_a_parabola() -> None:
    """y = x² on [0, 2]: arc √17 + ¼ asinh 4, variation 4, mean of (2x)² = 16/3."""
    found = arc_length(lambda x: x**2, 0, 2, points=4001)
    assert math.isclose(found.arc, math.sqrt(17) + math.asinh(4) / 4, rel_tol=1e-6)
    assert math.isclose(found.total_variation, 4)
    assert math.isclose(found.gc, 16 / 3, rel_tol=1e-6)


@pytest.mark.parametrize("act", [nn.ReLU, nn.Tanh])
def test_arcs_of_networks_obey_the_inequalities(act: type[nn.Module]) -> None:
    for seed in range(10):
        net = mlp(1, 30, 1, act=act, seed=seed)
        for p in net.parameters():
            p.data.mul_(3)
        found = arc_length(net, -2, 1.5, points=400)
        assert found.total_variation < found.arc < found.total_variation + 3.5
        assert found.total_variation < 3.5 * math.sqrt(found.gc)
        assert found.arc < 3.5 * math.sqrt(1 + found.gc)
        low, high = found.bounds
        assert low < found.arc < high
        # the mean squared slope is the geometric complexity on a dense grid
        X = torch.linspace(-2, 1.5, 4001, dtype=torch.float64)[:, None]
        assert math.isclose(found.gc, geometric_complexity(net, X), rel_tol=2e-2)


def test_bounds_are_equalities_for_straight_lines() -> None:
    found = arc_length(lambda x: 2 * x, 0, 3)
    assert math.isclose(found.arc, found.bounds[1])
    assert math.isclose(found.total_variation, 3 * math.sqrt(found.gc))
    flat = arc_length(lambda x: 0 * x, 0, 3)
    assert flat.arc == flat.bounds[0] == flat.bounds[1] == 3


def test_no_interpolant_is_flatter_than_straight_lines() -> None:
    x = torch.tensor([0.0, 0.5, 2.0, 3.0], dtype=torch.float64)
    y = torch.tensor([1.0, -1.0, 0.5, 0.4], dtype=torch.float64)
    least = interpolation_minimum(x.flip(0), y.flip(0))
    assert math.isclose(least, (4 / 0.5 + 2.25 / 1.5 + 0.01 / 1) / 3)
    lines = arc_length(lambda t: torch.as_tensor(np.interp(t.numpy(), x, y)), 0, 3, points=601)
    assert math.isclose(lines.gc, least, rel_tol=1e-9)
    for bump in (0.3, -0.1, 0.01):  # another function through the same points

        def other(t: Tensor, bump: float = bump) -> Tensor:
            through = torch.stack([t - c for c in x]).prod(0)
            return torch.as_tensor(np.interp(t.numpy(), x, y)) + bump * through

        assert arc_length(other, 0, 3, points=601).gc > least


def test_bad_arcs() -> None:
    with pytest.raises(NetgrainError, match="a < b"):
        arc_length(lambda x: x, 1, 0)
    with pytest.raises(NetgrainError, match="one output"):
        arc_length(mlp(1, 2), 0, 1)
    with pytest.raises(NetgrainError, match="NaN or Inf"):
        arc_length(lambda x: 1 / x, 0, 1)
    with pytest.raises(NetgrainError, match="share one x"):
        interpolation_minimum(torch.tensor([1.0, 1.0]), torch.tensor([0.0, 1.0]))
    with pytest.raises(NetgrainError, match="as many"):
        interpolation_minimum(torch.tensor([1.0, 2.0]), torch.tensor([0.0]))


def test_options_of_the_architecture() -> None:
    def last(**options: object) -> float:
        found = complexity_profile(activations=("tanh",), depths=(5,), scales=(0.5, 3.0), **options)
        low, high = found.curve("fourier", "tanh", 5)
        return high / low

    plain = last()
    assert last(norm="layer") < 0.8 * plain
    tanh = partial(complexity_profile, activations=("tanh",), depths=(5,), scales=(2.0,))
    gated, ungated = (tanh(gating=g).curve("fourier", "tanh", 5)[0] for g in (True, False))
    assert gated > ungated + 4 * math.hypot(gated.stderr, ungated.stderr)
