"""A matrix known by its products: its spectrum is found, everything else is refused."""

import pytest
import torch

from netgrain.geometry.products import Products
from netgrain.geometry.spectrum import decompose
from netgrain.runtime.errors import NetgrainError

VALUES = torch.tensor([1.0, 3.0, 2.0], dtype=torch.float64)


@pytest.mark.quick
def test_spectrum_of_a_diagonal() -> None:
    form = Products(3, lambda V: V * VALUES)
    found = decompose(form)
    torch.testing.assert_close(found.values, torch.tensor([3.0, 2.0, 1.0], dtype=torch.float64))
    assert found.vectors.abs().argmax(1).tolist() == [1, 2, 0]
    doubled = Products(3, lambda V: 2 * V)
    assert doubled.matvec(torch.ones(2, 3)).dtype == torch.float64  # products are in double precision
    assert form.parts == 0


@pytest.mark.parametrize("name", ["trace", "part", "subset", "inner"])
def test_what_is_not_known_is_refused(name: str) -> None:
    form = Products(3, lambda V: V * VALUES)
    arguments = {"trace": (), "part": (0,), "subset": ([0],), "inner": (form,)}[name]
    with pytest.raises(NetgrainError, match=r"known only by its products|has no parts"):
        getattr(form, name)(*arguments)
