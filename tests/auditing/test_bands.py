"""Bands: orthogonal, complete, with the right waves in each, for images, signals and tables."""

import math

import pytest
import torch

from netgrain.auditing.bands import Bands, bands_of

SHAPES = [(1, 8, 8), (3, 9, 12), (2, 21), (12, 9, 3), (16, 16), (5,)]


def made(shape: tuple[int, ...]) -> Bands:
    bands = bands_of(shape)
    assert bands is not None
    return bands


@pytest.mark.parametrize("shape", SHAPES)
def test_energies_add_up_and_are_those_of_dense_projections(shape: tuple[int, ...]) -> None:
    """The projections of a basis: P_b as a matrix has trace dim_b, adds up to 1 and is idempotent."""
    bands, d = made(shape), math.prod(shape)
    V = torch.randn(3, *shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    energies = bands.energies(V)
    torch.testing.assert_close(energies.sum(1), V.flatten(1).square().sum(1))
    basis = bands.energies(torch.eye(d, dtype=torch.float64).reshape(d, *shape))
    torch.testing.assert_close(basis.sum(0), bands.dims)
    assert float(bands.dims.sum()) == d


@pytest.mark.parametrize(("period", "band"), [(2, 0), (3, 0), (4, 1), (6, 1), (8, 2), (12, 2), (24, 3), (math.inf, 3)])
def test_a_wave_is_in_the_band_of_its_period(period: float, band: int) -> None:
    """Whichever axis it runs along; slanted, its finer axis decides."""
    bands = made((1, 24, 24))
    wave = torch.cos(2 * math.pi / period * torch.arange(24, dtype=torch.float64))
    for image in (wave.expand(24, 24), wave[:, None].expand(24, 24), wave[:, None] * torch.ones(24)):
        energies = bands.energies(image[None, None].clone())[0]
        assert float(energies[band] / energies.sum()) == pytest.approx(1)


def test_half_the_resolution_holds_all_but_the_finest_band() -> None:
    """An image of 8 × 8, brought to 16 × 16 by adding no frequency, has nothing in the finest band."""
    small = torch.fft.fft2(torch.randn(8, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(1)))
    small[4], small[:, 4] = 0, 0
    large = torch.zeros(16, 16, dtype=torch.complex128)
    at = torch.tensor([0, 1, 2, 3, -4, -3, -2, -1])
    large[at[:, None] % 16, at % 16] = small
    energies = made((1, 16, 16)).energies(torch.fft.ifft2(large).real[None, None])[0]
    assert float(energies[0]) < 1e-20 < float(energies[1])


def test_names_and_what_has_no_bands() -> None:
    assert made((3, 224, 224)).names == ("2–4 px", "4–8 px", "8–16 px", "16–32 px", "32 px and coarser")
    assert made((4, 9)).names == ("2–4 steps", "4–8 steps", "8 steps and coarser")
    assert made((2,)).names == ("feature 0", "feature 1")
    assert bands_of((2,), ("age", "height")) is not None
    assert bands_of((1, 3, 3)) is None
    assert bands_of((1, 4, 4, 4)) is None
    assert bands_of((5, 3)) is None
