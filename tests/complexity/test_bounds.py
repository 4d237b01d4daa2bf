"""Lipschitz constants from below and above, bounds by weights, error certificates and neural collapse."""

import copy
import math
from collections.abc import Callable
from itertools import pairwise

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.functional import jacobian

from netgrain.complexity import geometric_complexity
from netgrain.complexity.certificates import gc_error_bound, poincare_constants
from netgrain.complexity.collapse import neural_collapse
from netgrain.complexity.lipschitz import lipschitz_profile
from netgrain.complexity.mlp_bounds import norm_bounds, transfer_inequality
from netgrain.complexity.product_bound import SLOPES, convolution_bound, product_bound
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


def dense(function: Callable[[Tensor], Tensor], shape: tuple[int, ...]) -> float:
    """Operator norm of a linear map, from its matrix."""
    eye = torch.eye(math.prod(shape), dtype=torch.float64)
    return float(torch.linalg.matrix_norm(function(eye.reshape(-1, *shape)).detach().flatten(1), ord=2))


# --- operator norms at points -----------------------------------------------------------------------------------------


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


# --- the product bound ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"padding": 1},
        {"padding": 3},
        {"padding": 1, "stride": 2},
        {"stride": 3, "padding": 2},
        {"padding": 2, "dilation": 2},
        {"padding": 1, "groups": 2},
        {"padding": "same"},
    ],
    ids=str,
)
def test_convolutions_are_bounded_and_tightly(options: dict[str, int]) -> None:
    torch.manual_seed(0)
    layer = nn.Conv2d(4, 6, 3, bias=True, **options).double()
    true = dense(lambda x: layer(x) - layer(torch.zeros_like(x)), (4, 8, 9))
    bound = product_bound(layer, noise(1, 4, 8, 9))
    assert true * (1 - 1e-9) <= bound <= 1.2 * true


def test_other_convolutions_are_bounded() -> None:
    torch.manual_seed(0)
    cases = [
        (nn.Conv1d(3, 5, 4, stride=2, padding=1), (3, 11)),
        (nn.Conv3d(2, 2, 2, padding=1), (2, 4, 3, 4)),
        (nn.ConvTranspose2d(4, 3, 3, stride=2, padding=1, output_padding=1), (4, 5, 5)),
        (nn.ConvTranspose1d(4, 4, 3, groups=2), (4, 7)),
        (nn.Conv2d(2, 3, 3, padding=1, padding_mode="circular"), (2, 5, 5)),
        (nn.Conv2d(2, 3, 3, padding=1, padding_mode="reflect"), (2, 5, 5)),
    ]
    for layer, shape in cases:
        layer = layer.double()
        true = dense(lambda x, layer=layer: layer(x) - layer(torch.zeros_like(x)), shape)
        assert true * (1 - 1e-9) <= product_bound(layer, noise(1, *shape)) <= 2.5 * true, layer


def test_on_a_torus_the_bound_is_the_norm() -> None:
    """With circular padding made by hand the Fourier blocks are the whole truth."""
    w = noise(5, 4, 3, 3)
    true = dense(lambda x: F.conv2d(F.pad(x, (1, 1, 1, 1), mode="circular"), w), (4, 8, 8))
    # a torus of 8: an image of 6 and a reach of 2
    assert math.isclose(convolution_bound(w, (6, 6), stride=(1, 1), dilation=(1, 1)), true, rel_tol=1e-3)
    strided = dense(lambda x: F.conv2d(F.pad(x, (1, 1, 1, 1), mode="circular"), w, stride=2), (4, 8, 8))
    assert math.isclose(convolution_bound(w, (6, 6), stride=(2, 2), dilation=(1, 1)), strided, rel_tol=1e-3)


def test_linear_pools_are_bounded_and_exactly_where_windows_do_not_overlap() -> None:
    for layer, exact in [
        (nn.AvgPool2d(2), True),
        (nn.AvgPool2d(3, stride=1, padding=1), False),
        (nn.AdaptiveAvgPool2d(1), True),
        (nn.AdaptiveAvgPool2d(4), False),
        (nn.Upsample(scale_factor=2), True),
        (nn.ZeroPad2d(2), True),
        (nn.ReplicationPad2d(1), False),
    ]:
        true = dense(layer, (2, 6, 6))
        bound = product_bound(layer, noise(1, 2, 6, 6))
        assert true * (1 - 1e-9) <= bound <= 2 * true, layer
        assert not exact or math.isclose(bound, true), layer


