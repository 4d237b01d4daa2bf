"""Planes lie where they say; the pilot's bisection equals a search through all levels."""

import itertools

import pytest
import torch

from netgrain.experiments.grain.grains import Grain
from netgrain.experiments.grain.planes import PLANES, largest_passing, leading, orthogonal, plane_axes, seen_by
from netgrain.runtime.errors import NetgrainError

VALUES = torch.tensor([50.0, 30.0, 15.0, 4.1, 0.4, 0.3, 0.1, 0.1]).double()


def _grain(seed: int = 0) -> Grain:
    """Eight turned directions, the last two of them in one eigenspace; four hold 99 % of the trace."""
    Q, _ = torch.linalg.qr(torch.randn(8, 8, generator=torch.Generator().manual_seed(seed), dtype=torch.float64))
    blocks = [(i, i + 1) for i in range(6)] + [(6, 8)]
    return Grain(VALUES, Q.reshape(8, 1, 2, 4), blocks, None, "made up")


def test_planes_lie_where_they_say() -> None:
    grain = _grain()
    assert leading(VALUES) == 4
    inside = {
        p: (plane_axes(grain, p, seed=3).flatten(1) @ grain.directions.flatten(1).T).square().round(decimals=12)
        for p in PLANES
    }
    for plane in PLANES:
        U = plane_axes(grain, plane, seed=3).flatten(1)
        assert torch.allclose(U @ U.T, torch.eye(2).double(), atol=1e-12)
    for plane in "ABC":
        assert float(inside[plane][0, 0]) == 1
    assert float(inside["A"][1, 1]) == 1
    assert float(inside["B"][1, 6:].sum()) == 1
    assert float(inside["C"][1, 4:].sum()) == pytest.approx(1)
    assert float(inside["C"][1].max()) < 1  # no eigenvector, but a mixture of them
    assert float(inside["R"].min()) > 0


def test_random_planes_are_isotropic_and_others_by_seed() -> None:
    grain = _grain()
    many = torch.stack([plane_axes(grain, "R", seed).flatten(1) for seed in range(400)])
    assert torch.equal(many[7], plane_axes(grain, "R", 7).flatten(1))
    second_moment = torch.einsum("spi,spj->ij", many, many) / 800
    assert float((second_moment - torch.eye(8) / 8).abs().max()) < 5 * 0.125 / 20  # five standard deviations


def test_what_the_geometry_sees_of_a_plane() -> None:
    grain = _grain()
    G = grain.geometry().matrix().double() / 50
    for plane in PLANES:
        U = plane_axes(grain, plane, 1)
        assert torch.allclose(seen_by(grain, U), U.flatten(1) @ G @ U.flatten(1).T, atol=1e-10)
    assert seen_by(grain, plane_axes(grain, "A", 0)).diagonal().tolist() == pytest.approx([1, 0.6])


def test_a_direction_in_the_span_of_others_is_refused() -> None:
    u = torch.eye(3).double()
    with pytest.raises(NetgrainError, match="span of the others"):
        orthogonal(u[0] + u[1], u[0], u[1])


def test_bisection_equals_a_search_through_all_levels() -> None:
    for n, border in itertools.product(range(1, 9), range(-1, 9)):
        levels, asked = list(range(n)), []

        def passes(level: float, border: int = border, asked: list[float] = asked) -> bool:
            asked.append(level)
            return level <= border

        passing = [level for level in levels if level <= border]
        assert largest_passing(levels, passes) == (max(passing, default=0), bool(passing))
        assert len(asked) <= n.bit_length()
