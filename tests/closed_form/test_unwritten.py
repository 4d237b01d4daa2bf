"""A dry pass finds out what a pass does, and computes nothing that depends on the point."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from netgrain.closed_form.channels import NeedsMembers
from netgrain.closed_form.moments import Full, Moment, identity
from netgrain.closed_form.propagation import Propagation
from netgrain.closed_form.unwritten import Unwritten
from netgrain.families.reading import read
from netgrain.runtime.memory import within
from tests.closed_form.networks import Forward, Make, sequence
from tests.closed_form.test_moments import OPERATIONS

CONVOLUTIONS = sequence(
    *(lambda: nn.Conv2d(2, 8, 3, padding=1), nn.ReLU, lambda: nn.Conv2d(8, 6, 3, stride=2), nn.GELU),
    *(nn.Flatten, lambda: nn.LayerNorm(6 * 4), lambda: nn.Linear(6 * 4, 3)),
)
MAXIMUM = sequence(lambda: nn.Conv2d(2, 8, 3), lambda: nn.MaxPool2d(2), nn.Flatten, lambda: nn.Linear(8, 3))


def residual() -> nn.Module:
    return Forward(
        lambda m, x: m["head"](torch.relu(m["b"](h := torch.relu(m["a"](x))) + h).flatten(1)),
        a=nn.Conv2d(2, 4, 3, padding=1),
        b=nn.Conv2d(4, 4, 3, padding=1),
        head=nn.Linear(4 * 36, 2),
    )


def passed(make: Make, *, dry: bool) -> tuple[object, ...]:
    reading = read(make, (2, 6, 6) if make is not MAXIMUM else (2, 4, 4))
    x = torch.randn(1, *reading.input_shape, generator=torch.Generator().manual_seed(0))
    run = Propagation(reading.traced(), reading.initialisation, "all", points=x, dry=dry)
    try:
        run.run()
    except NeedsMembers as e:
        return (str(e),)
    return run.kinds, run.narrowest, run.positions, run.fan_in, run.left_out, run.errors


@pytest.mark.quick
@pytest.mark.parametrize("make", [CONVOLUTIONS, MAXIMUM, residual])
def test_a_dry_pass_finds_what_a_pass_does(make: Make) -> None:
    assert passed(make, dry=True) == passed(make, dry=False)


def test_a_dry_pass_needs_no_memory() -> None:
    make = sequence(
        *(lambda: nn.Conv2d(3, 8, 3, padding=1), nn.ReLU, lambda: nn.Conv2d(8, 8, 3, padding=1), nn.ReLU),
        *(lambda: nn.AdaptiveAvgPool2d(1), nn.Flatten, lambda: nn.Linear(8, 1)),
    )
    reading = read(make, (3, 96, 96))
    x = torch.randn(1, 3, 96, 96, generator=torch.Generator().manual_seed(0))
    with within("10 MB"):  # one matrix over 9216 positions takes 680 MB
        run = Propagation(reading.traced(), reading.initialisation, "all", points=x, dry=True)
        run.run()
    assert run.positions == 96**2


@pytest.mark.parametrize("name", [name for name in OPERATIONS if name != "compressed"])
def test_sizes_follow_like_those_of_numbers(name: str) -> None:
    change = OPERATIONS[name]
    found = change(Unwritten((2, 3, 2)))
    assert isinstance(found, Unwritten)
    numbers: Moment = Full((2, 3, 2), torch.ones(1, 2, 3, 2, 2, 3, 2, dtype=torch.float64))
    assert found.sizes == change(numbers).sizes
    assert found.full().values.shape == (1, *found.sizes, *found.sizes)


def test_a_sum_with_something_unwritten_is_unwritten() -> None:
    unwritten = Unwritten((2, 3))
    assert identity((2, 3)).plus(unwritten) is unwritten
    assert unwritten.plus(identity((2, 3))) is unwritten
    assert identity((2, 3)).times(unwritten).has_numbers