def test_max_pools_count_windows() -> None:
    x = noise(1, 1, 6, 6)
    assert product_bound(nn.MaxPool2d(2), x) == 1
    assert product_bound(nn.MaxPool2d(3, stride=1), x) == 3
    assert product_bound(nn.MaxPool2d(3, stride=2, padding=1), x) == 2
    # one peak moves all windows that it is in
    layer, peak = nn.MaxPool2d(3, stride=1), torch.zeros(1, 1, 6, 6)
    peak[..., 2, 2] = 1
    assert float((layer(peak) - layer(torch.zeros_like(peak))).norm()) == 3


@pytest.mark.parametrize("name", sorted({*SLOPES} - {"neg", "abs"}))
def test_slopes_of_activations(name: str) -> None:
    function = getattr(F, name, None) or getattr(torch, name)
    x = torch.linspace(-40, 40, 400_001, dtype=torch.float64, requires_grad=True)
    (slope,) = torch.autograd.grad(function(x).sum(), x)
    assert float(slope.abs().max()) <= SLOPES[name] * (1 + 1e-7) <= 1.001 * float(slope.abs().max())


def test_batch_norm_dropout_and_slopes_with_options() -> None:
    norm = nn.BatchNorm1d(2).double().eval()
    norm.running_var.copy_(torch.tensor([4.0, 1.0]))
    norm.weight.data.copy_(torch.tensor([-8.0, 3.0]))
    assert math.isclose(product_bound(norm, noise(1, 2)), 4.0, rel_tol=1e-5)
    assert product_bound(nn.LeakyReLU(-3.0), noise(1, 2)) == 3
    assert product_bound(nn.ELU(2.5), noise(1, 2)) == 2.5
    assert product_bound(nn.Dropout(0.5).eval(), noise(1, 2)) == 1


