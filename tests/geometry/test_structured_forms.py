"""Sums of Kronecker products over a grid: equal to the matrix they stand for, and used without ever forming it."""

import json
import math
from pathlib import Path

import pytest
import torch
from torch import Tensor

import netgrain as ng
from netgrain.families.convolution import ConvStem
from netgrain.geometry import plots
from netgrain.geometry.forms import DENSE_LIMIT, Dense, Factored, Form
from netgrain.geometry.structured_forms import Kronecker, Separated, Spread
from tests.geometry.networks import GRIDS, _closed_form, _diagonal, _kron, _separated, _smooth


@pytest.fixture
def never_dense(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Form) -> Tensor:
        raise AssertionError(f"a dense matrix of size {self.size} was formed")

    monkeypatch.setattr(Form, "dense", refuse)


# The form


@pytest.mark.quick
@pytest.mark.parametrize("terms", [1, 2, 5])
@pytest.mark.parametrize("axes", GRIDS)
def test_equals_the_sum_of_kronecker_products(axes: tuple[int, ...], terms: int) -> None:
    form = _separated(axes, terms)
    expected = _kron(form)
    assert (form.axes, form.terms, form.size, form.parts) == (axes, terms, math.prod(axes), 0)
    torch.testing.assert_close(form.dense(), expected, rtol=1e-13, atol=1e-14)
    assert form.trace() == pytest.approx(float(expected.trace()), rel=1e-13)
    assert form.norm2() == pytest.approx(float(expected.square().sum()), rel=1e-13)
    torch.testing.assert_close(form.scaled(-2.5).dense(), -2.5 * expected, rtol=1e-13, atol=1e-14)


