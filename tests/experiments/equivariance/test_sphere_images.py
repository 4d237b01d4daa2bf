"""Digits on the sphere: the projection at known points, rotations of maps, the planar network."""

import math

import pytest
import torch
from scipy.integrate import quad
from scipy.special import eval_legendre

from netgrain.equivariant import rotation_features
from netgrain.experiments.equivariance.sphere_images import (
    GridCNN,
    WithBias,
    centred,
    on_the_sphere,
    random_rotations,
    sphere_digits,
)
from netgrain.groups import Sphere, wigner


def test_a_round_bump_in_the_plane_is_one_at_the_pole() -> None:
    """exp(−4r²) in the image has x_l0 = √(2l+1)/2 ∫ P_l(cos θ) exp(−8 tan²(θ/2)) sin θ dθ, all else zero."""
    side = (torch.arange(256) + 0.5) / 128 - 1
    bump = torch.exp(-4 * (side[:, None] ** 2 + side[None] ** 2))
    found = on_the_sphere(bump[None], 4)[0]
    for l in range(4):

        def value(t: float, l: int = l) -> float:
            return float(eval_legendre(l, math.cos(t))) * math.exp(-8 * math.tan(t / 2) ** 2) * math.sin(t)

        assert float(found[l * l + l]) == pytest.approx(
            math.sqrt(2 * l + 1) / 2 * quad(value, 0, math.pi / 2)[0], rel=0.01
        )
    rest = [k for k in range(16) if k not in (0, 2, 6, 12)]
    assert found[rest].abs().max() < 1e-3


def test_a_turned_image_is_a_turned_function() -> None:
    image = torch.rand(1, 16, 16, generator=torch.Generator().manual_seed(0))
    plain, turned = on_the_sphere(image, 4), on_the_sphere(torch.rot90(image, 1, (-2, -1)), 4)
    zero = torch.tensor(0.0)
    candidates = [Sphere(4).rotate(plain, torch.tensor(s * math.pi / 2), zero, zero) for s in (1, -1)]
    assert min(float((turned - c).norm() / turned.norm()) for c in candidates) < 1e-6


def test_rotations_are_uniform() -> None:
    """The mean of D^1 and D^2 over them is zero."""
    angles = random_rotations(4000, 0)
    for l in (1, 2):
        assert wigner(l, *angles, real=True).mean(0).abs().max() < 4 / math.sqrt(4000)


def test_rotated_digits_have_the_same_power_in_every_degree() -> None:
    plain, y = sphere_digits("digits", 4, 3, 0)
    rotated, again = sphere_digits("digits", 4, 3, 0, rotated=True)
    assert torch.equal(y, again)
    assert not torch.allclose(plain, rotated)
    for a, b in zip(Sphere(4).degrees(plain), Sphere(4).degrees(rotated), strict=True):
        assert a.norm(dim=-1).numpy() == pytest.approx(b.norm(dim=-1).numpy())


def test_centring_commutes_with_rotations() -> None:
    """Only degree 0 is shifted, and all is scaled by one number."""
    x, _ = sphere_digits("digits", 3, 4, 0)
    filters = torch.randn(2, 9, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    maps = rotation_features(x, filters)
    found = centred(maps, maps).unflatten(1, (2, 35))
    assert found[..., 0].mean(0).abs().max() < 1e-12
    scale = float(found[..., 1:].norm() / maps[..., 1:].norm())
    assert torch.allclose(found[..., 1:], scale * maps[..., 1:])


def test_the_planar_network_sees_its_grid() -> None:
    net, f = WithBias(GridCNN(3, 2, 4, seed=0)), torch.ones(5, 70, dtype=torch.float64)
    assert net(f).shape == (5,)
    assert torch.equal(net(f), WithBias(GridCNN(3, 2, 4, seed=0))(f))
    with torch.no_grad():
        net.bias.fill_(2.0)
    assert torch.allclose(net(0 * f), torch.full((5,), 2.0, dtype=torch.float64))
