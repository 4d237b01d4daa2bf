"""Operations and grids, counted by hand."""

import pytest
from torch import Tensor, nn

from netgrain.families.reading import read
from netgrain.families.sizes import UNKNOWN, lattices, operations


def strided() -> nn.Module:
    body = nn.Sequential(nn.Conv2d(3, 4, 3, 2, 1), nn.ReLU(), nn.Conv2d(4, 6, 3, 2, 1), nn.AdaptiveAvgPool2d(1))
    return nn.Sequential(body, nn.Flatten(), nn.Linear(6, 5))


@pytest.mark.quick
def test_operations_are_two_for_each_weight_and_position() -> None:
    want = 2 * (4 * 27 * 16 * 16 + 6 * 36 * 8 * 8 + 6 * 5)
    assert operations(read(strided, (3, 32, 32))) == want


def test_grids_and_periods() -> None:
    reading = read(strided, (3, 32, 32))
    assert lattices(reading, "0.0", (256,)) == ((16, 16), ((2, 2), (16, 16)))
    assert lattices(reading, "0.2", (8, 8))[0] == (8, 8)
    assert lattices(reading, "2", (1,)) == ((1,), ((1,),))


def test_what_cannot_be_traced() -> None:
    class Looks(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(4, 2)

        def forward(self, x: Tensor) -> Tensor:
            return self.layer(x) if float(x.sum()) > 0 else -self.layer(x)

    reading = read(Looks, (4,))
    assert operations(reading) == UNKNOWN
    assert lattices(reading, "layer", (4,)) == ((4,), ((4,),))
    assert lattices(reading, "layer", (2, 2)) == ((2, 2), ((2, 2),))