class Branches(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(3, 3, bias=False), nn.Linear(3, 3, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([x + 2 * self.a(x), x - self.b(x) / 4 + 1], 1)


def test_sums_add_and_concatenations_square() -> None:
    net = Branches().double()
    net.a.weight.data.copy_(5 * torch.eye(3))
    net.b.weight.data.copy_(8 * torch.eye(3))
    assert math.isclose(product_bound(net, noise(1, 3)), math.hypot(11, 3))
    assert math.hypot(11, 1) <= math.hypot(11, 3)  # the truth: x + 10x and x − 2x


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


# --- bounds for multilayer perceptrons --------------------------------------------------------------------------------

FIFTY = [
    (act, depth, seed)
    for seed in range(9)
    for act in (nn.ReLU, nn.Tanh)
    for depth in (1, 2, 3)
    if (seed, depth) not in ((8, 1), (8, 2))
]


def test_fifty_random_networks_obey_every_bound() -> None:
    assert len(FIFTY) == 50
    slacks = []
    for act, depth, seed in FIFTY:
        widths = torch.randint(3, 12, (depth,), generator=torch.Generator().manual_seed(seed)).tolist()
        net, X = mlp(5, *widths, 4, act=act, seed=seed), noise(6, 5, seed=seed)
        bounds = norm_bounds(net, X)
        assert 0 < bounds.gc <= bounds.frobenius <= bounds.mean_power
        assert bounds.gc <= bounds.spectral
        sides = transfer_inequality(net, X)
        assert bool((sides.left <= sides.right).all())
        assert sides.holds
        torch.testing.assert_close(sides.jacobian, jacobians(net, X).square().sum((1, 2)))
        slacks.append(sides.slack[sides.jacobian > 0])
    slack = torch.cat(slacks)
    assert float(slack.min()) >= 1
    assert 4 < float(slack.median()) < 30  # the spec's own networks: 9.6


@pytest.mark.parametrize("bias", [True, False])
def test_the_right_side_is_the_parameter_gradient(bias: bool) -> None:
    net, X = mlp(4, 6, 5, 3, act=nn.Tanh, bias=bias), noise(3, 4)
    sides = transfer_inequality(net, X)
    for x, right in zip(X, sides.right, strict=True):
        rows = [torch.autograd.grad(net(x[None])[0, c], list(net.parameters())) for c in range(3)]
        assert math.isclose(sum(float(g.square().sum()) for row in rows for g in row), float(right), rel_tol=1e-10)


def test_the_left_side_by_hand() -> None:
    """One hidden unit: every factor is a number."""
    net = mlp(1, 1, 1, act=nn.Tanh)
    for p, value in zip(net.parameters(), (2.0, 0.5, 3.0, 0.0), strict=True):
        p.data.fill_(value)
    x = 0.3
    h = math.tanh(2 * x + 0.5)
    slope = 2 * (1 - h**2)
    left = (3 * slope) ** 2 * ((1 + x**2) / 4 + (1 + h**2) / (9 * slope**2))
    sides = transfer_inequality(net, torch.tensor([[x]], dtype=torch.float64))
    assert math.isclose(float(sides.left[0]), left, rel_tol=1e-10)


def test_norm_bounds_are_reached() -> None:
    """Rank-one layers that fit together: Frobenius is an equality, and so is its mean where norms agree."""
    net = mlp(2, 2, 2, bias=False)
    for p in net.parameters():
        p.data.copy_(torch.tensor([[2.0, 0.0], [0.0, 0.0]]))
    bounds = norm_bounds(net, torch.ones(1, 2, dtype=torch.float64))
    assert bounds.gc == bounds.frobenius == bounds.mean_power == 16
    assert math.isclose(bounds.spectral, 32)
    for p in net.parameters():
        p.data.copy_(3 * torch.eye(2))
    bounds = norm_bounds(net, torch.ones(1, 2, dtype=torch.float64))
    assert math.isclose(bounds.gc, 162)
    assert math.isclose(bounds.spectral, 162)


def test_steep_activations_enter_the_norm_bounds() -> None:
    class Steep(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return F.leaky_relu(x, 5.0)

    net = nn.Sequential(nn.Linear(1, 1, bias=False), Steep(), nn.Linear(1, 1, bias=False)).double()
    for p in net.parameters():
        p.data.fill_(1.0)
    bounds = norm_bounds(net, -torch.ones(1, 1, dtype=torch.float64))
    assert bounds.gc == 25 == bounds.frobenius


def test_only_chains_have_norm_bounds() -> None:
    x = noise(2, 3)
    with pytest.raises(NetgrainError, match="expected a multilayer perceptron"):
        norm_bounds(Branches().double(), x)
    with pytest.raises(NetgrainError, match="expected a multilayer perceptron"):
        transfer_inequality(nn.Sequential(nn.Linear(3, 3), nn.LayerNorm(3)).double(), x)
    shared = nn.Linear(3, 3).double()
    with pytest.raises(NetgrainError, match="shared"):
        transfer_inequality(nn.Sequential(shared, nn.ReLU(), shared), x)


# --- error certificates -----------------------------------------------------------------------------------------------

CENTRES = 4 * torch.tensor([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]], dtype=torch.float64)
SPREADS = torch.tensor([0.6, 0.9, 0.7], dtype=torch.float64)  # the largest standard deviation of each class


def gaussian_classes(n: int, seed: int) -> tuple[Tensor, Tensor]:
    """Three Gaussian classes in three dimensions, each narrower along two axes."""
    y = torch.arange(3).repeat_interleave(n)
    shape = torch.tensor([[1.0, 0.5, 0.5], [0.5, 1.0, 0.5], [0.5, 0.5, 1.0]], dtype=torch.float64)
    return CENTRES[y] + noise(3 * n, 3, seed=seed) * shape[y] * SPREADS[y, None], y


def classifier(seed: int = 0) -> nn.Module:
    """A small smooth network trained on the three classes."""
    X, y = gaussian_classes(100, seed=100 + seed)
    net = mlp(3, 16, 3, act=nn.Tanh, seed=seed)
    optimiser = torch.optim.Adam(net.parameters(), lr=0.05, weight_decay=1e-2)
    for _ in range(60):
        optimiser.zero_grad()
        F.cross_entropy(net(X), y).backward()
        optimiser.step()
    return net.eval()


def test_certificate_holds_on_fresh_samples_and_says_something() -> None:
    net = classifier()
    found = gc_error_bound(net, *gaussian_classes(500, seed=1), poincare=dict(enumerate((SPREADS**2).tolist())))
    X, y = gaussian_classes(40_000, seed=2)
    with torch.no_grad():
        z = net(X)
    own = F.one_hot(y, 3).bool()
    margin = z[own] - z.masked_fill(own, -math.inf).amax(1)
    for c in found.classes:
        m = margin[y == c.label]
        assert c.slope <= 2 * c.gc
        assert float(m.var()) <= c.poincare * c.slope
        assert float((m <= 0).double().mean()) <= c.sharp <= c.bound <= c.pessimistic < 0.6
        assert abs(c.margin - float(m.mean())) < 4 * c.margin.stderr
    assert found.vacuous == ()
    assert found.bound < 0.4


def test_certificate_is_sharp_for_a_linear_margin() -> None:
    """f = (x, −x), class 0 ~ N(μ, s²): Var m = c_P E‖∇m‖² = 4s², so the bound is Cantelli's with the true variance."""
    net = nn.Linear(1, 2, bias=False).double()
    net.weight.data.copy_(torch.tensor([[1.0], [-1.0]]))
    X = 3 + 2 * noise(2000, 1)
    found = gc_error_bound(net, X, torch.zeros(2000, dtype=torch.long), poincare=4.0).classes[0]
    assert math.isclose(found.gc, 2)
    assert math.isclose(found.slope, 4)
    assert math.isclose(found.bound, 16 / (16 + found.margin**2))
    assert abs(found.margin - 6) < 4 * found.margin.stderr
    assert math.isclose(found.sharp, found.bound)


def test_limits_cover_the_truth_in_most_samples() -> None:
    """The pessimistic bound is above the one of the whole population in 95 % of small samples."""
    net, constants = classifier(), dict(enumerate((SPREADS**2).tolist()))
    truth = gc_error_bound(net, *gaussian_classes(30_000, seed=3), poincare=constants).classes
    samples = [gc_error_bound(net, *gaussian_classes(50, seed=1000 + s), poincare=constants) for s in range(100)]
    pairs = [(c, t) for sample in samples for c, t in zip(sample.classes, truth, strict=True)]
    assert sum(c.pessimistic >= t.bound for c, t in pairs) > 300 * (0.95 - 4 * math.sqrt(0.95 * 0.05 / 300))
    assert sum(c.bound >= t.bound for c, t in pairs) < 200  # the estimate itself is no such limit


def test_vacuous_certificates_say_so() -> None:
    net = classifier()
    X, y = gaussian_classes(50, seed=1)
    found = gc_error_bound(net, X, (y + 1) % 3, poincare=1.0)
    assert found.vacuous == (0, 1, 2)
    assert found.bound == 1 == found.pessimistic
    assert found.error == 1
    assert "vacuous for 3 of 3" in repr(found)


def test_poincare_constants() -> None:
    X, y = gaussian_classes(20_000, seed=4)
    found, assumption = poincare_constants(X, y, "gaussian")
    for c, spread in enumerate(SPREADS.tolist()):
        assert abs(found[c] / spread**2 - 1) < 4 * math.sqrt(2 / 20_000)
    assert "Gaussian" in assumption
    assert "Gaussian" in repr(gc_error_bound(classifier(), X[::200], y[::200]))
    assert poincare_constants(X, y, 2.0)[0] == {0: 2.0, 1: 2.0, 2: 2.0}


def test_gaussian_poincare_is_an_equality_for_the_leading_direction() -> None:
    X = noise(100_000, 3) * torch.tensor([2.0, 1.0, 0.5], dtype=torch.float64)
    for w, equal in (([1.0, 0, 0], True), ([1.0, 1.0, 1.0], False)):
        f = X @ torch.tensor(w, dtype=torch.float64)
        bound = 4 * sum(v**2 for v in w)
        assert (abs(float(f.var()) / bound - 1) < 4 * math.sqrt(2 / 100_000)) == equal
        assert float(f.var()) < bound * 1.02


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"poincare": 0.0}, "above zero"),
        ({"poincare": {0: 1.0}}, "no constant for class 1"),
        ({"poincare": "log-concave"}, "found 'log-concave'"),
    ],
)
def test_bad_constants(options: dict[str, object], message: str) -> None:
    X, y = gaussian_classes(5, seed=0)
    with pytest.raises(NetgrainError, match=message):
        gc_error_bound(mlp(3, 3), X, y, **options)


