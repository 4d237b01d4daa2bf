"""How steep a network is: operator norms at points, and the Lipschitz constant from below and above."""

import copy
import math
from collections.abc import Callable
from itertools import pairwise

import pytest
import torch
from torch import Tensor, nn
from torch.autograd.functional import jacobian

from netgrain.complexity import geometric_complexity
from netgrain.complexity.certificates import gc_error_bound
from netgrain.complexity.collapse import neural_collapse
from netgrain.complexity.lipschitz import lipschitz_profile
from netgrain.models import VGG11, LeNet, ResNet18, ViT
from netgrain.runtime.errors import NetgrainError

ROUNDING = 1 + 1e-6  # float32 gradients


def noise(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def mlp(*sizes: int, act: type[nn.Module] = nn.ReLU, seed: int = 0, bias: bool = True) -> nn.Sequential:
    torch.manual_seed(seed)
    parts: list[nn.Module] = []
    for n_in, n_out in pairwise(sizes):
        parts += [nn.Linear(n_in, n_out, bias=bias), act()]
    return nn.Sequential(*parts[:-1]).double().eval()


def jacobians(net: nn.Module, X: Tensor) -> Tensor:
    """(n, k, d), by torch's own reverse mode."""
    return torch.stack([jacobian(lambda x: net(x[None])[0].flatten(), x).reshape(-1, x.numel()) for x in X])


def test_exact_norms_are_those_of_the_jacobians() -> None:
    net, X = mlp(6, 9, 4, act=nn.Tanh), noise(7, 6)
    found = lipschitz_profile(net, X)
    J = jacobians(net, X)
    torch.testing.assert_close(found.norms, torch.linalg.matrix_norm(J, ord=2))
    assert found.method == "exact"
    assert math.isclose(found.frob**2, float(J.square().sum((1, 2)).mean()))
    G = torch.einsum("nki,nkj->ij", J, J) / len(J)
    assert math.isclose(found.effective_rank, float(G.trace() ** 2 / G.square().sum()), rel_tol=1e-9)
    assert math.isclose(found.mean_op, float(found.norms.mean()))


@pytest.mark.parametrize("act", [nn.ReLU, nn.Tanh, nn.GELU])
def test_power_iteration_reaches_the_norm_from_below(act: type[nn.Module]) -> None:
    net, X = mlp(8, 30, 20, act=act), noise(9, 8)
    true = torch.linalg.matrix_norm(jacobians(net, X), ord=2)
    short = lipschitz_profile(net, X, steps=2)
    full = lipschitz_profile(net, X, steps=500, tol=1e-9)
    assert full.method == "power"
    assert short.steps == 2
    assert short.unconverged > 0 == full.unconverged
    assert bool((short.norms < true).all())
    assert bool((full.norms <= true * (1 + 1e-12)).all())
    torch.testing.assert_close(full.norms, true, rtol=1e-4, atol=0)


def test_power_iteration_of_a_point_does_not_depend_on_the_others() -> None:
    net, X = mlp(5, 12, 18), noise(10, 5)
    together, few = (lipschitz_profile(net, X, batch=batch, seed=3) for batch in (256, 3))
    torch.testing.assert_close(together.norms, few.norms, rtol=1e-12, atol=0)
    assert together.steps == few.steps
    assert not torch.equal(together.norms, lipschitz_profile(net, X, seed=4).norms)


def test_effective_rank_from_probes() -> None:
    net, X = mlp(30, 40, 20, act=nn.Tanh), noise(20, 30)
    J = jacobians(net, X)
    G = torch.einsum("nki,nkj->ij", J, J) / len(J)
    true = float(G.trace() ** 2 / G.square().sum())
    found = [lipschitz_profile(net, X, method="power", steps=1, seed=seed).effective_rank for seed in range(20)]
    assert all(abs(rank - true) < 5 * rank.stderr < 2.5 * rank for rank in found)
    inverse = torch.tensor([1 / rank for rank in found])  # ‖G‖² over (tr G)²: the first is what probes estimate
    assert abs(float(inverse.mean()) - 1 / true) < 4 * float(inverse.std()) / math.sqrt(20) < 0.4 / true


def test_relations_between_norms() -> None:
    for seed in range(10):
        net, X = mlp(5, 8, 3, seed=seed), noise(6, 5, seed=seed)
        found = lipschitz_profile(net, X)
        gc = geometric_complexity(net, X).value
        assert found.upper_product is not None
        assert float(found.norms.square().mean()) <= gc * ROUNDING
        assert gc <= 3 * found.lower_max**2 * ROUNDING
        assert gc <= 3 * found.upper_product**2 * ROUNDING
        assert 1 <= found.stable_rank * ROUNDING <= 3 * ROUNDING**2


def test_a_constant_function_has_norm_zero() -> None:
    net = mlp(3, 4, 2)
    net[-1].weight.data.zero_()
    for method in ("exact", "power"):
        found = lipschitz_profile(net, noise(3, 3), method=method)
        assert found.lower_max == 0 == found.upper_product
        assert found.unconverged == 0
        assert math.isnan(found.effective_rank)


@pytest.mark.parametrize(
    ("make", "options"),
    [(LeNet, {"width": 0.5}), (ResNet18, {"width": 1 / 16, "norm": "batch"}), (VGG11, {"width": 1 / 16})],
)
def test_lower_below_upper_for_image_networks(make: Callable[..., nn.Module], options: dict[str, object]) -> None:
    torch.manual_seed(0)
    net = make(channels=1, activation="gelu", **options).eval()
    X = noise(4, 1, 32, 32, dtype=torch.float32)
    found = lipschitz_profile(net, X)
    assert found.upper_product is not None, found.reason
    assert 0 < found.lower_max <= found.upper_product
    # differences of outputs are bounded too, far away from each other
    with torch.no_grad():
        rise = (net(X) - net(-3 * X)).norm(dim=1) / (4 * X).flatten(1).norm(dim=1)
    assert float(rise.max()) <= found.upper_product


@pytest.mark.parametrize("act", [nn.ReLU, nn.Tanh, nn.GELU, nn.SiLU, nn.Sigmoid])
def test_lower_true_upper(act: type[nn.Module]) -> None:
    for seed in range(4):
        net, X = mlp(4, 7, 6, 3, act=act, seed=seed), 3 * noise(50, 4, seed=seed)
        found = lipschitz_profile(net, X)
        assert found.upper_product is not None
        assert found.lower_max <= found.upper_product
        with torch.no_grad():
            rise = torch.cdist(net(X), net(X)) / torch.cdist(X, X).fill_diagonal_(1)
        assert float(rise.max()) <= found.upper_product


def test_without_a_rule_the_reason_is_told() -> None:
    torch.manual_seed(0)
    net = ViT(channels=1, image_size=8, width=0.125).eval()
    found = lipschitz_profile(net, noise(2, 1, 8, 8, dtype=torch.float32))
    assert found.upper_product is None
    assert "no product bound" in found.reason
    assert "unknown" in repr(found)
    assert found.lower_max > 0


CENTRES = 4 * torch.tensor([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]], dtype=torch.float64)


