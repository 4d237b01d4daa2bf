"""Paths and arcs, random networks, and the local learning coefficient."""

import copy
import math
import time
import warnings
from functools import partial
from itertools import pairwise

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from netgrain.complexity import geometric_complexity
from netgrain.complexity.learning_coefficient import local_learning_coefficient
from netgrain.complexity.paths import arc_length, interpolation_minimum, path_total_variation
from netgrain.complexity.random_functions import MEASURES, _Points, _Stack, _uniform, _words, complexity_profile
from netgrain.runtime.errors import GrainWarning, NetgrainError


def noise(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def mlp(*sizes: int, act: type[nn.Module] = nn.Tanh, seed: int = 0) -> nn.Sequential:
    torch.manual_seed(seed)
    parts: list[nn.Module] = []
    for n_in, n_out in pairwise(sizes):
        parts += [nn.Linear(n_in, n_out), act()]
    return nn.Sequential(*parts[:-1]).double().eval()


# --- paths ------------------------------------------------------------------------------------------------------------


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


# --- arcs -------------------------------------------------------------------------------------------------------------


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


# --- random networks --------------------------------------------------------------------------------------------------


def measured(function: str) -> dict[str, float]:
    """The five measures of a known function."""
    table = {
        "cosine": lambda x: torch.cos(3 * torch.pi * (x[..., 0] + 1) / 2),  # three half waves along x₁
        "chebyshev": lambda x: 4 * x[..., 0] ** 3 - 3 * x[..., 0] + 0 * x[..., 1],  # T₃
        "mixed": lambda x: torch.cos(torch.pi * (x[..., 0] + 1) / 2) * torch.cos(torch.pi * (x[..., 1] + 1)),
        "sine": lambda x: torch.sin(2 * torch.pi * x[..., 0] + 4 * torch.pi * x[..., 1]),
        "line": lambda x: 3 * x[..., 0] + 100,
    }
    return {name: float(v[0]) for name, v in zip(MEASURES, _Points(32, 0).measures(table[function]), strict=True)}


def test_measures_of_known_functions() -> None:
    assert math.isclose(measured("cosine")["fourier"], 3, rel_tol=1e-3)
    assert math.isclose(measured("chebyshev")["chebyshev"], 3, rel_tol=1e-3)
    assert math.isclose(measured("mixed")["fourier"], math.hypot(1, 2), rel_tol=1e-3)
    assert math.isclose(measured("sine")["rayleigh"], 20 * math.pi**2, rel_tol=1e-5)  # ‖w‖² over whole periods
    assert math.isclose(measured("line")["chebyshev"], 1, abs_tol=1e-2)
    points = _Points(32, 0)
    x = points.segments.reshape(16, 32, 2)
    # a straight line: the mean distance of the ends along x₁, over the standard deviation of x₁ on the grid
    variation = (x[:, -1, 0] - x[:, 0, 0]).abs().mean() / points.square[:, 0].std(correction=0)
    assert math.isclose(measured("line")["path_tv"], float(variation), rel_tol=1e-4)


def test_the_border_is_no_wave() -> None:
    """A straight line jumps at the border of a plain FFT; its even extension does not."""
    f = np.linspace(-1, 1, 32)[:, None] * np.ones(32)
    plain = np.abs(np.fft.fft2(f))
    plain[0, 0] = 0
    k = np.abs(np.fft.fftfreq(32, 1 / 32)) * 2  # in half waves, as the cosine transform counts
    raw = float((plain * np.hypot(k[:, None], k[None])).sum() / plain.sum())
    assert raw > 3 * measured("line")["fourier"]


def test_dictionary_sizes() -> None:
    assert _words(np.zeros((1, 10))) == 4  # a aa aaa aaaa
    assert _words(np.arange(16.0)[None]) == 16  # all letters differ
    # snake order 0 1 | 1 0 | 0 1: the words 0, 1, 10, 01; row by row 01 would come twice
    assert _words(np.array([[0.0, 1.0], [0.0, 1.0], [0.0, 1.0]])) == 4
    rng = np.random.default_rng(0)
    assert _words(rng.normal(size=(32, 32))) > 1.2 * _words(np.linspace(-1, 1, 32)[:, None] * np.ones(32))


SPEC = {  # amplitude-weighted frequency at depth 5 and scales ½, 1, 2, 3, measured for the specification
    "sine": (2.1, 2.4, 4.1, 15.8),
    "tanh": (2.1, 2.3, 2.8, 5.8),
    "gelu": (2.2, 2.3, 2.9, 4.0),
    "relu": (3.4, 4.2, 5.9, 6.5),
}


@pytest.fixture(scope="module")
def profile() -> tuple[object, float]:
    start = time.process_time()
    found = complexity_profile(networks=20, depths=(1, 5))
    return found, time.process_time() - start


def test_sine_and_tanh_rise_with_scale_much_faster_than_relu(profile: tuple[object, float]) -> None:
    found = profile[0]
    rise = {}
    for name, expected in SPEC.items():
        curve = found.curve("fourier", name, 5)
        for value, other in zip(curve, expected, strict=True):
            # another seed, width and grid: the level agrees, within the scatter of two sets of networks
            assert abs(value - other) < 0.25 * other + 4 * value.stderr
        rise[name] = curve[-1] / curve[0]
    assert rise["sine"] > 1.5 * rise["tanh"] > 1.5 * 1.2 * rise["relu"]
    assert 1.5 < rise["relu"] < 2.8
    assert rise["sine"] > 5
    # differences that are no accident of twenty networks
    sine, tanh, relu = (found.curve("rayleigh", name, 5) for name in ("sine", "tanh", "relu"))
    assert sine[-1] - relu[-1] > 4 * math.hypot(sine[-1].stderr, relu[-1].stderr)
    assert sine[-1] > 100 > 30 > relu[-1]
    for curve in (sine, tanh):
        assert curve[-1] - curve[0] > 4 * math.hypot(curve[-1].stderr, curve[0].stderr)
    # shallow networks hardly react
    assert found.curve("fourier", "sine", 1)[-1] < 1.4 * found.curve("fourier", "sine", 1)[0]


def test_measures_agree_on_the_order(profile: tuple[object, float]) -> None:
    rows = profile[0].rows()
    ranks = {m: np.argsort(np.argsort([row[m] for row in rows])) for m in MEASURES}
    for m in ("chebyshev", "path_tv"):
        assert np.corrcoef(ranks[m], ranks["rayleigh"])[0, 1] > 0.7
    assert np.corrcoef(ranks["lz"], ranks["rayleigh"])[0, 1] > 0.5


def test_rows_and_time(profile: tuple[object, float]) -> None:
    found, seconds = profile
    rows = found.rows()
    assert len(rows) == 4 * 2 * 4
    assert rows[0]["activation"] == "relu"
    assert {"fourier", "fourier_stderr", "scale", "depth"} <= set(rows[0])
    assert found.cells[0].fourier.n == 20
    assert seconds < 10  # of one core; 1.6 s when nobody else works
    assert "grid 32 × 32" in repr(found)


def slow(x: Tensor, i: int, depth: int, scale: float, norm: str | None, residual: bool, gating: bool) -> Tensor:
    """Network i of a stack, written down layer by layer for one network."""
    sizes = [2, *[8] * depth, 1]
    h = x
    for l, (n_in, n_out) in enumerate(pairwise(sizes)):
        (W, b), (V, c) = (_uniform(i + 1, n_in, n_out, scale, 7, f"{kind} {l}") for kind in ("layer", "gate"))
        z = h @ W[i] + b[i]
        if l == depth:
            return z[:, 0]
        if norm:
            z = (z - z.mean(1, keepdim=True)) / (z.var(1, correction=0, keepdim=True) + 1e-5).sqrt()
        z = torch.sin(z)
        if gating:
            z = z * (h @ V[i] + c[i])
        h = z + h if residual and l > 0 else z
    raise AssertionError


@pytest.mark.parametrize("norm", [None, "layer"])
@pytest.mark.parametrize("residual", [True, False])
@pytest.mark.parametrize("gating", [True, False])
def test_a_stack_is_a_loop_over_networks(norm: str | None, residual: bool, gating: bool) -> None:
    stack = _Stack("sine", 3, 1.5, 4, 8, 7, norm, residual, gating)
    x = noise(5, 2).float()
    found = stack(x.expand(4, -1, -1))
    for i in range(4):
        torch.testing.assert_close(found[i], slow(x, i, 3, 1.5, norm, residual, gating), rtol=1e-4, atol=1e-5)


def test_weights_have_the_law_they_should() -> None:
    W, b = _uniform(200, 30, 50, 2.0, 0, "layer 1")
    s = 2 * math.sqrt(6 / 80)
    assert 0.99 * s < float(W.abs().max()) < s
    assert 0.99 < float(b.abs().max()) < 1
    assert abs(float(W.var()) / (s**2 / 3) - 1) < 4 * math.sqrt(0.8 / W.numel())  # kurtosis of the uniform law


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


def test_your_own_module_follows_the_same_law() -> None:
    def make(activation: str, depth: int) -> nn.Module:
        assert activation == "tanh"
        parts: list[nn.Module] = []
        for i in range(depth):
            parts += [nn.Linear(64 if i else 2, 64), nn.Tanh()]
        return nn.Sequential(*parts, nn.Linear(64, 1))

    options = {"activations": ("tanh",), "depths": (3,), "scales": (2.0,), "networks": 40}
    ours, yours = complexity_profile(**options), complexity_profile(make, **options)
    for measure in MEASURES:
        a, b = (p.curve(measure, "tanh", 3)[0] for p in (ours, yours))
        assert a != b
        assert abs(a - b) < 4 * math.hypot(a.stderr, b.stderr), measure


def test_members_are_known_by_their_number() -> None:
    few, many = (
        complexity_profile(activations=("tanh",), depths=(2,), scales=(1.0,), networks=n, seed=5) for n in (2, 4)
    )
    again = complexity_profile(activations=("tanh",), depths=(2,), scales=(1.0,), networks=2, seed=5)
    other = complexity_profile(activations=("tanh",), depths=(2,), scales=(1.0,), networks=2, seed=6)
    assert few == again != other
    assert few.cells[0].rayleigh != many.cells[0].rayleigh


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"networks": 1}, "two networks"),
        ({"grid": 2}, "grid"),
        ({"scales": (0.0,)}, "scales > 0"),
        ({"activations": "relu"}, "lists"),
        ({"activations": ("sinus",)}, "no activation"),
        ({"norm": "batch"}, "norm expects"),
    ],
)
def test_bad_profiles(options: dict[str, object], message: str) -> None:
    with pytest.raises(NetgrainError, match=message):
        complexity_profile(**options)


