"""Eigenvalues and directions: those of the dense matrix, every copy of them, one basis for each block."""

import pytest
import torch
from torch import Tensor

import netgrain as ng
from netgrain.geometry.forms import Factored, Form
from netgrain.geometry.spectrum import decompose
from netgrain.geometry.structured_forms import Separated
from tests.geometry.networks import _diagonal, _geometry, _kron, _separated, _smooth


@pytest.mark.quick
def test_eigenvalues_and_directions_diagonalise_the_matrix(G: ng.Geometry) -> None:
    M = G.matrix()
    expected = torch.linalg.eigvalsh(M).flip(0)
    known = len(G.eigenvalues)
    torch.testing.assert_close(G.eigenvalues, expected[:known], rtol=1e-6, atol=1e-8)
    assert float(expected[known:].abs().sum()) < 1e-8
    V = G.directions().flatten(1)
    torch.testing.assert_close(V @ V.T, torch.eye(G.d, dtype=torch.float64), rtol=1e-8, atol=1e-8)
    torch.testing.assert_close((V @ M @ V.T).diagonal(), expected, rtol=1e-6, atol=1e-8)
    assert G.directions(5).shape == (5, *G.input_shape)
    top, bottom = G.directions(4).flatten(1), G.directions(4, bottom=True).flatten(1)
    torch.testing.assert_close(top, V[:4], rtol=1e-6, atol=1e-6)
    torch.testing.assert_close((bottom @ M @ bottom.T).diagonal(), expected[-4:], rtol=1e-6, atol=1e-8)


def test_the_basis_of_a_block_depends_on_its_space_alone() -> None:
    values = torch.tensor([3.0, 3.0, 3.0, 1.0, 1.0, 0.5], dtype=torch.float64)
    q = torch.linalg.qr(torch.randn(6, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(0)))[0]
    turn = torch.eye(6, dtype=torch.float64)
    turn[:3, :3] = torch.linalg.qr(torch.randn(3, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(1)))[
        0
    ]
    other = turn @ q.T
    A = ng.Geometry.from_matrix((q * values) @ q.T)
    B = ng.Geometry.from_matrix((other.T * values) @ other)
    torch.testing.assert_close(A.directions(), B.directions(), rtol=1e-6, atol=1e-6)


def test_lanczos_finds_the_same_leading_directions() -> None:
    d = 2000
    values = 2.0 ** -torch.arange(d, dtype=torch.float64).clamp(max=40)
    rows = torch.zeros(3000, d)
    rows[:d] = torch.diag(values.sqrt())
    G = _geometry(Factored(rows), (d,))
    V = G.directions(6)
    torch.testing.assert_close(V.abs(), torch.eye(d, dtype=torch.float64)[:6], rtol=1e-5, atol=1e-5)


def _check_leading(form: Form, k: int, expected: Tensor) -> None:
    found = decompose(form, k)
    top = float(expected[0])
    torch.testing.assert_close(found.values[:k], expected[:k], rtol=0, atol=1e-11 * top)
    V = found.vectors[:k]
    torch.testing.assert_close(V @ V.T, torch.eye(k, dtype=torch.float64), rtol=0, atol=1e-10)
    residuals = torch.linalg.vector_norm(form.matvec(V) - found.values[:k, None] * V, dim=1)
    assert float(residuals.max()) <= 1e-7 * top


def test_small_spectra_are_complete() -> None:
    form = _separated((6, 7))
    found = decompose(form)
    assert found.complete
    torch.testing.assert_close(found.values, torch.linalg.eigvalsh(_kron(form)).flip(0), rtol=1e-10, atol=1e-12)


def test_leading_pairs_equal_those_of_the_dense_matrix() -> None:
    form = Separated((_smooth(40, 4), _smooth(48, 4).flip(0)))
    expected = torch.linalg.eigvalsh(form.dense()).flip(0)
    _check_leading(form, 64, expected)
    _check_leading(form, 3, expected)


def _levels(form: Separated) -> Tensor:
    """Eigenvalues of a product of diagonals, descending."""
    return form.factors[0][0].diagonal().outer(form.factors[1][0].diagonal()).flatten().sort(descending=True).values


i = torch.arange(64.0, dtype=torch.float64)


MULTIPLE = {
    "pairs a ⊗ b and b ⊗ a": (torch.exp(-i / 9), torch.exp(-i / 9)),
    "nine of each": (torch.exp(-(i // 3) / 5), torch.exp(-(i // 3) / 7)),
    "forty of the largest": (
        torch.cat([torch.ones(10), 0.9 * torch.exp(-i[:54] / 20)]),
        torch.cat([torch.ones(4), 0.95 * torch.exp(-i[:60] / 30)]),
    ),
    "all equal": (torch.ones(64), torch.ones(64)),
    "rank two": (i < 2, i < 1),
    "zero": (0 * i, i),
}


@pytest.mark.parametrize("name", MULTIPLE)
@pytest.mark.parametrize("k", [20, 64])
def test_every_copy_of_a_multiple_eigenvalue_is_found(name: str, k: int) -> None:
    form = _diagonal(*MULTIPLE[name])
    _check_leading(form, k, _levels(form))


def test_a_block_cut_by_the_last_direction_keeps_its_basis() -> None:
    form = _diagonal(torch.exp(-i / 9), torch.exp(-i / 9))
    levels = _levels(form)
    pairs = (levels[:-1] - levels[1:] < 1e-12).nonzero().flatten()
    k = int(pairs[3]) + 1  # between the two vectors of the fourth pair
    torch.testing.assert_close(decompose(form, k).vectors[:k], decompose(form, k + 1).vectors[:k], rtol=0, atol=1e-6)
