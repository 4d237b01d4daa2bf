"""Cells against the mean over permutations of their positions."""

import itertools

import pytest
import torch

from netgrain.geometry.cells import Cells, Partition
from netgrain.geometry.forms import Dense, Factored

PARTITION = Partition((5,), (4,), (2,), (1,))  # classes {0, 2}, {1}, {3}, {4}: 4 has phase 0 again, in another cell


def cells(rows: torch.Tensor) -> Cells:
    pieces = torch.stack([Cells.piece(PARTITION, r) for r in rows])
    return Cells.from_pieces(PARTITION, pieces, torch.ones(len(rows), dtype=torch.int64))


@pytest.mark.quick
def test_classes_of_positions() -> None:
    assert PARTITION.labels.tolist() == [0, 1, 0, 3, 2]
    square = Partition((4, 4), (4, 4), (2, 1), (0, 0))
    assert square.labels.reshape(4, 4)[:, 0].tolist() == [0, 1, 0, 1]
    assert int(square.labels.max()) == 1


@pytest.mark.quick
def test_it_is_the_mean_over_permutations_inside_classes() -> None:
    partition = Partition((6,), (6,), (2,), (0,))
    rows = torch.randn(4, 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    Q = rows.T @ rows
    total, count = torch.zeros(6, 6, dtype=torch.float64), 0
    for even in itertools.permutations((0, 2, 4)):
        for odd in itertools.permutations((1, 3, 5)):
            order = torch.tensor([v for pair in zip(even, odd, strict=True) for v in pair])
            total += Q[order][:, order]
            count += 1
    form = Cells(partition, Cells.piece(partition, rows))
    assert torch.allclose(form.dense(), total / count)
    V = torch.randn(3, 6, dtype=torch.float64)
    assert torch.allclose(form.matvec(V), V @ form.dense())
    assert torch.allclose(form.diagonal(), form.dense().diagonal())
    i, j = torch.cartesian_prod(torch.arange(6), torch.arange(6)).T
    assert torch.allclose(form.entries(i, j), form.dense().flatten())
    assert form.trace() == pytest.approx(float(Q.trace()))
    assert float(torch.linalg.eigvalsh(form.dense())[0]) > -1e-10


def test_parts_and_products() -> None:
    rows = torch.randn(3, 2, 5, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    form = cells(rows)
    assert torch.allclose(form.dense(), sum(form.part(i).dense() for i in range(3)) / 3)
    assert torch.allclose(form.subset([0, 2]).dense(), (form.part(0).dense() + form.part(2).dense()) / 2)
    other = Factored.of_members(rows)
    assert form.inner(other) == pytest.approx(float((form.dense() * other.dense()).sum()))
    assert torch.allclose(form.scaled(2.0).dense(), 2 * form.dense())
    # what is alike already stays as it is
    again = Dense(form.dense())
    assert form.inner(again) == pytest.approx(form.norm2())
    assert form.inner(other) == pytest.approx(form.norm2())
