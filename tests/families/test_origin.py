"""What the origin means: by trying on a network, and by reading its steps."""

from collections.abc import Callable

import pytest
from torch import nn

from netgrain.families.members import member
from netgrain.families.origin import AtOrigin, at_origin, is_homogeneous, probe_used, resolved
from netgrain.families.probes import Gaussian, Origin
from netgrain.families.reading import read
from netgrain.runtime.errors import NetgrainError

KINKS: dict[str, tuple[Callable[[], list[nn.Module]], bool]] = {
    "ReLU": (lambda: [nn.Conv1d(1, 4, 3, bias=False), nn.ReLU()], True),
    "leaky": (lambda: [nn.Conv1d(1, 4, 3, bias=False), nn.LeakyReLU(0.2)], True),
    "after a bias": (lambda: [nn.Conv1d(1, 4, 1, bias=False), nn.ReLU(), nn.Conv1d(4, 4, 3), nn.ReLU()], False),
    "maximum": (lambda: [nn.Conv1d(1, 4, 3, bias=False), nn.MaxPool1d(2)], True),
    "maximum, curved": (lambda: [nn.Conv1d(1, 4, 3, bias=False), nn.MaxPool1d(2), nn.Tanh()], False),
}


@pytest.mark.quick
@pytest.mark.parametrize("name", KINKS)
def test_trying_and_reading_agree(name: str) -> None:
    layers, homogeneous = KINKS[name]

    def make() -> nn.Module:
        return nn.Sequential(*layers(), nn.Flatten())

    found = at_origin(member(make, 0, 0), (1, 6))
    assert found == AtOrigin("kink", homogeneous)
    reading = read(make, (1, 6))
    assert is_homogeneous(reading.traced(), reading.initialisation) == homogeneous


def test_the_probe_that_is_used() -> None:
    assert resolved(None, AtOrigin("smooth")).at_origin
    assert resolved(None, AtOrigin("kink", homogeneous=True)).probe == Gaussian(1.0)
    limit = resolved(Origin(), AtOrigin("kink"))
    assert (limit.probe, limit.text) == (Gaussian(0.001), "origin limit (gaussian:0.001)")
    norm = AtOrigin("constant norm", where="norm")
    assert resolved(None, norm).probe == Gaussian(1.0)
    with pytest.raises(NetgrainError, match="'norm' normalises a constant"):
        resolved(Origin(), norm)
    asked = probe_used(Gaussian(0.3), nn.Linear(2, 1), (2,), "all")
    assert (asked.probe, asked.text) == (Gaussian(0.3), "gaussian:0.3")