# --- the local learning coefficient -----------------------------------------------------------------------------------

N = 1000
ONES = torch.ones(N, 1)
NB = N / math.log(N)


class Weights(nn.Module):
    """f(x) = w for every x: its loss is whatever function of w one likes."""

    def __init__(self, d: int) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.zeros(d))

    def forward(self, x: Tensor) -> Tensor:
        return self.w.expand(len(x), -1)


@pytest.mark.parametrize("d", [2, 5, 10])
def test_a_regular_model_has_half_its_parameters(d: int) -> None:
    step = 1e-3
    options = {"step": step, "localisation": 0.0, "draws": 1500, "burn_in": 100}
    found = local_learning_coefficient(Weights(d), ONES, torch.zeros(N, d), "sse", **options)
    assert abs(found.value - d / 2) < 0.15 * d / 2
    # what a finite step does to a quadratic is known: 1/(1 − ε·nβ/4). Effective draws from the time of relaxation
    assert abs(found.value - d / 2 / (1 - step * NB / 4)) < 4 * math.sqrt(d / 2 / (4 * 1500 * step * NB / 2))
    assert found.parameters == d
    assert found.warnings == ()
    assert found.traces.shape == (4, 1500)
    assert "experimental" in repr(found)


def test_curvature_does_not_count_but_flat_directions_do() -> None:
    """L = ½(9w₁² + w₂²), w₃ free: λ = 1 although there are three parameters."""

    def loss(f: Tensor, y: Tensor) -> Tensor:
        return (f[:, 0].square() * 9 + f[:, 1].square()).sum() / 2

    options = {"step": 5e-4, "localisation": 0.0, "draws": 1500, "burn_in": 100}
    found = local_learning_coefficient(Weights(3), ONES, torch.zeros(N), loss, **options)
    expected = sum(0.5 / (1 - 5e-4 * NB * h / 4) for h in (9, 1))  # 1.11, of which 0.11 are the step's
    assert abs(found.value - expected) < 4 * math.sqrt(0.5 / (4 * 1500 * 5e-4 * NB / 2))
    assert abs(found.value - 1) < 0.35


