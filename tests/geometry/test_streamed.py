"""Members of large inputs: rows kept, sketched or projected, against dense matrices of small ones."""

import math

import pytest
import torch
from torch import Tensor

from netgrain.families.convolution import ConvStem
from netgrain.geometry.cells import Cells, Partition
from netgrain.geometry.correlation import correlation, effective_rank, fidelity
from netgrain.geometry.forms import Dense, Factored
from netgrain.geometry.lattice import Lattice
from netgrain.geometry.probed import Probed
from netgrain.geometry.standardised_forms import Contrasts, behind_standardised
from netgrain.geometry.streamed import StreamedReduction, members_needed
from netgrain.geometry.structured_forms import Kronecker, Spread

STEM = ConvStem((16, 16), (3, 3), (2, 2), ((1, 1), (1, 1)), (1, 1))


def members(truth: Tensor, count: int, rows: int = 6, seed: int = 0) -> Tensor:
    """Rows (members, rows, size) with second moment `truth`."""
    generator = torch.Generator().manual_seed(seed)
    half = torch.linalg.cholesky(truth + 1e-12 * torch.eye(len(truth)))
    return (torch.randn(count, rows, len(truth), generator=generator, dtype=torch.float64) @ half.T).float()


def on_lattice(period: int = 4) -> Tensor:
    """A positive matrix over 8 x 8 positions that joins offsets of a period, and nothing else."""
    place = torch.arange(8)
    one = torch.where((place[:, None] - place) % period == 0, 0.5, 0.0).double() + 0.5 * torch.eye(8).double()
    return torch.kron(one, one)


@pytest.mark.quick
def test_without_projection_it_is_the_mean_of_members() -> None:
    rows = members(on_lattice(), 8)  # as many as parts
    reduction = StreamedReduction(64, 0.25, stem=STEM)
    for r in rows:
        reduction.add(r)
    form, trace = reduction.finish()
    plain = Spread(Factored.of_members(rows.double(), 0.25), STEM)
    assert trace is None
    assert isinstance(form, Probed)
    V = torch.randn(3, 256, dtype=torch.float64)
    assert torch.allclose(form.matvec(V), plain.matvec(V), rtol=1e-5)
    assert form.trace() == pytest.approx(plain.trace(), rel=1e-6)
    assert reduction.corr() == pytest.approx(fidelity(plain), rel=1e-5)
    assert form.holds_parts
    assert torch.allclose(form.part(3).matvec(V), plain.part(3).matvec(V), rtol=1e-5)


@pytest.mark.parametrize("unit", [1e-17, 1e9])
def test_gradients_of_any_size(unit: float) -> None:
    rows = members(on_lattice(), 6)
    reduction, usual = (StreamedReduction(64, 1.0, grid=(8, 8), periods=((4, 4),)) for _ in range(2))
    for r in rows:
        reduction.add((r.double() * unit).float())
        usual.add(r)
    assert reduction.corr() == pytest.approx(usual.corr(), rel=1e-4)
    assert reduction.finish()[0].trace() == pytest.approx(unit**2 * usual.finish()[0].trace(), rel=1e-4)


def test_on_its_lattice_an_estimate_has_less_noise() -> None:
    truth = on_lattice()
    rows = members(truth, 12)
    reduction = StreamedReduction(
        64, 1 / 6, stem=STEM, grid=(8, 8), periods=((4, 4), (8, 8)), around=lambda c: Kronecker(c, 2, torch.arange(512))
    )
    for r in rows:
        reduction.add(r)
    best = reduction.best()
    form, _ = reduction.finish()
    assert best.projection is not None
    assert (best.projection.kind, best.projection.period) == ("lattice", (8, 8))
    assert abs(best.projection.share - 1) < 4 * best.projection.error
    want = torch.block_diag(*[STEM.push(truth)] * 2)
    dense = form.dense()
    corr = float((dense * want).sum() / dense.norm() / want.norm())
    plain = Spread(Factored.of_members(rows.double()), STEM).dense()
    plain_corr = float((plain * want[:256, :256]).sum() / plain.norm() / want[:256, :256].norm())
    assert corr > plain_corr + 0.02
    assert best.corr == pytest.approx(corr, abs=0.02)
    assert form.parts == 8
    assert correlation(form, Dense(want)).value == pytest.approx(1, abs=0.02)


def test_a_truth_off_the_lattice_is_not_projected() -> None:
    smooth = torch.exp(-((torch.arange(8)[:, None] - torch.arange(8)) ** 2) / 8.0).double()
    rows = members(torch.kron(smooth, smooth), 24)
    reduction = StreamedReduction(64, 1.0, grid=(8, 8), periods=((4, 4), (8, 8)))
    for r in rows:
        reduction.add(r)
    assert reduction.best().projection is None
    assert reduction.corr() > 0.9


