"""Gaussian expectations of activations against brute force, and which torch calls are activations."""

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from netgrain.closed_form.gaussian_expectations import Activation
from netgrain.closed_form.piecewise_linear import PiecewiseLinear
from tests.closed_form.gaussians import ALL, CLOSED, STRAIGHT, every_activation, known, pair, psd

REACH = 12.0  # standard deviations of the reference integrals


def panels(edges: np.ndarray, points: int) -> tuple[np.ndarray, np.ndarray]:
    """Gauss-Legendre nodes, and weights against the normal density, between the edges of each row."""
    x, w = np.polynomial.legendre.leggauss(points)
    edges = np.sort(np.clip(edges, -REACH, REACH), -1)
    half, middle = np.diff(edges)[..., None] / 2, (edges[..., 1:] + edges[..., :-1])[..., None] / 2
    z = (middle + half * x).reshape(*edges.shape[:-1], -1)
    return z, (half * w).reshape(z.shape) * np.exp(-(z**2) / 2) / math.sqrt(2 * math.pi)


def brute_force(f: Callable[[Tensor], Tensor], K: Tensor, mean: float, kinks: tuple[float, ...]) -> float:
    """E[f(h) f(h')], h = μ + s z, h' = μ + s'(ρ z + √(1 − ρ²) w): two nested integrals, cut where f is not smooth."""
    (a, c), (_, b) = K.tolist()
    s, t = math.sqrt(a), math.sqrt(b)
    rho = c / (s * t)
    rest = math.sqrt((1 - rho) * (1 + rho))
    steps = np.array([-8.0, -4, -2, -1, 0, 1, 2, 4, 8])
    cuts = np.array(sorted({0.0, *kinks})) - mean
    there = [(cuts / t / rho)[:, None] + rest * steps] if rho else []
    z, weights = panels(
        np.concatenate(
            [np.arange(-REACH, REACH + 0.1, 0.75)] + [x.ravel() for x in (cuts[:, None] / s + steps / s, *there)]
        ),
        20,
    )
    inner = (cuts[:, None] / t + steps / t).ravel() - rho * z[:, None]
    w, inner_weights = panels(
        np.concatenate([np.tile(np.arange(-REACH, REACH + 0.1), (len(z), 1)), inner / rest], 1), 12
    )
    first = f(torch.from_numpy(mean + s * z)).numpy()
    second = f(torch.from_numpy(mean + t * (rho * z[:, None] + rest * w))).numpy()
    return float(weights * first @ (second * inner_weights).sum(1))


def allowed(activation: Activation, mean: float, bound: float, matrix: Tensor) -> float:
    """Rounding, the angle integral or the truncated series: what each kind of activation promises."""
    if isinstance(activation, PiecewiseLinear):
        return (1e-12 if mean == 0 and activation.homogeneous else 1e-6) * float(matrix.diagonal().prod().sqrt())
    return bound * float(matrix.diagonal().max()) + 1e-11 * float(matrix.diagonal().prod().sqrt())


@pytest.mark.parametrize(
    ("K", "mean"),
    [
        (pair(1.0, 1.3, 0.5), 0.0),
        (pair(0.6, 0.6, -0.9), 0.0),
        (pair(1.0, 1.1, 0.0), 0.0),
        (pair(2.0, 2.0, 0.999), 0.0),
        (pair(0.5, 0.7, -0.9999), 0.0),
        (pair(1e-8, 1.0, 0.7), 0.0),
        (pair(100.0, 100.0, 0.6), 0.0),
        (pair(1.0, 1.3, 0.6), 0.7),
        (pair(0.4, 0.4, 0.99), -1.2),
    ],
    ids=lambda value: "" if isinstance(value, float) else " ".join(f"{v:.3g}" for v in value.flatten()[[0, 1, 3]]),
)
@every_activation
def test_brute_force(activation: Activation, K: Tensor, mean: float) -> None:
    if activation.name == "exp" and float(K.max()) > 9:
        pytest.skip("its mass lies beyond the reach of the reference")
    bounds = activation.truncation(K, mean)
    for kernel, f, bound in zip(activation.moments(K, mean), (activation, activation.derivative), bounds, strict=True):
        expected = brute_force(f, K, mean, activation.kinks)
        assert abs(float(kernel[0, 1]) - expected) <= allowed(activation, mean, bound, kernel) + 1e-15


