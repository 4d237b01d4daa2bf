"""Away from the origin: slopes and gradients depend on each other, and the closed form follows that."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import pairwise

import pytest
import torch
from torch import Tensor, nn

import netgrain as ng
from tests import naive
from tests.closed_form.gaussians import ALL, pair
from tests.closed_form.networks import closed_form, deviation, gaussian, images


class Erf(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.erf(x)


# kernels with a corner at z = x are differentiated a little apart from it
ACTIVATIONS = {
    "erf": (Erf, naive.erf_kernel, 0.0, 1e-6),
    "gelu": (nn.GELU, naive.gelu_kernel, 0.0, 1e-6),
    "relu": (nn.ReLU, naive.relu_kernel, 1e-4, 1e-4),
}


def mlp(act: Callable[[], nn.Module]) -> nn.Sequential:
    return nn.Sequential(nn.Flatten(), nn.Linear(48, 64), act(), nn.Linear(64, 64), act(), nn.Linear(64, 3))


def one_layer(act: Callable[[], nn.Module], channels: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(channels, 8, 3, padding=1, bias=False), act(), nn.AvgPool2d(2), nn.Flatten(), nn.Linear(32, 2)
    )


def two_layers(act: Callable[[], nn.Module], channels: int) -> nn.Sequential:
    first = [nn.Conv2d(channels, 8, 3, padding=1), act(), nn.Conv2d(8, 8, 3, padding=1), act()]
    return nn.Sequential(*first, nn.AvgPool2d(2), nn.Flatten(), nn.Linear(72, 1))


def three_layers(act: Callable[[], nn.Module], channels: int) -> nn.Sequential:
    return nn.Sequential(
        *(nn.Conv2d(channels, 8, 3, padding=1, stride=2), act(), nn.Conv2d(8, 8, 3), act(), nn.AvgPool2d(2)),
        *(nn.Conv2d(8, 8, 1), act(), nn.Flatten(), nn.Linear(8, 2)),
    )


NETWORKS: dict[str, tuple[Callable[..., nn.Sequential], tuple[int, ...]]] = {
    "mlp": (mlp, (3, 4, 4)),
    "one convolution": (partial(one_layer, channels=1), (1, 4, 4)),
    "two convolutions": (partial(two_layers, channels=1), (1, 6, 6)),
    "two convolutions, three channels": (partial(two_layers, channels=3), (3, 6, 6)),
    "three layers with stride": (partial(three_layers, channels=2), (2, 8, 8)),
}


def with_equal_patches(shape: tuple[int, ...]) -> Tensor:
    """A row of equal columns: many patches are the same, others are proportional or differ."""
    x = images(shape)
    x[..., : shape[-1] // 2 + 1] = x[..., :1]
    x[..., :2, :] = 2 * x[..., 2:3, :]
    return x


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_the_mixed_derivative_of_the_kernel(activation: str, name: str) -> None:
    act, kernel, apart, allowed = ACTIVATIONS[activation]
    build, shape = NETWORKS[name]
    make = partial(build, act)
    for x in (images(shape), with_equal_patches(shape)):
        exact = naive.wide_geometry(make(), kernel, x[0], apart)
        found = closed_form(make, shape, probe=ng.Data(x)).matrix()
        assert float((found - exact).norm() / exact.norm()) < allowed


@pytest.mark.parametrize("activation", ["erf", "gelu"])
def test_zero_patches(activation: str) -> None:
    act, kernel, _, allowed = ACTIVATIONS[activation]
    for build in (partial(one_layer, act, 1), partial(two_layers, act, 1)):
        shape = (1, 4, 4) if build.func is one_layer else (1, 6, 6)
        x = images(shape)
        x[..., :3, :] = 0
        exact = naive.wide_geometry(build(), kernel, x[0])
        found = closed_form(build, shape, probe=ng.Data(x)).matrix()
        assert float((found - exact).norm() / exact.norm()) < allowed


@pytest.mark.quick
def test_zero_patches_of_a_relu_have_the_slope_that_autograd_takes() -> None:
    """A bias-free ReLU on a zero patch sits on its kink at every width; networks with Gaussian weights decide."""

    def make(width: int = 512) -> nn.Sequential:
        net = nn.Sequential(
            nn.Conv2d(1, width, 3, padding=1, bias=False), nn.ReLU(), nn.Flatten(), nn.Linear(16 * width, 8, bias=False)
        )
        nn.init.normal_(net[0].weight)
        nn.init.normal_(net[3].weight, std=width**-0.5)
        return net

    x = images((1, 4, 4))
    x[..., :2] = 0
    found = closed_form(make, (1, 4, 4), probe=ng.Data(x))
    sampled = ng.average_geometry(make, (1, 4, 4), probe=ng.Data(x), members=300, method="sampled", workers=1)
    for v in (x[0], torch.ones(1, 4, 4), torch.eye(16)[0].reshape(1, 4, 4)):
        assert abs(deviation(found, sampled, v)) < 4


def test_the_recursion_without_the_terms_is_far_off() -> None:
    """What is added matters: the test above would see it missing."""
    make = partial(mlp, Erf)
    x = images((3, 4, 4))
    exact = naive.wide_geometry(make(), naive.erf_kernel, x[0])
    direction = x.flatten()
    across = (
        exact
        - torch.outer(direction, direction) * float(direction @ exact @ direction) / float(direction @ direction) ** 2
    )
    plain = float(across.diagonal().mean())  # without the terms an MLP's G is a multiple of the identity
    along = float(direction @ exact @ direction / (direction @ direction))
    assert plain > 1.3 * along


@pytest.mark.parametrize(
    ("activation", "channels", "count"), [("erf", 1, 1), ("gelu", 1, 8), ("relu", 3, 1), ("relu", 1, 8)]
)
def test_wide_networks_agree(activation: str, channels: int, count: int) -> None:
    """Along x, the mean of the data, and a random direction; benchmarks/closed_form.py --terms has all twelve."""
    act = ACTIVATIONS[activation][0]
    width = 128

    def plain() -> nn.Sequential:
        layers = [nn.Conv2d(channels, width, 3, padding=1), act(), nn.Conv2d(width, width, 3, padding=1), act()]
        return nn.Sequential(*layers, nn.AvgPool2d(2), nn.Flatten(), nn.Linear(4 * width, 10))

    make, shape = gaussian(plain), (channels, 4, 4)
    X = images(shape, count) + 0.5
    closed = closed_form(make, shape, probe=ng.Data(X), probes=count)
    sampled = ng.average_geometry(make, shape, probe=ng.Data(X), members=128, method="sampled", workers=1)
    for v in (X[0], X.mean(0), torch.randn(shape, generator=torch.Generator().manual_seed(5))):
        assert abs(deviation(closed, sampled, v)) < 4


# --- the parts ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mean", [0.0, 0.3])
@pytest.mark.parametrize("activation", [a for a in ALL if a.continuous], ids=lambda a: a.name)
def test_derivatives_of_pairs(activation: object, mean: float) -> None:
    """By scale and by correlation, against differences of the moments themselves."""
    assert isinstance(activation, type(ALL[0])) or hasattr(activation, "moments")
    h = 1e-5

    def moments(a: float, b: float, rho: float) -> tuple[Tensor, Tensor]:
        return activation.moments(pair(a, b, rho), mean)  # type: ignore[attr-defined, no-any-return]

    for a, b, rho in ((0.7, 1.9, 0.4), (0.7, 1.9, -0.6), (1.3, 1.3, 0.9), (0.05, 0.05, 0.2), (4.0, 2.0, 0.7)):
        found = activation.derivatives(pair(a, b, rho), mean)  # type: ignore[attr-defined]
        size = 1 + float(moments(a, b, rho)[0].abs().max())
        up, down = moments(a * (1 + h), b, rho), moments(a * (1 - h), b, rho)
        for kernel, derivative in ((0, found.value), (1, found.slope)):
            by_scale = (up[kernel] - down[kernel]) / (2 * h * a)
            assert float(by_scale[0, 1] - derivative[0, 1]) == pytest.approx(0, abs=2e-6 * size)
            assert float(by_scale[0, 0] / 2 - derivative[0, 0]) == pytest.approx(0, abs=2e-6 * size)
        by_rho = (moments(a, b, rho + h)[1] - moments(a, b, rho - h)[1])[0, 1] / (2 * h * (a * b) ** 0.5)
        assert float(by_rho - found.bend[0, 1]) == pytest.approx(0, abs=2e-6 * size)


def test_activations_that_jump_are_named() -> None:
    assert {a.name for a in ALL if not a.continuous} == {"hardshrink", "threshold"}


def test_leading_directions_by_products_alone() -> None:
    """Where the matrix would be too large: the same directions, and a trace within its error."""

    def make() -> nn.Sequential:
        return nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.GELU(), nn.AvgPool2d(3), nn.Flatten(), nn.Linear(128, 1))

    X = images((1, 12, 12), 2)
    whole = closed_form(make, (1, 12, 12), probe=ng.Data(X))
    leading = closed_form(make, (1, 12, 12), probe=ng.Data(X), keep=4)
    assert leading.eigenvalues.tolist() == pytest.approx(whole.eigenvalues[:4].tolist(), rel=1e-6)
    assert all(
        abs(float((a * b).sum())) == pytest.approx(1, abs=1e-5)
        for a, b in zip(leading.directions(4), whole.directions(4), strict=True)
    )
    assert abs(leading.trace.value - whole.trace.value) < 4 * leading.trace.stderr


def test_a_sample_of_zeros_does_not_hide_the_terms() -> None:
    make = partial(one_layer, nn.GELU, channels=1)
    X = torch.cat([torch.zeros(1, 1, 4, 4, dtype=torch.float64), images((1, 4, 4))])
    for order in ((0, 1), (1, 0)):
        exact = torch.stack([naive.wide_geometry(make(), naive.gelu_kernel, x) for x in X]).mean(0)
        found = closed_form(make, (1, 4, 4), probe=ng.Data(X[list(order)])).matrix()
        assert float((found - exact).norm() / exact.norm()) < 1e-6


def test_many_positions_leave_the_terms_out_and_say_so() -> None:
    make = partial(one_layer, nn.ReLU, channels=1)
    shape = (1, 18, 18)

    def large() -> nn.Sequential:
        net = make()
        net[4] = nn.Linear(8 * 81, 2)
        return net

    G = closed_form(large, shape, probe=ng.Gaussian(1), probes=2)
    assert any("324 positions" in text for text in G.about.leaves_out)
    assert any("9 weights that are not normal" in text for text in G.about.leaves_out)


def test_an_mlp_without_anything_to_add_stays_small() -> None:
    """ReLU on one position: slopes and gradients do not depend on each other, so G is still a multiple of I."""
    make = partial(mlp, nn.ReLU)
    G = closed_form(make, (3, 4, 4), probe=ng.Gaussian(1), probes=4)
    assert G.form.parts == 0 or float(G.eigenvalues[0] / G.eigenvalues[-1]) == pytest.approx(1)
    assert all(a == pytest.approx(b, rel=1e-9) for a, b in pairwise(G.eigenvalues.tolist()))


# --- what is checked, and what `auto` takes -----------------------------------------------------------------------


def test_the_check_sees_what_one_band_hides() -> None:
    """A multiple of the identity has one band; along the data it is off, and the check says so."""
    make = gaussian(partial(mlp, Erf), gain=4.0)
    X = images((3, 4, 4)).float()
    right = closed_form(make, (3, 4, 4), probe=ng.Data(X))
    flat = ng.Geometry.from_matrix(torch.eye(48) * right.trace.value / 48, (3, 4, 4))
    found = ng.check(make, (3, 4, 4), members=128, probe=ng.Data(X), closed=flat, workers=1, progress=False)
    assert len(found.bands) == 1
    assert abs(found.bands[0].z) < 4
    assert not found.agrees
    assert "the mean of the data is off" in found.verdict
    mine = ng.check(make, (3, 4, 4), members=128, probe=ng.Data(X), workers=1, progress=False)
    assert mine.agrees, str(mine)
    assert {a.name for a in mine.along} == {
        "each point itself",
        "the mean of the data",
        "leading directions of the sample",
    }


def test_the_check_sees_a_closed_form_that_leaves_the_terms_out(monkeypatch: pytest.MonkeyPatch) -> None:
    make = gaussian(partial(mlp, Erf), gain=4.0)
    monkeypatch.setattr("netgrain.geometry.closed.MOST_POSITIONS", 0)
    found = ng.check(make, (3, 4, 4), members=128, probe=ng.Gaussian(1), workers=1, progress=False)
    assert not found.agrees
    assert "each point itself is off" in found.verdict


def test_auto_takes_all_terms_at_once() -> None:
    make = gaussian(partial(two_layers, nn.ReLU, channels=1))
    G = ng.average_geometry(make, (1, 6, 6), probe=ng.Gaussian(1))
    assert (G.method, G.exact, G.about.leaves_out) == ("closed-form", False, ())
    assert "this limit over all probe points" in repr(G)


def test_auto_samples_a_first_layer_of_few_uniform_weights() -> None:
    """Nine uniform weights are not a Gaussian: members decide, and a tolerance they cannot show is sampled."""

    def make() -> nn.Sequential:
        return nn.Sequential(nn.Conv2d(1, 16, 3, padding=1), nn.Tanh(), nn.Flatten(), nn.Linear(256, 3))

    probe = ng.Gaussian(3)
    tight = ng.average_geometry(make, (1, 4, 4), probe=probe, tolerance=0.003, workers=1)
    assert tight.method == "sampled"
    assert any("9 weights that are not normal" in note for note in tight.about.notes)
    assert "last layer integrated" in tight.about.averaged
    loose = ng.average_geometry(make, (1, 4, 4), probe=probe, tolerance=0.1, workers=1)
    assert loose.method == "closed-form"
    assert any("within the tolerance 0.1, as" in note for note in loose.about.notes)


def test_auto_rejects_a_limit_that_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the terms the closed form of this network is far off; members show it."""
    make = gaussian(partial(two_layers, Erf, channels=1), gain=6.0)
    monkeypatch.setattr("netgrain.geometry.closed.MOST_POSITIONS", 0)
    G = ng.average_geometry(make, (1, 6, 6), probe=ng.Data(images((1, 6, 6))), tolerance=0.05, workers=1)
    assert G.method == "sampled"
    assert any("36 positions" in note and "not show" in note for note in G.about.notes)