@pytest.mark.parametrize("axes", [(60,), (12, 15), (4, 5, 6), (20, 3, 2), (2, 3, 4, 3)])
def test_matvec_of_few_terms_and_of_many(axes: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    generator = torch.Generator().manual_seed(1)
    factors = tuple(torch.randn(2, n, n, generator=generator, dtype=torch.float64) for n in axes)  # not symmetric
    few, many = Separated(factors), Separated(tuple(F.repeat(300, 1, 1) / 300 ** (1 / len(axes)) for F in factors))
    V = torch.randn(5, few.size, generator=generator)
    expected = V.double() @ _kron(few).T
    torch.testing.assert_close(many.matvec(V), expected, rtol=1e-10, atol=1e-10)
    monkeypatch.setattr(Separated, "_small", False)  # products along the axes, whatever is cheaper
    torch.testing.assert_close(few.matvec(V), expected, rtol=1e-12, atol=1e-11)
    assert few.matvec(V[:0]).shape == (0, few.size)
    monkeypatch.setattr("netgrain.geometry.structured_forms.BUFFER", 2 * few.size)
    torch.testing.assert_close(few.matvec(V), expected, rtol=1e-12, atol=1e-11)


def test_products_with_forms_of_every_kind() -> None:
    generator = torch.Generator().manual_seed(2)
    stem = ConvStem((3, 4), (2, 3), (1, 1), ((1, 0), (1, 1)), (1, 1))
    rows = torch.randn(5, 12, generator=generator)
    others: dict[str, Form] = {
        "same grid": _separated((3, 4), 2, seed=5),
        "another grid": _separated((2, 6), 2, seed=6),
        "dense": Dense(_kron(_separated((12,), 1, seed=7))),
        "few rows": Factored(rows, 0.3),
        "many rows": Factored(rows.repeat(4, 1), 0.3),
        "members": Factored.of_members(rows[:, None], 0.3),
        "spread": Spread(Factored(torch.randn(3, stem.out_size, generator=generator)), stem),
        "copies along the first axis": Kronecker(_separated((4,), 2, seed=8), 3, torch.arange(12)),
        "copies along the last axis": Kronecker(_separated((3,), 2), 4, torch.arange(12).reshape(3, 4).T.flatten()),
        "copies elsewhere": Kronecker(_separated((2, 2), 2), 3, torch.randperm(12, generator=generator)),
    }
    form = _separated((3, 4))
    for name, other in others.items():
        expected = float((_kron(form) * other.dense()).sum())
        assert form.inner(other) == pytest.approx(expected, rel=1e-6), name
        assert other.inner(form) == pytest.approx(expected, rel=1e-6), name
    members = others["members"]
    along = torch.stack([(members.part(i).dense() * _kron(form)).sum() for i in range(members.parts)])
    torch.testing.assert_close(members.part_inner(form), along, rtol=1e-6, atol=1e-9)


def test_kronecker_around_it_equals_the_dense_one() -> None:
    order = torch.randperm(24, generator=torch.Generator().manual_seed(3))
    form, other = (Kronecker(_separated((2, 4), 2, seed), 3, order) for seed in (1, 2))
    G, H = form.dense(), other.dense()
    V = torch.randn(3, 24, dtype=torch.float64)
    torch.testing.assert_close(form.matvec(V), V @ G)
    assert form.trace() == pytest.approx(float(G.trace()))
    assert form.inner(other) == pytest.approx(float((G * H).sum()))
    torch.testing.assert_close(form.scaled(3.0).dense(), 3 * G)
    rows = Factored(torch.randn(5, 24, generator=torch.Generator().manual_seed(4)))
    assert form.inner(rows) == pytest.approx(float((G * rows.dense()).sum()))
    assert rows.inner(form) == pytest.approx(float((G * rows.dense()).sum()))


def test_it_has_no_parts_and_says_so() -> None:
    form = _separated((3, 4))
    assert len(form.part_traces()) == 0
    for ask in (lambda: form.part(0), lambda: form.subset([0]), lambda: Kronecker(form, 1, torch.arange(12)).part(0)):
        with pytest.raises(ng.NetgrainError, match="has no parts"):
            ask()


def test_factors_that_do_not_fit_together_are_refused() -> None:
    A = torch.ones(2, 3, 3, dtype=torch.float64)
    for bad in ((), (A, A[:1]), (A, A[:, :2]), (A[0],), (A.float(), A), (A[:0], A[:0])):
        with pytest.raises(ng.NetgrainError, match="equal terms for every axis"):
            Separated(bad)


def test_a_product_that_needs_too_large_a_matrix_is_refused() -> None:
    large = _separated((DENSE_LIMIT // 64 + 1, 64), 1)
    with pytest.raises(ng.NetgrainError, match=r"would take 0\.5 GiB"):
        large.inner(_separated((64, DENSE_LIMIT // 64 + 1), 1))


# As a geometry


@pytest.mark.usefixtures("never_dense")
@pytest.mark.parametrize("copies", [1, 3])
def test_a_large_operator_is_never_formed(copies: int, tmp_path: Path) -> None:
    core = Separated((_smooth(80, 6), _smooth(72, 6)))
    order = torch.arange(copies * core.size).reshape(-1, copies).T.flatten()
    form = Kronecker(core, copies, order) if copies > 1 else core
    G = _closed_form(form, (80, 72, copies))
    assert G.trace.value == pytest.approx(copies * 6 * 80 * 72)  # unit diagonals
    assert 1 < G.effective_rank < G.d
    assert len(G.eigenvalues) == 64 * copies
    V = G.directions(30)
    residuals = (G.matvec(V) - G.eigenvalues[:30].reshape(-1, 1, 1, 1) * V).flatten(1)
    assert float(torch.linalg.vector_norm(residuals, dim=1).max()) <= 1e-7 * float(G.eigenvalues[0])
    X = torch.randn(4, 80, 72, copies, generator=torch.Generator().manual_seed(0))
    assert float((G.score(V[:3]) - G.eigenvalues[:3]).abs().max()) <= 1e-9 * float(G.eigenvalues[0])
    S = ng.data_covariance(X)
    expected = float((X.double() * G.matvec(X)).sum()) / math.sqrt(form.norm2() * S.form.norm2())
    assert ng.corr(G, S).value == pytest.approx(expected)
    assert ng.corr(S, G).value == pytest.approx(expected)
    copied = Separated((*core.factors, torch.eye(copies, dtype=torch.float64).repeat(6, 1, 1)))
    same = form if copies == 1 else copied  # the copies as a third axis of the grid
    assert ng.corr(G, _closed_form(same, (80, 72, copies))).value == pytest.approx(1)
    back = ng.Geometry.load(G.save(tmp_path / "G.safetensors"))
    assert repr(back) == repr(G)
    assert json.loads(json.dumps(G.summary()))["condition"] is None
    assert sum(b.size for b in G.blocks()) == 64 * copies
    assert "more are not known" in plots.spectrum(G).get_legend().get_texts()[-1].get_text()
    assert len(plots.directions(G, 2).subfigs) == 1


def test_what_needs_the_whole_matrix_is_refused_with_a_sentence() -> None:
    core = Separated((_smooth(224, 2), _smooth(224, 2)))
    G = _closed_form(Kronecker(core, 3, torch.arange(3 * core.size)), (3, 224, 224))
    with pytest.raises(ng.NetgrainError, match=r"matrix would take 168\.8 GiB"):
        G.matrix()
    for ask in (G.flip, lambda: G.directions(2, bottom=True)):
        with pytest.raises(ng.NetgrainError, match="whole spectrum of a 50176 x 50176 matrix is not computed"):
            ask()
    for k in (30_000, None):
        with pytest.raises(ng.NetgrainError, match=r"expected at most 1783 directions .* GiB; ask for fewer"):
            G.directions(k)


def test_between_the_limits_a_flip_is_refused_instead_of_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    G = _closed_form(
        _separated((70, 60), 2), (70, 60)
    )  # its dense matrix would fit, its whole spectrum is not computed
    monkeypatch.setattr(Separated, "_dense", lambda _: pytest.fail("formed"))
    with pytest.raises(ng.NetgrainError, match="4200 x 4200 matrix is not computed"):
        G.flip()


def test_it_says_what_it_is() -> None:
    form = _diagonal(torch.ones(2), torch.ones(2))
    G = _closed_form(form, (2, 2))
    start = (
        "Geometry(d=4, closed form, exact at any width, ResNet18, probe origin, effective rank 4, no direction leads"
    )
    assert repr(G).startswith(start)
    assert (G.exact, G.fidelity, G.trace.stderr, G.effective_rank.stderr) == (True, 1.0, 0.0, 0.0)
    assert "d=4, closed form, wide limit, ResNet18" in repr(_closed_form(form, (2, 2), exact=False))
    assert torch.equal(G.eigenvalue_errors(2), torch.zeros(2, dtype=torch.float64))


def test_products_of_spread_forms_are_those_of_their_matrices() -> None:
    """⟨push P, push Q⟩ needs no matrix over the inputs."""
    generator = torch.Generator().manual_seed(2)
    stem = ConvStem((5, 6), (3, 3), (2, 2), ((1, 1), (1, 1)), (1, 1))
    rows = [torch.randn(n, 2, stem.out_size, generator=generator, dtype=torch.float64) for n in (4, 3)]
    a, b = (Spread(Factored.of_members(r), stem) for r in rows)
    assert a.inner(b) == pytest.approx(float((a.dense() * b.dense()).sum()), rel=1e-12)
    parts = [[float((a.part(i).dense() * b.part(j).dense()).sum()) for j in range(3)] for i in range(4)]
    torch.testing.assert_close(a.pairwise(b), torch.tensor(parts, dtype=torch.float64))
    norms = [float(a.part(i).dense().square().sum()) for i in range(4)]
    torch.testing.assert_close(a.part_norms2(), torch.tensor(norms, dtype=torch.float64))
    other = Spread(b.source, ConvStem((6, 5), (3, 3), (2, 2), ((1, 1), (1, 1)), (1, 1)))
    assert a.inner(other) == pytest.approx(float((a.dense() * other.dense()).sum()), rel=1e-12)
