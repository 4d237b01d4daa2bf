"""Geometry: blocks, flip, project, score, numbers with their errors."""

import itertools
import json
import math
import re
from html import escape

import pytest
import torch

import netgrain as ng
from tests.geometry.networks import geometries


@pytest.mark.quick
def test_blocks_cover_everything_once(G: ng.Geometry) -> None:
    blocks = G.blocks()
    assert blocks[0].start == 0
    assert all(a.stop == b.start for a, b in itertools.pairwise(blocks))
    assert blocks[-1].stop == G.d
    u = G.random_direction(blocks[0], seed=3)
    assert u.shape == G.input_shape
    Gu = G.matvec(u)
    torch.testing.assert_close(Gu, blocks[0].value * u, rtol=1e-6, atol=1e-8)
    assert not torch.equal(u, G.random_direction(blocks[0], seed=4)) or blocks[0].size == 1


def test_project_score_and_covariance(G: ng.Geometry) -> None:
    X = torch.randn(6, *G.input_shape, generator=torch.Generator().manual_seed(9))
    S = ng.data_covariance(X)
    flat = X.flatten(1).double()
    M = G.matrix()
    torch.testing.assert_close(S.matrix(), flat.T @ flat)
    torch.testing.assert_close(G.project(S).matrix(), M @ S.matrix() @ M, rtol=1e-6, atol=1e-8)
    torch.testing.assert_close(G.project(S.matrix()).matrix(), M @ S.matrix() @ M, rtol=1e-6, atol=1e-8)
    expected = torch.stack([x @ M @ x / (x @ x) for x in flat])
    torch.testing.assert_close(G.score(X), expected, rtol=1e-6, atol=1e-9)
    centred = ng.data_covariance(X, centred=True, normalised=True).matrix()
    torch.testing.assert_close(centred, torch.cov(flat.T, correction=0), rtol=1e-5, atol=1e-6)


def test_numbers(G: ng.Geometry) -> None:
    M = G.matrix()
    assert G.trace.value == pytest.approx(float(M.trace()))
    rank = G.effective_rank
    naive_rank = float(M.trace() ** 2 / M.square().sum())
    assert rank.plug_in == pytest.approx(naive_rank)
    values = torch.linalg.eigvalsh(M).flip(0)
    assert G.directions_for(0.9) == int((values.cumsum(0) < 0.9 * values.sum()).sum()) + 1
    summary = json.loads(json.dumps(G.summary()))
    assert summary["d"] == G.d
    assert f"d={G.d}" in repr(G)


def test_a_notebook_shows_what_the_repr_says(G: ng.Geometry) -> None:
    cells = re.findall("<td[^>]*>(.*?)</td>", G._repr_html_())
    assert any(cell.endswith(f"d = {G.d}") for cell in cells)
    for fact in repr(G).removeprefix(f"Geometry(d={G.d}, ").removesuffix(")").split(", "):
        assert any(escape(fact).removeprefix("probe ") in cell for cell in cells), fact


def test_eigenvalue_errors_are_those_of_the_parts(G: ng.Geometry) -> None:
    errors = G.eigenvalue_errors(5)
    if G.form.parts == 0:
        assert torch.equal(errors, torch.zeros(5, dtype=torch.float64))
        return
    V = G.directions(5).flatten(1)
    n = G.form.counts.double()
    along = torch.stack([(V @ G.form.part(i).dense() * V).sum(1) for i in range(G.form.parts)])
    mean = (n[:, None] * along).sum(0) / n.sum()
    expected = ((n[:, None] * (along - mean).square()).sum(0) / n.sum() / (len(n) - 1)).sqrt()
    torch.testing.assert_close(errors, expected, rtol=1e-6, atol=1e-10)


def test_condition() -> None:
    assert ng.Geometry.from_matrix(torch.diag(torch.tensor([8.0, 2.0]))).condition == pytest.approx(4)
    assert math.isinf(ng.Geometry.from_matrix(torch.diag(torch.tensor([8.0, 0.0]))).condition)


def test_bad_arguments() -> None:
    G = geometries()["dense"]
    for call, message in {
        lambda: G.directions(0): "between 1 and 24",
        lambda: G.directions(25): "between 1 and 24",
        lambda: G.matvec(torch.zeros(7)): "expected vectors of shape",
        lambda: G.project(torch.eye(3)): "24-dimensional, S is 3-dimensional",
        lambda: ng.Geometry.from_matrix(torch.tensor([[1.0, 2.0], [0.0, 1.0]])): "symmetric",
        lambda: ng.Geometry.from_matrix(torch.zeros(2, 3)): "square",
        lambda: ng.Geometry.from_matrix(torch.eye(4), (3,)): "does not fit",
        lambda: ng.data_covariance(torch.zeros(3, 2, dtype=torch.int64)): "floating-point",
    }.items():
        with pytest.raises(ng.NetgrainError, match=message):
            call()
