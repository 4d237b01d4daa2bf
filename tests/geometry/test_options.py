"""Options of the front doors: what they mean together, and what makes no sense."""

from typing import Any

import pytest
import torch

from netgrain.families.probes import Data, Gaussian
from netgrain.geometry.options import Options, points_per_member
from netgrain.runtime.errors import NetgrainError


@pytest.mark.quick
def test_what_options_ask_for() -> None:
    assert Options([2, 3]).shape == (2, 3)
    assert (Options((2,)).goal, Options((2,), tolerance=0.2).goal, Options((2,), members=4).goal) == (0.01, 0.2, None)
    assert Options((2,), workers=1, device="cpu").asks_for_sampling == []
    given = Options((2,), members=4, keep=3, workers=1, chunk=2)
    assert given.asks_for_sampling == ["members", "keep"]
    assert given.of_sampling == ["members", "workers", "chunk"]
    assert (Options((2,)).memory, Options((2,), memory="1.5 GB").memory) == (None, 1_500_000_000)
    X = torch.zeros(40, 2)
    assert [points_per_member(p, n) for p, n in ((Gaussian(1), None), (Data(X), None), (Data(X), 3))] == [8, 16, 3]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"members": 2, "tolerance": 0.1}, "members= or tolerance=, found both"),
        ({"members": 0}, "at least one member, found 0"),
        ({"tolerance": 1.0}, "a tolerance between 0 and 1"),
        ({"probes": 0}, "at least one probe point per member"),
        ({"first_layer": "maybe"}, "first_layer expects 'auto', 'never' or 'always'"),
        ({"engine": 3}, "engine expects a name"),
        ({"memory": "4 parsecs"}, "memory expects bytes or a text such as '4 GB', found '4 parsecs'"),
    ],
)
def test_what_makes_no_sense_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(NetgrainError, match=message):
        Options((2,), **options)