def test_certificates_refuse_one_output_and_single_samples() -> None:
    X, y = gaussian_classes(1, seed=0)
    with pytest.raises(NetgrainError, match="two outputs"):
        gc_error_bound(mlp(3, 1), X, y * 0)
    with pytest.raises(NetgrainError, match="one sample"):
        gc_error_bound(mlp(3, 3), X, y)
    with pytest.raises(NetgrainError, match="labels run"):
        gc_error_bound(mlp(3, 2), X, y)


# --- neural collapse --------------------------------------------------------------------------------------------------


def test_collapse_against_a_slow_loop() -> None:
    net = classifier()
    X, y = gaussian_classes(30, seed=5)
    X, y = X[10:], y[10:]  # classes of different size
    found = neural_collapse(net, X, y, "1", poincare={0: 1.0, 1: 2.0, 2: 3.0})
    phi = net[:2](X).detach()
    means = [phi[y == c].mean(0) for c in range(3)]
    variances = [float((phi[y == c] - means[c]).square().sum(1).mean()) for c in range(3)]
    steep = [float(jacobians(net[:2], X[y == c]).square().sum((1, 2)).mean()) for c in range(3)]
    for i in range(3):
        for j in range(3):
            distance = float((means[i] - means[j]).square().sum())
            cdnv = 0 if i == j else (variances[i] + variances[j]) / (2 * distance)
            collapse = 0 if i == j else ((i + 1) * steep[i] + (j + 1) * steep[j]) / (2 * distance)
            assert math.isclose(float(found.pairs_cdnv[i, j]), cdnv, abs_tol=1e-12)
            assert math.isclose(float(found.pairs_geometric[i, j]), collapse, abs_tol=1e-12)
        bound = sum(4 * variances[i] / float((means[i] - m).square().sum()) for j, m in enumerate(means) if j != i)
        assert math.isclose(float(found.class_bound[i]), min(1.0, bound))
    assert math.isclose(found.cdnv, float(found.pairs_cdnv.sum()) / 6)
    assert math.isclose(found.embedding_gc, float(jacobians(net[:2], X).square().sum((1, 2)).mean()))
    nearest = torch.stack([(phi - m).norm(dim=1) for m in means]).argmin(0)
    assert math.isclose(found.ncc_accuracy, float((nearest == y).double().mean()))