SPREADS = torch.tensor([0.6, 0.9, 0.7], dtype=torch.float64)  # the largest standard deviation of each class


def gaussian_classes(n: int, seed: int) -> tuple[Tensor, Tensor]:
    """Three Gaussian classes in three dimensions, each narrower along two axes."""
    y = torch.arange(3).repeat_interleave(n)
    shape = torch.tensor([[1.0, 0.5, 0.5], [0.5, 1.0, 0.5], [0.5, 0.5, 1.0]], dtype=torch.float64)
    return CENTRES[y] + noise(3 * n, 3, seed=seed) * shape[y] * SPREADS[y, None], y


def test_models_and_generators_are_left_as_found() -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 3)).double().eval()
    net(noise(2, 3)).sum().backward()
    before = copy.deepcopy(net)
    grads = [p.grad.clone() for p in net.parameters()]
    state = torch.get_rng_state()
    X, y = gaussian_classes(5, seed=0)
    lipschitz_profile(net, X, method="power")
    gc_error_bound(net, X, y)
    neural_collapse(net, X, y, "2")
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(a, b) for a, b in zip(net.state_dict().values(), before.state_dict().values(), strict=True))
    assert all(torch.equal(p.grad, g) for p, g in zip(net.parameters(), grads, strict=True))
    assert all(p.requires_grad for p in net.parameters())
    assert not any(m._forward_hooks or m.training for m in net.modules())
    net.train()
    for call in (lambda: lipschitz_profile(net, X), lambda: gc_error_bound(net, X, y)):
        with pytest.raises(NetgrainError, match="train mode"):
            call()


def test_bad_options() -> None:
    net, X = mlp(3, 3), noise(2, 3)
    for options, message in (({"steps": 0}, "one step"), ({"tol": 2.0}, "tol"), ({"method": "exakt"}, "mean 'exact'")):
        with pytest.raises(NetgrainError, match=message):
            lipschitz_profile(net, X, **options)
