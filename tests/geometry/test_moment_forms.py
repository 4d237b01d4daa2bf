"""Second moments become forms: the same matrix, as small as its structure allows."""

from functools import partial

import pytest
import torch

import netgrain as ng
from netgrain.closed_form.moments import Separable
from netgrain.geometry.moment_forms import MatrixParts, form_of_moments
from netgrain.geometry.structured_forms import Kronecker
from netgrain.models import ResNet18
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
