"""Rearranged tensors: the same function written in two ways has the same closed form, to rounding."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import netgrain as ng
from tests.closed_form.networks import Forward, closed, normal, thorough

Call = Callable[[nn.ModuleDict, Tensor], Tensor]


def windows(h: Tensor) -> Tensor:
    """(batch, 4, 4, channels) → (batch · 4, 4, channels), two by two."""
    b, c = len(h), h.shape[-1]
    return h.view(b, 2, 2, 2, 2, c).permute(0, 1, 3, 2, 4, 5).contiguous().view(-1, 4, c)


def joined(w: Tensor) -> Tensor:
    """The other way round."""
    h = w.view(-1, 2, 2, 2, 2, w.shape[-1]).permute(0, 1, 3, 2, 4, 5)
    return h.reshape(len(h), 4, 4, -1)


def network(call: Call, **layers: Callable[[], nn.Module]) -> Callable[[], nn.Module]:
    return normal(lambda: Forward(call, **{name: layer() for name, layer in layers.items()}), 0.4)


def conv(kernel: int, stride: int, channels: int = 1, out: int = 6) -> Callable[[], nn.Module]:
    return lambda: nn.Conv2d(channels, out, kernel, stride)


def head(inputs: int) -> Callable[[], nn.Module]:
    return lambda: nn.Linear(inputs, 2)


def last(m: nn.ModuleDict, h: Tensor) -> Tensor:
    out: Tensor = m["c"](F.gelu(h).flatten(1))
    return out


def tokens(m: nn.ModuleDict, x: Tensor) -> Tensor:
    out: Tensor = m["a"](x).permute(0, 2, 3, 1)  # (batch, 4, 4, channels)
    return out


# two ways to write one function: layers, both calls, shape of the input
PAIRS: dict[str, tuple[dict[str, Callable[[], nn.Module]], Call, dict[str, Callable[[], nn.Module]], Call]] = {
    "windows": (
        {"a": conv(2, 2), "b": lambda: nn.Linear(6, 3), "c": head(48)},
        lambda m, x: last(m, joined(m["b"](F.gelu(windows(tokens(m, x)))))),
        {"a": conv(2, 2), "b": lambda: nn.Linear(6, 3), "c": head(48)},
        lambda m, x: last(m, m["b"](F.gelu(tokens(m, x)))),
    ),
    "rolled windows": (
        {"a": conv(2, 2), "b": lambda: nn.Linear(6, 3), "c": head(48)},
        lambda m, x: last(m, joined(m["b"](windows(torch.roll(tokens(m, x), (-1, -1), (1, 2))))).roll((1, 1), (1, 2))),
        {"a": conv(2, 2), "b": lambda: nn.Linear(6, 3), "c": head(48)},
        lambda m, x: last(m, m["b"](tokens(m, x))),
    ),
    "sequence first": (
        {"a": conv(2, 2), "b": lambda: nn.Linear(6, 3), "c": head(48)},
        lambda m, x: last(m, m["b"](F.gelu(m["a"](x).flatten(2).permute(2, 0, 1))).transpose(0, 1)),
        {"a": conv(2, 2), "b": lambda: nn.Linear(6, 3), "c": head(48)},
        lambda m, x: last(m, m["b"](F.gelu(tokens(m, x)))),
    ),
    "heads split and joined": (
        {"a": conv(2, 2), "b": lambda: nn.Linear(6, 3), "c": head(48)},
        lambda m, x: last(m, m["b"](F.gelu((tokens(m, x).reshape(-1, 16, 2, 3) * 2).transpose(1, 2).transpose(1, 2)
                                           .reshape(-1, 4, 4, 6)))),
        {"a": conv(2, 2), "b": lambda: nn.Linear(6, 3), "c": head(48)},
        lambda m, x: last(m, m["b"](F.gelu(2 * tokens(m, x)))),
    ),
    "channels shuffled": (
        {"a": conv(2, 2), "b": conv(2, 2, 6), "c": head(24)},
        lambda m, x: last(m, m["b"](m["a"](x).view(-1, 2, 3, 4, 4).transpose(1, 2).reshape(-1, 6, 4, 4))),
        {"a": conv(2, 2), "b": conv(2, 2, 6), "c": head(24)},
        lambda m, x: last(m, m["b"](m["a"](x))),
    ),
    "a third of the channels": (
        {"a": conv(2, 2), "b": lambda: nn.Linear(2, 3), "c": head(48)},
        lambda m, x: last(m, m["b"](tokens(m, x).reshape(-1, 16, 3, 2).permute(2, 0, 1, 3)[1])),
        {"a": conv(2, 2, 1, 2), "b": lambda: nn.Linear(2, 3), "c": head(48)},
        lambda m, x: last(m, m["b"](tokens(m, x))),
    ),
    "pixel unshuffle": (
        {"a": conv(1, 1, 4, 5), "c": head(80)},
        lambda m, x: last(m, m["a"](F.pixel_unshuffle(x, 2))),
        {"a": conv(2, 2, 1, 5), "c": head(80)},
        lambda m, x: last(m, m["a"](x)),
    ),
    "pixel unshuffle of channels": (
        {"a": conv(3, 1, 1, 2), "b": conv(1, 1, 8, 5), "c": head(45)},
        lambda m, x: last(m, m["b"](F.pixel_unshuffle(F.gelu(m["a"](x)), 2))),
        {"a": conv(3, 1, 1, 2), "b": conv(2, 2, 2, 5), "c": head(45)},
        lambda m, x: last(m, m["b"](F.gelu(m["a"](x)))),
    ),
    "pixel shuffle": (
        {"a": conv(2, 2, 1, 3), "b": conv(1, 1, 3, 8), "c": head(128)},
        lambda m, x: last(m, F.pixel_shuffle(m["b"](m["a"](x)), 2)),
        {"a": conv(2, 2, 1, 3), "b": lambda: nn.ConvTranspose2d(3, 2, 2, 2), "c": head(128)},
        lambda m, x: last(m, m["b"](m["a"](x))),
    ),
    "unfold": (
        {"a": lambda: nn.Linear(18, 5), "c": head(80)},
        lambda m, x: last(m, m["a"](F.unfold(m["d"](x), 3, padding=1, stride=2).transpose(1, 2))),
        {"a": lambda: nn.Conv2d(2, 5, 3, 2, 1), "c": head(80)},
        lambda m, x: last(m, m["a"](m["d"](x))),
    ),
    "sliding windows": (
        {"a": lambda: nn.Linear(4, 5), "c": head(80)},
        lambda m, x: last(m, m["a"](x.unfold(2, 2, 2).unfold(3, 2, 2).reshape(-1, 4, 4, 4))),
        {"a": conv(2, 2, 1, 5), "c": head(80)},
        lambda m, x: last(m, m["a"](x)),
    ),
    "repeated": (
        {"a": conv(2, 2, 1, 3), "c": head(96)},
        lambda m, x: last(m, m["a"](x).unsqueeze(3).expand(-1, -1, -1, 2, -1).reshape(-1, 3, 8, 4)),
        {"a": conv(2, 2, 1, 3), "c": head(96)},
        lambda m, x: last(m, F.interpolate(m["a"](x), scale_factor=(2, 1))),
    ),
    "transposed and added": (
        {"a": conv(2, 2, 1, 3), "b": conv(2, 2, 1, 3), "c": head(48)},
        lambda m, x: last(m, m["a"](x) + m["b"](x).transpose(2, 3)),
        {"a": conv(2, 2, 1, 3), "b": conv(2, 2, 1, 3), "c": head(48)},
        lambda m, x: last(m, m["a"](x) + m["b"](x.transpose(2, 3))),
    ),
}  # fmt: skip


@pytest.mark.parametrize("probe", [ng.Origin(), ng.Gaussian(0.5)], ids=["origin", "Gaussian"])
@pytest.mark.parametrize("name", PAIRS)
def test_two_ways_to_write_one_function(name: str, probe: ng.Probe) -> None:
    layers, call, others, same = PAIRS[name]
    extra = {"d": conv(1, 1, 1, 2)} if name == "unfold" else {}
    a, b = network(call, **layers, **extra), network(same, **others, **extra)
    x = torch.randn(3, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    assert a()(x).shape[0] == b()(x).shape[0] == 3
    found = [closed(make, (1, 8, 8), probe=probe, probes=1).matrix() for make in (a, b)]
    torch.testing.assert_close(found[0], found[1], rtol=1e-9, atol=1e-12 * float(found[1].abs().max()))


def test_a_pixel_shuffle_of_something_with_a_mean_against_sampled_networks() -> None:
    """After an activation only the means are common to two places of a cell."""
    make = network(
        lambda m, x: m["c"](F.gelu(m["b"](F.pixel_shuffle(F.softplus(m["a"](x)), 2))).flatten(1)),
        a=conv(2, 2, 1, 16), b=conv(2, 1, 4, 6), c=head(54),
    )  # fmt: skip
    result = ng.check(make, (1, 4, 4), members=thorough(4000), workers=1, progress=False)
    assert result.agrees, str(result)


REFUSED: dict[str, tuple[Call, str]] = {
    "picked from the batch": (lambda m, x: m["a"](x).permute(1, 0, 2, 3)[0], "."),
    "convolved windows": (lambda m, x: m["b"](windows(tokens(m, x)).transpose(1, 2)), "rearranged"),
    "a table for each sample": (lambda m, x: windows(tokens(m, x)) + m["d"].weight, "rearranged"),
}


@pytest.mark.quick
@pytest.mark.parametrize("name", REFUSED)
def test_what_might_be_misread_is_refused(name: str) -> None:
    call, reason = REFUSED[name]
    layers = {"a": conv(2, 2), "b": lambda: nn.Conv1d(6, 3, 2), "d": lambda: nn.Bilinear(4, 6, 8)}
    make = network(lambda m, x: call(m, x).reshape(len(x), -1), **layers)
    with pytest.raises(ng.NetgrainError, match=reason):
        closed(make, (1, 8, 8))
