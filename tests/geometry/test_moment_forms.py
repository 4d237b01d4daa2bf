"""Second moments become forms: the same matrix, as small as its structure allows."""

from functools import partial

import pytest
import torch

import netgrain as ng
from netgrain.closed_form.moments import Full, Separable
from netgrain.families.ends import Entry
from netgrain.families.reading import read
from netgrain.geometry.moment_forms import MatrixParts, PointMoments, form_of_moments, without_parts
from netgrain.geometry.structured_forms import Kronecker
from netgrain.models import ResNet18
from netgrain.runtime.memory import MemoryShortage, within
from tests import naive
from tests.geometry.networks import closed


def test_kronecker_and_operator_forms() -> None:
    small = closed(partial(ResNet18, channels=3, activation="gelu", image_size=16), (3, 16, 16))
    one = closed(partial(ResNet18, channels=1, activation="gelu", image_size=16), (1, 16, 16))
    # the first layer's fan-in is three times larger, and each colour sees the same
    assert torch.allclose(small.matrix()[:256, :256] * 3, one.matrix(), rtol=1e-9, atol=1e-12 * float(one.trace))
    assert float(small.matrix()[:256, 256:].abs().max()) == 0
    large = closed(partial(ResNet18, channels=3, activation="gelu", image_size=160), (3, 160, 160))
    v = torch.randn(2, 3, 160, 160)
    assert large.matvec(v).shape == v.shape
    assert large.d == 76800
    with pytest.raises(ng.NetgrainError, match="GiB"):
        large.matrix()


@pytest.mark.quick
def test_an_axis_that_is_the_identity_becomes_copies() -> None:
    A = torch.tensor([[2.0, 1.0], [1.0, 2.0]], dtype=torch.float64)
    weight = torch.tensor([3.0], dtype=torch.float64)
    for factors, expected in (
        ((None, A[None]), torch.kron(torch.eye(3, dtype=torch.float64), 3 * A)),
        ((A[None], None), torch.kron(3 * A, torch.eye(3, dtype=torch.float64))),
    ):
        sizes = (3, 2) if factors[0] is None else (2, 3)
        form = form_of_moments([Separable(sizes, weight, factors)], [1], sizes)
        assert isinstance(form, Kronecker)
        assert form.copies == 3
        torch.testing.assert_close(form.dense(), expected)


def test_matrices_are_made_symmetric_and_averaged_in_parts() -> None:
    parts = MatrixParts((2,))
    for matrix in ([[1.0, 2.0], [0.0, 1.0]], [[3.0, 0.0], [0.0, 3.0]]):
        parts.add(torch.tensor(matrix, dtype=torch.float64))
    form = parts.form()
    assert form.dense().tolist() == [[2.0, 0.5], [0.5, 2.0]]
    assert form.part(0).dense().tolist() == [[1.0, 1.0], [1.0, 1.0]]
    assert form.counts.tolist() == [1, 1]


def _matrices(count: int, size: int) -> list[Full]:
    generator = torch.Generator().manual_seed(0)
    roots = [torch.randn(size, size, generator=generator, dtype=torch.float64) for _ in range(count)]
    return [Full((size,), (A @ A.T)[None]) for A in roots]


def test_points_are_summed_up_in_as_many_parts_as_memory_allows() -> None:
    """40 matrices of 128 bytes: 32 parts where there is room, four where a quarter of the budget holds no more."""
    found = _matrices(40, 100)
    mean = torch.stack([m.values[0] for m in found]).mean(0)
    for memory, parts in (("100 MB", 32), ("2.5 MB", 7), ("1.3 MB", 4)):
        with within(memory):
            moments = PointMoments((100,))
            for i, m in enumerate(found):
                moments.add(m, 1 + i % 2)
                moments.add(m, 2 - i % 2)
            form = moments.form()
        assert form.parts == parts
        assert int(form.counts.sum()) == 120
        torch.testing.assert_close(form.dense(), mean)
    with within("1.2 MB"), pytest.raises(MemoryShortage, match=r"over 100 positions in 4 parts would take 1.3 MB"):
        PointMoments((100,)).add(found[0], 1)


def test_a_moment_at_the_stem_is_spread_over_the_inputs() -> None:
    entry = read(lambda: torch.nn.Conv2d(3, 5, 3, stride=2, padding=1), (3, 8, 8)).entry()
    assert isinstance(entry, Entry)
    moments = _matrices(3, 16)
    form = form_of_moments(list(moments), [1, 1, 2], (3, 8, 8), entry)
    assert form.parts == 3
    layer = torch.nn.Conv2d(1, 1, 3, stride=2, padding=1, bias=False)
    Q = (moments[0].values + moments[1].values + 2 * moments[2].values)[0] / 4
    expected = torch.kron(torch.eye(3, dtype=torch.float64), naive.spread(layer, (8, 8), Q))
    torch.testing.assert_close(form.dense(), expected)
    bare = without_parts(form)
    assert bare.parts == 0
    torch.testing.assert_close(bare.dense(), expected)
