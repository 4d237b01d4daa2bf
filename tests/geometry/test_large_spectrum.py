"""Leading pairs of a spread matrix, against the whole spectrum of a small one."""

import pytest
import torch

from netgrain.families.convolution import ConvStem
from netgrain.geometry import large_spectrum
from netgrain.geometry.forms import Factored
from netgrain.geometry.large_spectrum import leading_pairs
from netgrain.geometry.standardised_forms import Centred
from netgrain.geometry.structured_forms import Spread

STEM = ConvStem((24, 24), (3, 3), (2, 2), ((1, 1), (1, 1)), (1, 1))


@pytest.mark.quick
@pytest.mark.parametrize("centred", [False, True])
@pytest.mark.parametrize("reduced", [256, 60])
def test_against_the_whole_spectrum(monkeypatch: pytest.MonkeyPatch, reduced: int, centred: bool) -> None:
    monkeypatch.setattr(large_spectrum, "REDUCED", reduced)
    torch.manual_seed(0)
    line = torch.exp(-((torch.arange(12)[:, None] - torch.arange(12)) ** 2) / 12.0)
    half = torch.linalg.cholesky(torch.kron(line, line) + 0.02 * torch.eye(144))
    source = Factored(torch.randn(400, 144) @ half.T, 0.01)
    values, vectors = leading_pairs(source, STEM, 6, centred=centred)
    dense = (Centred.of(source, STEM) if centred else Spread(source, STEM)).dense()
    want = torch.linalg.eigvalsh(dense).flip(0)[:6]
    assert torch.allclose(values, want, rtol=1e-3)
    assert torch.allclose(vectors.norm(dim=1), torch.ones(6, dtype=torch.float64))
    residuals = (vectors @ dense - values[:, None] * vectors).norm(dim=1)
    assert bool((residuals[:4] < 0.05 * values[:4]).all())
