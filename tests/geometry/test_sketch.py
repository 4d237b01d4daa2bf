"""Frequent Directions: the error that it promises."""

import pytest
import torch

from netgrain.geometry.sketch import FrequentDirections


@pytest.mark.quick
def test_frequent_directions_keeps_its_promise() -> None:
    generator = torch.Generator().manual_seed(0)
    scales = torch.cat([torch.linspace(10, 5, 6), torch.full((54,), 0.5)])
    rows = torch.randn(400, 60, generator=generator) * scales
    sketch = FrequentDirections(60, 12)
    for piece in rows.split(7):
        sketch.add(piece)
    G, kept = (m.double().T @ m.double() for m in (rows, sketch.rows))
    gap = torch.linalg.eigvalsh(G - kept)
    assert float(gap[0]) > -1e-3 * float(G.trace())  # never too much
    assert float(gap[-1]) <= sketch.loss * (1 + 1e-6)  # never less than promised
    assert 0 < sketch.loss < 0.05 * float(torch.linalg.eigvalsh(G)[-1])
    assert len(sketch.rows) <= 24
