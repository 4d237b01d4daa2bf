"""Sizes of patterns: the bands of the tab about them, under the same names, and tables that are not too wide."""

import pytest
import torch

from netgrain.auditing.bands import bands_of
from netgrain.auditing.pattern_sizes import part_energies, part_names


@pytest.mark.parametrize(("width", "part"), [(1, "2–4 px"), (8, "16 px and coarser")])
def test_stripes_lie_in_the_part_of_their_wave(width: int, part: str) -> None:
    """Stripes of one pixel are waves of two."""
    stripes = torch.tensor([[(-1.0) ** (j // width) for j in range(16)]] * 16).reshape(1, -1)
    energies = part_energies(stripes, (1, 16, 16))[0]
    assert part_names((1, 16, 16))[int(energies.argmax())] == part
    assert float(energies.max() / energies.sum()) > 0.8
    assert float(energies.sum()) == pytest.approx(256)


@pytest.mark.parametrize("shape", [(1, 16, 16), (3, 12, 12), (2, 8), (3,), (1, 32, 32)])
def test_one_page_has_one_convention(shape: tuple[int, ...]) -> None:
    bands = bands_of(shape)
    assert bands is not None
    assert part_names(shape) == list(bands.names)
    rows = torch.randn(5, int(torch.tensor(shape).prod()), generator=torch.Generator().manual_seed(0))
    energies = part_energies(rows, shape)
    assert torch.allclose(energies, bands.energies(rows.reshape(5, *shape)))
    assert torch.allclose(energies.sum(1), rows.double().square().sum(1), rtol=1e-5)


def test_wide_tables_and_everything_else_have_no_parts() -> None:
    assert part_energies(torch.tensor([[1.0, 2.0]]), (2,)).tolist() == [[1.0, 4.0]]
    for shape in ((1000,), (1, 2, 2)):
        assert part_names(shape) == []
        assert part_energies(torch.ones(4, int(torch.tensor(shape).prod())), shape).shape == (4, 0)