def test_positions_that_are_alike() -> None:
    truth = torch.eye(64).double() + 0.05
    rows = members(truth, 12)
    reduction = StreamedReduction(64, 1.0, grid=(8, 8), periods=((8, 8),))
    for r in rows:
        reduction.add(r)
    best = reduction.best()
    assert best.projection is not None
    assert best.projection.kind == "alike"
    assert best.corr > 0.95
    found = best.form.dense()
    assert torch.allclose(found, found[0, 1] + (found[0, 0] - found[0, 1]) * torch.eye(64, dtype=torch.float64))


def test_more_rows_than_fit_end_in_leading_directions() -> None:
    values = torch.cat([torch.tensor([100.0, 50.0, 25.0]), torch.ones(61)]).double()
    basis = torch.linalg.qr(torch.randn(64, 64, generator=torch.Generator().manual_seed(3), dtype=torch.float64))[0]
    rows = members(basis * values @ basis.T, 20, rows=8)
    reduction = StreamedReduction(64, 1 / 8, keep=3, memory=64 * 8 * 4 * 5)
    for r in rows:
        reduction.add(r)
    form, trace = reduction.finish()
    assert trace is not None
    assert abs(trace.value - float(values.sum())) < 4 * trace.stderr
    seen = form.matvec(basis.T[:3])
    assert torch.allclose(seen.norm(dim=1), values[:3], rtol=0.5)


def test_zero_gradients_and_one_member() -> None:
    reduction = StreamedReduction(16, 1.0)
    reduction.add(torch.zeros(2, 16))
    assert math.isnan(reduction.corr())
    reduction.add(torch.zeros(2, 16))
    assert reduction.finish()[0].trace() == 0
    assert not isinstance(reduction.finish()[0], Lattice)


def test_a_lattice_that_would_not_fit_is_not_tried() -> None:
    reduction = StreamedReduction(64, 1.0, grid=(8, 8), periods=((4, 4), (8, 8)), memory=8 * 1024)
    for r in members(on_lattice(), 8):
        reduction.add(r)
    chosen = reduction.best().projection
    assert chosen is None or chosen.kind != "lattice"


@pytest.mark.quick
@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("stem", [STEM, None])
def test_standardised_weights_without_projection(channels: int, stem: ConvStem | None) -> None:
    if stem is None and channels == 1:
        return  # one weight that is its own mean
    rows = members(on_lattice(), 5)  # too few to judge a projection
    order = torch.arange(channels * (64 if stem is None else stem.size)).flip(0)
    reduction = StreamedReduction(64, 0.25, stem=stem, standardised=(channels, order))
    for r in rows:
        reduction.add(r)
    plain = behind_standardised(Factored.of_members(rows.double(), 0.25), stem, channels, order)
    form, _ = reduction.finish()
    V = torch.randn(3, plain.size, dtype=torch.float64)
    assert torch.allclose(form.matvec(V), plain.matvec(V), rtol=1e-4, atol=1e-4)
    assert form.trace() == pytest.approx(plain.trace(), rel=1e-6)
    assert torch.allclose(form.part_traces(), plain.part_traces(), rtol=1e-5)
    assert reduction.corr() == pytest.approx(fidelity(plain), rel=1e-5)


@pytest.mark.parametrize("channels", [1, 2])
def test_standardised_weights_on_a_lattice(channels: int) -> None:
    truth, order = on_lattice(), torch.arange(256 * channels)
    rows = members(truth, 12)
    reduction = StreamedReduction(
        64, 1 / 6, stem=STEM, grid=(8, 8), periods=((4, 4), (8, 8)), standardised=(channels, order)
    )
    for r in rows:
        reduction.add(r)
    best = reduction.best()
    assert best.projection is not None
    assert best.projection.kind == "lattice"
    assert abs(best.projection.share - 1) < max(4 * best.projection.error, 1e-3)
    want = behind_standardised(Dense(truth), STEM, channels, order).dense()
    form = reduction.finish()[0]
    dense = form.dense()
    assert best.corr == pytest.approx(float((dense * want).sum() / dense.norm() / want.norm()), abs=0.02)
    assert form.trace() == pytest.approx(float(dense.trace()))
    assert form.norm2() == pytest.approx(float(dense.square().sum()), rel=1e-4)


