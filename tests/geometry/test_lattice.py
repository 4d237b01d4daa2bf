"""Matrices on a lattice of offsets, against the whole matrix with a mask."""

import pytest
import torch
from torch import Tensor

from netgrain.families.convolution import ConvStem
from netgrain.geometry import spectrum
from netgrain.geometry.correlation import correlation, effective_rank, fidelity
from netgrain.geometry.forms import Dense, Factored
from netgrain.geometry.lattice import Lattice, ResidueClasses
from netgrain.geometry.lattice import lattice_of as by_residues
from netgrain.geometry.spectrum import decompose
from netgrain.geometry.structured_forms import Separated

CASES = [((7, 6), (3, 2)), ((6, 6), (6, 6)), ((8, 8), (4, 4)), ((9,), (2,)), ((4, 3, 5), (2, 3, 2))]


def masked(matrix: Tensor, grid: tuple[int, ...], period: tuple[int, ...]) -> Tensor:
    """The slow way: entry by entry."""
    places = torch.cartesian_prod(*[torch.arange(n) for n in grid]).reshape(-1, len(grid))
    out = torch.zeros_like(matrix)
    for i, p in enumerate(places):
        for j, q in enumerate(places):
            if all((a - b) % s == 0 for a, b, s in zip(p.tolist(), q.tolist(), period, strict=True)):
                out[i, j] = matrix[i, j]
    return out


def lattice_of(rows: Tensor, grid: tuple[int, ...], period: tuple[int, ...], parts: int = 0) -> Lattice:
    classes = ResidueClasses(grid, period)
    if not parts:
        return Lattice(classes, classes.grams(rows))
    pieces = torch.stack([classes.grams(r) for r in rows.chunk(parts)])
    return Lattice.from_pieces(classes, pieces, torch.ones(parts, dtype=torch.int64))


@pytest.mark.quick
@pytest.mark.parametrize(("grid", "period"), CASES)
def test_blocks_are_the_masked_matrix(grid: tuple[int, ...], period: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    rows = torch.randn(5, ResidueClasses(grid, period).size, dtype=torch.float64)
    want = masked(rows.T @ rows, grid, period)
    found = lattice_of(rows, grid, period)
    V = torch.randn(3, found.size, dtype=torch.float64)
    assert torch.allclose(found.dense(), want)
    assert torch.allclose(found.matvec(V), V @ want)
    assert torch.allclose(found.diagonal(), want.diagonal())
    i, j = torch.cartesian_prod(torch.arange(found.size), torch.arange(found.size)).T
    assert torch.allclose(found.entries(i, j), want.flatten())
    assert found.trace() == pytest.approx(float(want.trace()))
    assert found.inner(found) == pytest.approx(float(want.square().sum()))
    assert found.inner(Dense(want + 1)) == pytest.approx(float((want * (want + 1)).sum()))
    assert found.inner(Factored(rows)) == pytest.approx(float((want * (rows.T @ rows)).sum()))
    assert torch.allclose(found.scaled(2.0).dense(), 2 * want)
    values = torch.linalg.eigvalsh(want).flip(0)
    assert torch.allclose(found.eigenvalues(), values.clamp(min=0), atol=1e-9)
    spectrum = decompose(found)
    assert torch.allclose(spectrum.values, values.clamp(min=0), atol=1e-9)
    assert torch.allclose(spectrum.vectors @ want, spectrum.values[:, None] * spectrum.vectors, atol=1e-9)


@pytest.mark.parametrize(
    "stem",
    [
        ConvStem((13, 12), (3, 3), (2, 2), ((1, 1), (1, 1)), (1, 1)),
        ConvStem((14, 14), (7, 7), (2, 2), ((3, 3), (3, 3)), (1, 1)),
        ConvStem((8, 8), (3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1)),
        ConvStem((9, 9), (3, 3), (1, 1), ((0, 0), (0, 0)), (2, 2)),
        ConvStem((16,), (5,), (3,), ((2, 0),), (1,)),
    ],
)
def test_spread_by_a_convolution(stem: ConvStem) -> None:
    torch.manual_seed(1)
    for period in ((2,) * len(stem.out), stem.out):
        found = lattice_of(torch.randn(3, stem.out_size, dtype=torch.float64), stem.out, period)
        assert torch.allclose(found.spread(stem).dense(), stem.push(found.dense()), atol=1e-12)


def test_parts_are_those_of_dense_matrices() -> None:
    torch.manual_seed(2)
    a, b = (lattice_of(torch.randn(60, 36, dtype=torch.float64), (6, 6), (3, 3), parts=6) for _ in range(2))
    as_dense = [Dense.from_pieces(torch.stack([x.part(i).dense() for i in range(6)]), x.counts) for x in (a, b)]
    for measure in (fidelity, lambda f: effective_rank(f).value, lambda f: effective_rank(f).stderr):
        assert measure(a) == pytest.approx(measure(as_dense[0]))
    for one, other in (
        (correlation(a, b), correlation(*as_dense)),
        (correlation(a, as_dense[1]), correlation(*as_dense)),
    ):
        assert (one.value, one.stderr) == pytest.approx((other.value, other.stderr))
    assert torch.allclose(a.subset([0, 2]).dense(), (a.part(0).dense() + a.part(2).dense()) / 2)
    assert torch.allclose(a.part_traces(), as_dense[0].part_traces())
    stem = ConvStem((12, 12), (3, 3), (2, 2), ((1, 1), (1, 1)), (1, 1))
    assert torch.allclose(a.spread(stem).part(3).dense(), stem.push(a.part(3).dense()))


@pytest.mark.parametrize("axes", [((7, 3), (5, 1)), ((9, 4), (6, 6)), ((4, 2), (5, 2), (3, 3))])
def test_a_separated_matrix_by_residue_classes(
    axes: tuple[tuple[int, int], ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pairs (positions, period), ragged ones included, against the dense matrix and its eigenvalues."""
    generator = torch.Generator().manual_seed(0)
    factors = []
    for n, period in axes:
        place = torch.arange(n)
        half = torch.randn(2, n, n, generator=generator, dtype=torch.float64)
        joined = (place[:, None] - place) % period == 0
        factors.append(torch.where(joined, half, 0.0) @ torch.where(joined, half, 0.0).mT)
    form = Separated(tuple(factors))
    found = by_residues(form)
    assert found is not None
    assert found.classes.period == tuple(period for _, period in axes)
    assert torch.allclose(found.dense(), form.dense())
    monkeypatch.setattr(spectrum, "FULL_LIMIT", 4)
    values = spectrum.decompose(form, 5).values
    assert torch.allclose(values[:5], torch.linalg.eigvalsh(form.dense()).flip(0)[:5])


def test_a_separated_matrix_that_joins_neighbours_has_no_lattice() -> None:
    full = torch.ones(1, 4, 4, dtype=torch.float64)
    assert by_residues(Separated((full, full))) is None
