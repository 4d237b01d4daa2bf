"""Eigenvalues in reverse order: the same ones, or block by block."""

import pytest
import torch

import netgrain as ng
from netgrain.geometry.forms import Factored


def test_flip_reverses_the_order_and_keeps_all_eigenvalues(G: ng.Geometry) -> None:
    flipped = G.flip()
    values = torch.linalg.eigvalsh(G.matrix())
    torch.testing.assert_close(torch.linalg.eigvalsh(flipped.matrix()), values, rtol=1e-6, atol=1e-8)
    assert flipped.trace.value == pytest.approx(float(G.matrix().trace()), rel=1e-6)
    assert (
        float((flipped.matrix() @ G.matrix() - G.matrix() @ flipped.matrix()).abs().max()) < 1e-6
    )  # same eigenvectors
    top = G.directions(1)
    quadratic = float((top * flipped.matvec(top)).sum())
    assert quadratic == pytest.approx(float(values[0].clamp(min=0)), abs=1e-8)
    # along the directions of G the eigenvalues come in ascending order, except for a choice inside its blocks
    V = G.directions().flatten(1)
    along = ((V @ flipped.matrix()) * V).sum(1)
    for block in G.blocks():
        mine = values[block.start : block.stop]  # ascending, so these are the mirrored ones
        assert float(along[block.start : block.stop].sum()) == pytest.approx(float(mine.sum()), rel=1e-6, abs=1e-8)


def test_flip_blocks_undoes_itself(G: ng.Geometry) -> None:
    back = G.flip_blocks().flip_blocks().matrix()
    torch.testing.assert_close(back, G.matrix(), rtol=1e-6, atol=1e-8)


@pytest.mark.quick
def test_flip_blocks_moves_blocks_as_wholes_and_flip_chooses_inside() -> None:
    G = ng.Geometry.from_matrix(torch.diag(torch.tensor([5.0, 2.0, 2.0, 2.0])))
    moved = G.flip_blocks().matrix().diagonal()
    torch.testing.assert_close(moved, torch.tensor([2.0, 5.0, 5.0, 5.0], dtype=torch.float64))
    one, again, other = (G.flip(seed=s).matrix() for s in (1, 1, 2))
    assert torch.equal(one, again)
    assert float((one - other).abs().max()) > 0.1
    torch.testing.assert_close(one[0], torch.tensor([2.0, 0, 0, 0], dtype=torch.float64))
    still = ng.Geometry.from_matrix(3 * torch.eye(4))
    assert torch.equal(still.flip().matrix(), still.matrix())


@pytest.mark.parametrize("rank", [3, 7])
def test_flip_of_low_rank_forms_no_matrix(rank: int, monkeypatch: pytest.MonkeyPatch) -> None:
    d = 10
    rows = torch.randn(rank, d, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    G = ng.Geometry(Factored(rows), (d,), ng.Geometry.from_matrix(torch.eye(d)).about)
    dense = ng.Geometry.from_matrix(rows.T @ rows)
    with monkeypatch.context() as m:
        m.setattr(Factored, "_dense", lambda _: pytest.fail("formed"))
        flipped = G.flip(seed=4)
        values = flipped.eigenvalues
    torch.testing.assert_close(values, G.eigenvalues)
    V, expected = dense.directions().flatten(1), dense.eigenvalues.flip(0)
    along = ((V @ flipped.matrix()) * V).sum(1)
    torch.testing.assert_close(along[:rank], expected[:rank], rtol=1e-8, atol=1e-9)
    assert float(along[rank:].sum()) == pytest.approx(float(expected[rank:].sum()))
