"""Which transform a group gets, and in which order its irreps stand."""

import pytest
import torch

from netgrain.groups import cyclic, dihedral, direct, from_cayley, p4m, symmetric, transform_choice
from netgrain.groups.mackey import Mackey
from netgrain.groups.transforms import FFT, DenseTransform, Product
from netgrain.runtime.errors import NetgrainError
from tests.groups.known_groups import BARE, BUILT, NAMES


@pytest.mark.parametrize("name", NAMES)
def test_the_order_of_irreps_is_that_of_the_table_not_of_the_route(name: str) -> None:
    torch.testing.assert_close(BUILT[name].character_table, BARE[name].character_table, atol=1e-9, rtol=0)


@pytest.mark.quick
def test_transforms_are_chosen_by_structure() -> None:
    assert isinstance(cyclic(300)._transform, FFT)
    assert isinstance(direct(cyclic(9), cyclic(9))._transform, FFT)
    assert isinstance(direct(cyclic(28), cyclic(28), dihedral(order=8))._transform, Product)
    assert isinstance(direct(symmetric(4), dihedral(order=20))._transform, Product)
    assert isinstance(p4m(8)._transform, Mackey)
    assert isinstance(dihedral(order=8)._transform, DenseTransform)
    assert isinstance(from_cayley(p4m(5).cayley)._transform, DenseTransform)


def test_dense_irreps_that_do_not_fit_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transform_choice, "MOST_BYTES", 2**20)
    with pytest.raises(NetgrainError, match=r"G is too large: 0.0 GiB for its irreps, of at most 0 GiB; direct\(\)"):
        from_cayley(dihedral(order=300).cayley).irreps  # noqa: B018
