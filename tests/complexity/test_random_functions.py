"""Paths and arcs, random networks, and the local learning coefficient."""

import math
import time
from itertools import pairwise

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from netgrain.complexity.random_functions import MEASURES, _Draw, _Points, _Stack, _uniform, _words, complexity_profile
from netgrain.runtime.errors import NetgrainError


def noise(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


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
    stack = _Stack(_Draw("sine", 3, 1.5, 4, 7), 8, norm, residual, gating)
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
