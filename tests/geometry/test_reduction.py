"""Rows that do not fit: dense batches and sketches give the same leading matrix."""

import math

import pytest
import torch

import netgrain as ng
from netgrain.geometry.reduction import Reduction


@pytest.mark.parametrize("size", [50, 5000])
def test_condensing_keeps_the_result(size: int) -> None:
    """Dense batches below 4096 coordinates, a sketch above: the same leading matrix as from all rows."""
    generator = torch.Generator().manual_seed(0)
    scales = torch.zeros(size)
    scales[:5] = torch.tensor([5.0, 4.0, 3.0, 2.0, 1.0])
    whole = Reduction(size, 0.5, lambda f: f)
    tight = Reduction(size, 0.5, lambda f: f, keep=8, rows_memory=5_000)
    for _ in range(60):
        rows = torch.randn(3, size, generator=generator) * scales
        whole.add(rows)
        tight.add(rows)
    (a, none), (b, trace) = whole.finish(), tight.finish()
    assert none is None
    if size == 50:
        torch.testing.assert_close(a.dense(), b.dense(), rtol=1e-5, atol=1e-5)
        assert b.parts == 16
    else:
        assert trace is not None
        assert trace.value == pytest.approx(a.trace(), rel=1e-5)
        assert trace.stderr == pytest.approx(float(a.part_traces().std()) / math.sqrt(60), rel=1e-5)
        V = torch.eye(size, dtype=torch.float64)[:5]
        torch.testing.assert_close(a.matvec(V), b.matvec(V), rtol=1e-4, atol=1e-3)


@pytest.mark.quick
def test_a_truncated_geometry_says_so_and_refuses_the_rest() -> None:
    reduction = Reduction(5000, 1.0, lambda f: f, keep=4, rows_memory=1)
    for i in range(10):
        reduction.add(torch.randn(3, 5000, generator=torch.Generator().manual_seed(i)))
    form, trace = reduction.finish()
    from netgrain.geometry.provenance import Provenance

    G = ng.Geometry(form, (5000,), Provenance("sampled", members=10), 0.0, trace)
    assert "leading directions with" in repr(G)
    for call in (G.matrix, G.flip, lambda: G.directions(3, bottom=True), lambda: G.project(G)):
        with pytest.raises(ng.NetgrainError, match="leading directions of this geometry"):
            call()
    with pytest.raises(ng.NetgrainError, match="directions of this geometry are known"):
        G.directions(9)
    assert G.directions(4).shape == (4, 5000)