def test_standardised_weights_whose_rows_do_not_fit() -> None:
    rows, order = members(on_lattice(), 12), torch.arange(512)
    reduction = StreamedReduction(64, 1 / 6, stem=STEM, keep=3, memory=64 * 8 * 4 * 5, standardised=(2, order))
    for r in rows:
        reduction.add(r)
    form, trace = reduction.finish()
    want = behind_standardised(Factored.of_members(rows.double(), 1 / 6), STEM, 2, order)
    assert trace is not None
    assert trace.value == pytest.approx(want.trace(), rel=1e-5)
    assert isinstance(form, Contrasts)
    assert form.size == 512


PARTITION = Partition((8, 8), (4, 4), (2, 2), (1, 1))


def in_cells() -> Tensor:
    """A positive matrix that treats positions of a class alike, with far pairs that are all joined."""
    generator = torch.Generator().manual_seed(1)
    level = torch.rand(len(PARTITION.sizes), 3, generator=generator, dtype=torch.float64)
    return (level @ level.T)[PARTITION.labels][:, PARTITION.labels] * 0.1 + 0.5 * torch.eye(64).double()


@pytest.mark.parametrize("standardised", [None, (2, torch.arange(512))])
def test_cells_take_the_place_of_many_members(standardised: tuple[int, Tensor] | None) -> None:
    truth = in_cells()
    rows = members(truth, 16, rows=3)

    def corr_of(reduction: StreamedReduction) -> tuple[float, float]:
        for r in rows:
            reduction.add(r)
        form = reduction.finish()[0]
        if standardised is None:
            want = STEM.push(truth)
        else:
            want = behind_standardised(Dense(truth), STEM, *standardised).dense()
        dense = form.dense()
        return reduction.corr(), float((dense * want).sum() / dense.norm() / want.norm())

    def reduction(partitions: tuple[Partition, ...], goal: float) -> StreamedReduction:
        return StreamedReduction(
            64, 1 / 3, stem=STEM, grid=(8, 8), periods=((4, 4), (8, 8)), partitions=partitions,
            standardised=standardised, goal=goal,
        )  # fmt: skip

    with_cells = reduction((PARTITION,), 0.999)
    expected, found = corr_of(with_cells)
    projection = with_cells.best().projection
    assert projection is not None
    assert (projection.kind, projection.period) == ("cells", (8, 8))
    assert expected == pytest.approx(found, abs=0.03)  # one standard error is taken off
    _, without = corr_of(reduction((), 0.999))
    assert found > without + 0.02
    # where a few more members are enough, nothing is projected
    modest = StreamedReduction(64, 1 / 3, stem=STEM, partitions=(PARTITION,), standardised=standardised, goal=0.9)
    assert corr_of(modest)[0] < 0.9
    assert modest.best().projection is None
    assert members_needed(modest.corr(), 16, 0.9) < 32


def test_cells_are_not_taken_where_they_do_not_hold_the_truth() -> None:
    smooth = torch.exp(-((torch.arange(8)[:, None] - torch.arange(8)) ** 2) / 2.0).double()
    reduction = StreamedReduction(64, 1.0, stem=STEM, grid=(8, 8), partitions=(PARTITION,), goal=0.9999)
    for r in members(torch.kron(smooth, smooth), 24):
        reduction.add(r)
    assert reduction.best().projection is None


def test_members_that_a_goal_takes() -> None:
    assert members_needed(0.9, 10, 0.9) == pytest.approx(10)
    assert members_needed(0.9, 10, 0.99) == pytest.approx(10 * (1 / 0.81 - 1) / (1 / 0.9801 - 1))
    assert members_needed(0.0, 10, 0.99) == math.inf
    assert isinstance(Cells.piece(PARTITION, torch.ones(1, 64)), Tensor)


def test_a_sketch_knows_what_it_left_out() -> None:
    """A flat spectrum of which four directions are kept: rank of the whole, Corr of what is there."""
    rows = members(on_lattice(), 40, rows=2)
    whole, sketch = StreamedReduction(64, 1.0, stem=STEM), StreamedReduction(64, 1.0, stem=STEM, keep=4, memory=1)
    for r in rows:
        whole.add(r)
        sketch.add(r)
    full, _ = whole.finish()
    form, trace = sketch.finish()
    assert trace is not None
    assert trace.value == pytest.approx(full.trace())
    assert sketch.full_rank is not None
    assert sketch.full_rank.value == pytest.approx(effective_rank(full).value)
    kept, all_of_it = form.dense(), full.dense()
    alike = float((kept * all_of_it).sum() / kept.norm() / all_of_it.norm())
    assert alike < 0.7
    assert sketch.corr() == pytest.approx(alike * whole.corr(), rel=1e-4)