def test_collapse_is_below_geometric_collapse_for_gaussian_classes() -> None:
    constants = dict(enumerate((SPREADS**2).tolist()))
    X, y = gaussian_classes(4000, seed=6)
    for seed, layer in ((0, "0"), (0, "1"), (1, "1"), (2, None)):
        found = neural_collapse(classifier(seed), X, y, layer, poincare=constants)
        off = ~torch.eye(3, dtype=torch.bool)
        assert bool((found.pairs_cdnv < found.pairs_geometric)[off].all())
        assert 0 < found.cdnv < found.geometric_collapse
    # a linear map along the widest axis of isotropic classes: equality
    line = nn.Linear(1, 1).double()
    X = torch.cat([noise(50_000, 1, seed=7), 10 + noise(50_000, 1, seed=8)])
    found = neural_collapse(line, X, torch.arange(2).repeat_interleave(50_000), None, poincare=1.0)
    assert abs(found.cdnv / found.geometric_collapse - 1) < 4 * math.sqrt(2 / 100_000)


def test_chebyshev_holds_on_every_sample() -> None:
    for seed in range(10):
        X, y = noise(60, 2, seed=seed), torch.arange(60) % 3
        X = X + 2.5 * torch.tensor([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]], dtype=torch.float64)[y] * (1 + seed)
        found = neural_collapse(mlp(2, 6, 4, seed=seed), X, y, "0")
        assert bool((found.class_error <= found.class_bound).all())
        assert 1 - found.ncc_accuracy <= found.chebyshev_bound
    assert found.chebyshev_bound < 0.5  # not by saying nothing


def test_collapse_of_what_is_no_classification() -> None:
    X, y = gaussian_classes(3, seed=0)
    with pytest.raises(NetgrainError, match="two classes"):
        neural_collapse(mlp(3, 3), X, y * 0, None)
    with pytest.raises(NetgrainError, match="same mean"):
        neural_collapse(mlp(3, 3), X[:1].expand(9, 3), y, None)
    with pytest.raises(NetgrainError, match="layer"):
        neural_collapse(mlp(3, 3), X, y, "head")


# --- manners ----------------------------------------------------------------------------------------------------------


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