def test_localisation_takes_its_share() -> None:
    options = {"step": 1e-3, "draws": 1500, "burn_in": 100}
    found = local_learning_coefficient(Weights(10), ONES, torch.zeros(N, 10), "sse", localisation=NB, **options)
    expected = 5 * NB / (2 * NB) / (1 - 1e-3 * 2 * NB / 4)
    assert abs(found.value - expected) < 4 * math.sqrt(10 / 8 / (4 * 1500 * 1e-3 * NB))


def test_a_quartic_has_a_quarter() -> None:
    def loss(f: Tensor, y: Tensor) -> Tensor:
        return f.pow(4).sum()

    options = {"step": 3e-3, "localisation": 0.0, "draws": 2500, "burn_in": 200}
    found = local_learning_coefficient(Weights(1), ONES, torch.zeros(N), loss, **options)
    assert abs(found.value - 0.25) < 0.05
    assert abs(found.value - 0.25) < 4 * found.value.stderr


def test_batches_and_seeds() -> None:
    y = noise(N, 2).float()
    net = Weights(2)
    net.w.data.copy_(y.mean(0))  # the minimum
    run = partial(local_learning_coefficient, net, ONES, y, "sse", step=1e-3, localisation=0.0, draws=300)
    batched, again, other = run(batch=50), run(batch=50), run(batch=50, seed=1)
    assert torch.equal(batched.traces, again.traces)
    assert not torch.equal(batched.traces, other.traces)
    # chains do not know of each other
    assert torch.equal(run(batch=50, chains=2).traces, batched.traces[:2])
    assert len({float(c) for c in batched.chains}) == 4
    # the choice of a batch moves L by 0.1 and nβL by 14, yet what w adds is found
    assert abs(run(draws=1000, burn_in=100, batch=500).value - 1) < 0.35
    with warnings.catch_warnings():  # weights that hardly move have no loss of their own
        warnings.simplefilter("ignore", GrainWarning)
        still = run(step=1e-14, draws=20, batch=50)
    assert float((still.traces - still.loss).abs().max()) < 1e-5


