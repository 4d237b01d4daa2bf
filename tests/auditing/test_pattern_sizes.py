"""Sizes of patterns: stripes and noise by hand, parts that add up, tables."""

import pytest
import torch

from netgrain.auditing.pattern_sizes import part_energies, part_names


def stripes(width: int, side: int = 16) -> torch.Tensor:
    return torch.tensor([[(-1.0) ** (j // width) for j in range(side)]] * side).reshape(1, -1)


@pytest.mark.parametrize(("width", "part"), [(1, "below 2 pixels"), (8, "8 pixels and more")])
def test_stripes_lie_in_the_part_of_their_width(width: int, part: str) -> None:
    names = part_names((1, 16, 16))
    energies = part_energies(stripes(width), (1, 16, 16))[0]
    assert names[int(energies.argmax())] == part
    assert float(energies.max() / energies.sum()) > 0.8
    assert float(energies.sum()) == pytest.approx(256)


def test_a_wave_on_an_edge_belongs_to_the_coarser_part() -> None:
    wave = torch.cos(torch.arange(16) * torch.pi / 4).expand(16, 16)  # a half period of 4 pixels
    energies = part_energies(wave.reshape(1, -1), (1, 16, 16))[0]
    assert energies[part_names((1, 16, 16)).index("4 to 8 pixels")] == pytest.approx(128, rel=1e-5)


def test_white_noise_counts_frequencies() -> None:
    rows = torch.randn(200, 3 * 12 * 12, generator=torch.Generator().manual_seed(0))
    energies = part_energies(rows, (3, 12, 12))
    assert torch.allclose(energies.sum(1), rows.double().square().sum(1), rtol=1e-5)
    assert float(energies[:, 0].mean()) == pytest.approx(3, rel=0.3)  # a constant for each channel
    assert len(part_names((3, 12, 12))) == energies.shape[1]


def test_tables_and_everything_else() -> None:
    assert part_energies(torch.tensor([[1.0, 2.0]]), (2,)).tolist() == [[1.0, 4.0]]
    assert part_names((2,)) == ["entry 0", "entry 1"]
    assert part_names((1000,)) == part_names((3, 5)) == part_names((1, 2, 2)) == []
