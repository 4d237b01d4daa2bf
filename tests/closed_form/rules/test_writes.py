"""Writes to parts of a tensor: the same as networks that are written without them, and as sampled ones."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

import netgrain as ng
from tests.closed_form.networks import Forward, closed, deviation

Run = Callable[[nn.ModuleDict, Tensor], Tensor]


def family(run: Run) -> Callable[[], nn.Module]:
    def conv(i: int, o: int, size: int = 3) -> nn.Conv2d:
        return nn.Conv2d(i, o, size, padding=size // 2, bias=False)

    def forward(m: nn.ModuleDict, x: Tensor) -> Tensor:
        y: Tensor = m["head"](run(m, x).tanh()).mean((2, 3))
        return y

    return lambda: Forward(forward, a=conv(1, 4), b=conv(1, 2), c=conv(1, 6), d=conv(1, 6), head=conv(6, 2, 1))


def whole_view(m: nn.ModuleDict, x: Tensor) -> Tensor:
    h = torch.cat([m["a"](x), m["b"](x)], 1)[:, :6]
    h += m["c"](x)
    return h


def some_channels(m: nn.ModuleDict, x: Tensor) -> Tensor:
    h = m["c"](x)
    h[:, 1:3] += m["b"](x)
    return h


def through_a_view(m: nn.ModuleDict, x: Tensor) -> Tensor:
    h = m["c"](x)
    h[:, 1:3].add_(m["b"](x))
    return h


def some_columns(m: nn.ModuleDict, x: Tensor) -> Tensor:
    h = m["c"](x)
    h[..., 1:] += h[..., :-1].clone()
    return h


def columns_by_hand(m: nn.ModuleDict, x: Tensor) -> Tensor:
    h = m["c"](x)
    return h + nn.functional.pad(h[..., :-1], (1, 0))


def assigned(m: nn.ModuleDict, x: Tensor) -> Tensor:
    h = torch.zeros(len(x), 6, 4, 4)
    h[:, :4] = m["a"](x)
    h[:, 4:] = m["b"](x)
    return h


def copied(m: nn.ModuleDict, x: Tensor) -> Tensor:
    h = m["c"](x)
    h[:, 4:].copy_(m["b"](x))
    return h


def one_column(m: nn.ModuleDict, x: Tensor) -> Tensor:
    h = m["c"](x)
    h[..., 1] = 0
    h[..., 2] = m["d"](x)[..., 2]
    return h


def one_column_by_hand(m: nn.ModuleDict, x: Tensor) -> Tensor:
    keep, other = torch.tensor([1.0, 0.0, 0.0, 1.0]), torch.tensor([0.0, 0.0, 1.0, 0.0])
    return m["c"](x) * keep + m["d"](x) * other


def joined(m: nn.ModuleDict, x: Tensor) -> Tensor:
    return torch.cat([m["a"](x), m["b"](x)], 1)


PAIRS: dict[str, tuple[Run, Run]] = {
    "a view of all": (whole_view, lambda m, x: joined(m, x) + m["c"](x)),
    "some channels": (some_channels, through_a_view),
    "some columns": (some_columns, columns_by_hand),
    "assigned": (assigned, joined),
    "copied": (copied, joined),
    "one column": (one_column, one_column_by_hand),
}


@pytest.mark.quick
@pytest.mark.parametrize("name", PAIRS)
def test_a_write_is_what_it_writes(name: str) -> None:
    """The same matrix as without writing in place, exactly."""
    written, plain = (closed(family(run), (1, 4, 4)) for run in PAIRS[name])
    assert written.exact
    torch.testing.assert_close(written.matrix(), plain.matrix())


def test_a_write_against_sampled_networks() -> None:
    G = closed(family(some_columns), (1, 4, 4))
    plain = ng.average_geometry(family(some_columns), (1, 4, 4), members=200, first_layer="never", seed=3, workers=1)
    for v in (torch.ones(16), torch.eye(16)[5], torch.eye(16)[2]):
        assert abs(deviation(G, plain, v)) < 4


def test_away_from_the_origin_a_write_is_a_sum() -> None:
    """One member observed at one point: the same numbers as without writing in place."""
    probe = ng.Gaussian(1.0)
    for written, plain in (PAIRS["a view of all"], PAIRS["some columns"]):
        G, H = (closed(family(run), (1, 4, 4), probe=probe, probes=3) for run in (written, plain))
        torch.testing.assert_close(G.matrix(), H.matrix())


def every_second(m: nn.ModuleDict, x: Tensor) -> Tensor:
    h = m["c"](x)
    h[..., ::2] = m["d"](x)[..., ::2]
    return h


def picked(m: nn.ModuleDict, x: Tensor) -> Tensor:
    h = m["c"](x)
    h[:, torch.tensor([0, 2])] = m["b"](x)
    return h


def numbers(m: nn.ModuleDict, x: Tensor) -> Tensor:
    h = m["c"](x)
    h[:, 0] = 1.0
    return h


def corner(m: nn.ModuleDict, x: Tensor) -> Tensor:
    h = m["c"](x)
    h[:, :, :2, :2] += 1
    return h


@pytest.mark.parametrize(
    ("run", "message"),
    [
        (every_second, "every 2th entry"),
        (picked, "picked by a tensor"),
        (numbers, "writes numbers"),
        (corner, "parts of several axes"),
    ],
)
def test_what_is_refused(run: Run, message: str) -> None:
    with pytest.raises(ng.NetgrainError, match=message):
        closed(family(run), (1, 4, 4))