def test_warnings() -> None:
    net = Weights(2)
    targets = torch.full((N, 2), 3.0)  # far from the minimum: the loss can only fall
    options = {"localisation": 0.0, "draws": 100, "burn_in": 0}
    with pytest.warns(GrainWarning) as caught:
        found = local_learning_coefficient(net, ONES, targets, "sse", step=1e-3, **options)
    assert any("negative" in str(w.message) for w in caught)
    assert any("drifts" in str(w.message) for w in caught)
    assert found.value < 0
    assert len(found.warnings) == 2
    assert "negative" in repr(found)
    with pytest.raises(NetgrainError, match=r"4 of 4 chains diverged with step=1; pass a smaller step"):
        local_learning_coefficient(Weights(2), ONES, torch.zeros(N, 2), "sse", step=1.0, **options)


def test_a_chain_that_diverges_is_left_out() -> None:
    def loss(f: Tensor, y: Tensor) -> Tensor:
        # a wall: beyond it the loss is not a number
        return torch.where(f.abs() > 0.22, math.nan, 1.0) @ torch.ones(1) @ torch.ones(len(f)) + f.square().sum() / 2

    options = {"step": 2e-3, "localisation": 0.0, "draws": 100, "burn_in": 0, "chains": 6}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = local_learning_coefficient(Weights(1), ONES, torch.zeros(N), loss, **options)
    lost = int(found.chains.isnan().sum())
    assert 0 < lost < 5
    assert found.value.n == 6 - lost
    assert any(f"{lost} of 6 chains diverged" in str(w.message) for w in caught)


def test_a_real_network_is_left_as_found() -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 3)).eval()
    before, state = copy.deepcopy(net.state_dict()), torch.get_rng_state()
    X, y = noise(60, 3).float(), torch.arange(60) % 3
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GrainWarning)
        found = local_learning_coefficient(net, X, y, draws=40, burn_in=0, chains=2)
    assert found.parameters == sum(p.numel() for p in net.parameters())
    assert math.isclose(found.loss, float(nn.functional.cross_entropy(net(X), y).detach()), rel_tol=1e-5)
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(before[k], v) for k, v in net.state_dict().items())
    assert all(p.grad is None and p.requires_grad for p in net.parameters())
    net[0].requires_grad_(False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GrainWarning)
        part = local_learning_coefficient(net, X, y, draws=40, burn_in=0, chains=2)
    assert part.parameters == found.parameters - 16


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"step": 0.0}, "step > 0"),
        ({"localisation": -1.0}, "localisation ≥ 0"),
        ({"chains": 1}, "2 chains"),
        ({"draws": 5}, "20 draws"),
        ({"batch": 0}, "batch of 1 to 1000"),
    ],
)
def test_bad_samplers(options: dict[str, float], message: str) -> None:
    with pytest.raises(NetgrainError, match=message):
        local_learning_coefficient(Weights(2), ONES, torch.zeros(N, 2), "sse", **options)
