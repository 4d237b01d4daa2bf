"""The sphere: harmonics against scipy and e3nn, transforms and correlations against sums over grids."""

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from netgrain.groups.so3 import SO3, harmonics
from netgrain.groups.sphere import Sphere
from netgrain.runtime.errors import NetgrainError
from tests.groups.test_so3 import angles_of, rotation, some_angles

try:
    from scipy.special import sph_harm_y
except ImportError:  # before SciPy 1.15
    from scipy.special import sph_harm

    def sph_harm_y(degree: int, order: int, theta: np.ndarray, phi: np.ndarray) -> np.ndarray:
        return sph_harm(order, degree, phi, theta)


def some(B: int, *batch: int, seed: int = 0) -> Tensor:
    return torch.randn(*batch, B * B, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def points(theta: Tensor, phi: Tensor) -> Tensor:
    """(x, y, z) of points on the sphere."""
    theta, phi = torch.broadcast_tensors(theta, phi)
    return torch.stack([theta.sin() * phi.cos(), theta.sin() * phi.sin(), theta.cos()], -1)


@pytest.mark.quick
def test_harmonics_are_scipys_up_to_sign_and_phase() -> None:
    """Y_{l,±m} = √2 Re, Im of scipy's complex Y_lm, times √(4π) for mass one; signs are a convention."""
    phi, theta, _ = some_angles(7)
    found = harmonics(6, theta, phi)
    for l in range(6):
        for m in range(l + 1):
            theirs = sph_harm_y(l, m, theta.numpy(), phi.numpy()) * math.sqrt(4 * math.pi)
            ours = found[:, l * l + l + m].numpy(), found[:, l * l + l - m].numpy()
            parts = (theirs.real, theirs.real) if m == 0 else (math.sqrt(2) * theirs.real, math.sqrt(2) * theirs.imag)
            for a, b in zip(ours, parts, strict=True):
                assert np.abs(a) == pytest.approx(np.abs(b), abs=1e-12)
                assert abs(a @ b) == pytest.approx(b @ b)


def test_harmonics_are_e3nns() -> None:
    """e3nn's polar axis is y and its order of l = 1 is (x, y, z): its (x, y, z) are our (y, z, x)."""
    o3 = pytest.importorskip("e3nn.o3")
    phi, theta, _ = some_angles(9)
    v = points(theta, phi)
    for l in range(6):
        theirs = o3.spherical_harmonics(l, v[:, [1, 2, 0]], normalize=False, normalization="component")
        assert harmonics(l + 1, theta, phi)[:, l * l :].numpy() == pytest.approx(theirs.double().numpy(), abs=1e-6)


def test_transforms_are_exact_and_isometric() -> None:
    S, x = Sphere(9), some(9, 3)
    values = S.values(x)
    assert S.coefficients_of(values).numpy() == pytest.approx(x.numpy())
    assert (values.square() * S.weights).sum((-1, -2)).numpy() == pytest.approx(x.square().sum(-1).numpy())
    assert S.coefficients_of(values, degrees=3).numpy() == pytest.approx(x[:, :9].numpy())
    theta, phi = torch.broadcast_tensors(*S.angles)
    assert S.evaluate(x, theta.flatten(), phi.flatten()).numpy() == pytest.approx(values.flatten(1).numpy())


def test_rotated_functions_are_the_functions_at_points_turned_back() -> None:
    S, x = Sphere(5), some(5)
    a, b, c = (v[0] for v in some_angles(1, seed=3))
    phi, theta, _ = some_angles(11)
    back = points(theta, phi) @ rotation(a, b, c)  # rows: Q⁻¹ ω
    expected = S.evaluate(x, torch.arccos(back[:, 2]), torch.atan2(back[:, 1], back[:, 0]))
    assert S.evaluate(S.rotate(x, a, b, c), theta, phi).numpy() == pytest.approx(expected.numpy())


def test_correlation_is_the_integral_over_the_sphere() -> None:
    """(x ⋆ w)(R) = ∫ x(Rω) w(ω) dω, summed over a grid that is exact for the product."""
    S, fine = Sphere(4), Sphere(8)
    x, w = some(4), some(4, seed=1)
    R = rotation(*some_angles(6, seed=2))
    theta, phi = (v.flatten() for v in torch.broadcast_tensors(*fine.angles))
    w_there, weights = S.evaluate(w, theta, phi), fine.weights.flatten()
    turned = torch.einsum("rij,pj->rpi", R, points(theta, phi))
    flat = turned.flatten(0, 1)
    x_there = S.evaluate(x, torch.arccos(flat[:, 2].clamp(-1, 1)), torch.atan2(flat[:, 1], flat[:, 0]))
    direct = (x_there.reshape(6, -1) * w_there * weights).sum(-1)
    blocks = S.correlate(x, w)
    assert SO3(4).evaluate(blocks, *some_angles(6, seed=2)).numpy() == pytest.approx(direct.numpy())


def test_correlation_commutes_with_rotations() -> None:
    S, x, w = Sphere(4), some(4), some(4, seed=1)
    Q, R = some_angles(1, seed=5), some_angles(6, seed=6)
    moved = SO3(4).evaluate(S.correlate(S.rotate(x, *(v[0] for v in Q)), w), *R)
    back = angles_of(rotation(*Q)[0].T @ rotation(*R))
    assert moved.numpy() == pytest.approx(SO3(4).evaluate(S.correlate(x, w), *back).numpy())
    assert not np.allclose(moved.numpy(), SO3(4).evaluate(S.correlate(x, w), *R).numpy(), atol=1e-3)


def test_bad_input_is_told() -> None:
    with pytest.raises(NetgrainError, match="bandwidth expects a positive integer; found 0"):
        Sphere(0)
    with pytest.raises(NetgrainError, match="bandwidth expects at least 1, found 0"):
        harmonics(0, torch.tensor(0.0), torch.tensor(0.0))
    with pytest.raises(NetgrainError, match="expected 16 coefficients, l < 4; found 15"):
        Sphere(4).values(torch.zeros(15))
    with pytest.raises(NetgrainError, match="values on the grid"):
        Sphere(4).coefficients_of(torch.zeros(8, 4))
    with pytest.raises(NetgrainError, match="degrees expects 1 to 4, found 5"):
        Sphere(4).coefficients_of(torch.zeros(4, 8), degrees=5)