@pytest.mark.quick
def test_brute_force_knows_the_quadrant_and_tells_activations_apart() -> None:
    K = pair(1.0, 2.0, 0.5)
    on = brute_force(lambda h: (h > 0).double(), K, 0.0, (0.0,))
    assert on == pytest.approx(1 / 4 + math.asin(0.5) / (2 * math.pi), abs=1e-13)
    values = [brute_force(f, K, 0.0, ()) for f in (F.silu, F.gelu, lambda h: F.gelu(h, approximate="tanh"))]
    assert min(abs(a - b) for i, a in enumerate(values) for b in values[:i]) > 1e-5


@pytest.mark.parametrize("mean", [0.0, 0.3])
@every_activation
def test_laws_on_a_random_covariance(activation: Activation, mean: float) -> None:
    K = psd(12, 20)
    before = K.clone()
    values, slopes = activation.moments(K, mean)
    assert torch.equal(K, before)
    for matrix in (values, slopes):
        assert matrix.dtype == torch.float64
        assert torch.equal(matrix, matrix.mT)
        assert torch.linalg.eigvalsh(matrix)[0] > -1e-6 * matrix.trace()
    variance = K.diagonal()
    means = activation.gaussian_mean(variance.reshape(3, 4), mean)
    assert means.shape == (3, 4)
    for p in range(3):
        s = math.sqrt(float(variance[p]))
        cuts = (np.array([0.0, *activation.kinks, *activation.bends]) - mean) / s
        z, weights = panels(np.concatenate([np.arange(-REACH, REACH + 0.1, 0.25), cuts]), 16)
        h = torch.from_numpy(mean + s * z)

        def integral(f: Callable[[Tensor], Tensor], h: Tensor = h, weights: np.ndarray = weights) -> float:
            return float(torch.from_numpy(weights) @ f(h))

        assert float(values[p, p]) == pytest.approx(integral(lambda h: activation(h) ** 2), rel=1e-9)
        assert float(slopes[p, p]) == pytest.approx(integral(lambda h: activation.derivative(h) ** 2), rel=1e-9)
        assert float(means.flatten()[p]) == pytest.approx(integral(activation), rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("mean", [0.0, 0.3])
@pytest.mark.parametrize(
    "activation", [a for a in ALL if a.name not in {"hardshrink", "threshold", "selu"}], ids=lambda a: a.name
)
def test_prices_theorem(activation: Activation, mean: float) -> None:
    """∂E[φφ']/∂K_pp' = E[φ'φ'], for every φ without a jump (and whose truncation is small)."""
    step = 1e-4
    low, middle, high = (activation.moments(pair(1.0, 2.0, 0.4 + d), mean) for d in (-step, 0.0, step))
    difference = (high[0] - low[0])[0, 1] / (2 * step * math.sqrt(2))
    assert float(difference) == pytest.approx(float(middle[1][0, 1]), rel=1e-6)


@pytest.mark.parametrize("mean", [0.0, 0.25])
@every_activation
def test_zero_variance(activation: Activation, mean: float) -> None:
    at = torch.tensor(mean, dtype=torch.float64)
    value, slope = activation(at), activation.derivative(at)
    for matrix, constant in zip(activation.moments(torch.zeros(2, 3, 3), mean), (value, slope), strict=True):
        assert torch.allclose(matrix, (constant**2).expand(2, 3, 3), rtol=1e-15, atol=0)
    assert torch.equal(activation.gaussian_mean(torch.zeros(4), mean), value.expand(4))

    K = psd(4, 6)
    K[1], K[:, 1] = 0, 0
    others = [0, 2, 3]
    values, slopes = activation.moments(K, mean)
    expected = value * activation.gaussian_mean(K.diagonal(), mean)
    assert torch.allclose(values[1], expected, rtol=1e-11, atol=1e-15)
    alone = activation.moments(K[others][:, others], mean)
    for matrix, constant, block in zip((values, slopes), (value, slope), alone, strict=True):
        assert float(matrix[1, 1]) == pytest.approx(float(constant**2), rel=1e-14)
        assert torch.allclose(matrix[others][:, others], block, rtol=1e-10, atol=1e-14)
    assert torch.allclose(
        slopes[1, 0] * slopes[1, 0], slope**2 * _mean_slope(activation, K[0, 0], mean) ** 2, rtol=1e-8
    )


def _mean_slope(activation: Activation, variance: Tensor, mean: float) -> Tensor:
    """E φ' from two independent positions: E[φ'φ'] = (E φ')²; its sign does not matter to the caller."""
    return activation.moments(torch.diag(variance.expand(2)), mean)[1][0, 1].clamp(min=0).sqrt()


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("mean", [0.0, 0.3])
@every_activation
def test_perfect_correlation(activation: Activation, mean: float, sign: float) -> None:
    """K = vvᵀ: E[φ(v_p z) φ(v_p' z)] is one integral; ρ a little beyond ±1 by rounding changes nothing."""
    v = torch.tensor([0.9, 0.9 * sign, 0.9 * sign], dtype=torch.float64)
    K = torch.outer(v, v)
    z, weights = panels(
        np.unique(
            np.concatenate(
                [
                    np.arange(-REACH, REACH + 0.1, 0.25),
                    *(np.array([-1, 1]) * (t - mean) / 0.9 for t in (0.0, *activation.kinks, *activation.bends)),
                ]
            )
        ),
        16,
    )
    nodes = torch.from_numpy(z)
    for kernel, f in zip(activation.moments(K, mean), (activation, activation.derivative), strict=True):
        expected = float(torch.from_numpy(weights) @ (f(mean + 0.9 * nodes) * f(mean + 0.9 * sign * nodes)))
        assert float(kernel[0, 1]) == pytest.approx(expected, rel=1e-6, abs=1e-6)
    beyond = K.clone()
    beyond[0, 1] *= 1 + 1e-9
    beyond[1, 0] *= 1 + 1e-9
    for clamped, kernel in zip(activation.moments(beyond, mean), activation.moments(K, mean), strict=True):
        assert torch.allclose(clamped, kernel, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("scale", [1e-12, 1e-3, 1.0, 1e3, 1e6])
@every_activation
def test_degenerate_covariances_are_finite(activation: Activation, scale: float) -> None:
    if activation.name == "exp" and scale > 1:
        pytest.skip("E exp(h) is beyond double precision")
    for rank, mean in ((1, 0.0), (2, 0.0), (2, -0.4)):
        K = scale * psd(7, rank, seed=rank)
        K[rank], K[:, rank] = 0, 0
        for matrix in activation.moments(K, mean):
            assert torch.isfinite(matrix).all()
            assert (matrix.abs() <= 1.001 * matrix.diagonal().max() + 1e-300).all()
        assert all(0 <= bound < 1 for bound in activation.truncation(K, mean))


@pytest.mark.parametrize("mean", [0.0, 0.3])
@every_activation
def test_batch_equals_loop(activation: Activation, mean: float) -> None:
    K = torch.stack([psd(5, 8, seed) for seed in range(6)]).reshape(2, 3, 5, 5)
    batch = activation.moments(K, mean)
    for i in range(2):
        for j in range(3):
            for whole, one in zip(batch, activation.moments(K[i, j], mean), strict=True):
                assert whole.shape == K.shape
                assert torch.allclose(whole[i, j], one, rtol=1e-10, atol=1e-13)
    singles = activation.moments(K[..., :1, :1], mean)
    assert all(torch.allclose(a, b[..., :1, :1], rtol=1e-10) for a, b in zip(singles, batch, strict=True))


def test_blocks_of_rows_fit_together(monkeypatch: pytest.MonkeyPatch) -> None:
    K = psd(9, 12)
    for activation in (known(torch.tanh), known(F.relu6)):
        whole = activation.moments(K)
        monkeypatch.setattr("netgrain.closed_form.gaussian_expectations.BLOCK", 18)
        assert all(torch.equal(a, b) for a, b in zip(whole, activation.moments(K), strict=True))
        monkeypatch.undo()


def test_truncation_says_how_good_a_series_is() -> None:
    near = pair(1.0, 1.0, 0.9999)
    for activation in CLOSED + STRAIGHT:
        assert activation.truncation(near) == (0.0, 0.0)
    assert max(known(F.silu).truncation(near)) < 1e-12
    value, slope = known(F.selu).truncation(near)
    assert 1e-6 < value < 1e-4
    assert 1e-3 < slope < 0.1
    assert max(known(F.selu).truncation(pair(1.0, 1.0, 0.5))) < 1e-12


def test_small_variance_keeps_the_digits() -> None:
    K = 1e-12 * psd(4, 6)
    values, slopes = known(F.gelu).moments(K)  # φ(x) = x/2 + x²/√(2π) + …
    assert torch.allclose(values, K / 4, rtol=1e-9, atol=0)
    assert torch.allclose(slopes, torch.full_like(K, 0.25), rtol=1e-9)
    assert torch.allclose(known(torch.sin).moments(K)[0], K, rtol=1e-9, atol=0)
    assert torch.allclose(known(torch.tanh).moments(K)[0], K, rtol=1e-9, atol=0)


@pytest.mark.parametrize("steepness", [0.02, 50.0])
def test_features_of_any_width_are_resolved(steepness: float) -> None:
    """softplus_β(x) = softplus(βx)/β, so a steep one is a soft one of larger variance."""
    K = psd(5, 8)
    steep = known(F.softplus, steepness).moments(K)
    soft = known(F.softplus).moments(steepness**2 * K)
    assert torch.allclose(steep[0], soft[0] / steepness**2, rtol=1e-9, atol=0)
    assert torch.allclose(steep[1], soft[1], rtol=1e-9, atol=0)


def test_expectation_under_a_discrete_law() -> None:
    nodes, weights = torch.tensor([-2.0, 1.0, 3.0]).double(), torch.tensor([0.5, 0.25, 0.25]).double()
    assert known(torch.relu).expectation(nodes, weights) == pytest.approx((1.0, 2.5, 0.5))
    assert known(torch.square).expectation(nodes, weights) == pytest.approx((4.5, 28.5, 18.0))


@every_activation
def test_derivative(activation: Activation) -> None:
    z = torch.randn(100, generator=torch.Generator().manual_seed(1), dtype=torch.float64).requires_grad_()
    (expected,) = torch.autograd.grad(activation(z).sum(), z)
    single = activation.name == "hardsigmoid"  # whose backward multiplies with 1/6 in single precision
    assert torch.allclose(activation.derivative(z), expected, rtol=1e-7 if single else 1e-14, atol=0)
    assert not activation.derivative(z).requires_grad
    with torch.no_grad():
        assert torch.equal(activation.derivative(z), activation.derivative(z.detach()))
    with torch.inference_mode():
        assert torch.equal(activation.derivative(z.clone()), activation.derivative(z))
    step = 1e-6
    slope = (activation(z.detach() + step) - activation(z.detach() - step)) / (2 * step)
    assert torch.allclose(activation.derivative(z), slope, rtol=1e-6, atol=1e-8)
    for kink in activation.kinks:
        left, right = activation.derivative(torch.tensor([kink - 1e-9, kink + 1e-9], dtype=torch.float64)).tolist()
        jumps = abs(float(activation(torch.tensor(kink + 1e-9)) - activation(torch.tensor(kink - 1e-9)))) > 1e-3
        assert abs(left - right) > 1e-3 or jumps
