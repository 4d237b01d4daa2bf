"""Rearranged positions against sampled networks."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import netgrain as ng
from tests.closed_form.networks import Forward, thorough

TURNED: dict[str, Callable[[Tensor], Tensor]] = {
    "flip": lambda h: h.flip(-1),
    "roll": lambda h: torch.roll(h, (1, 2), (-2, -1)),
    "transpose": lambda h: h.transpose(-1, -2),
    "crop": lambda h: F.pad(h[..., 1:, :-1], (1, 0, 0, 1)),
}


@pytest.mark.quick
@pytest.mark.parametrize("name", TURNED)
def test_rearranged_positions(name: str) -> None:
    move = TURNED[name]

    def forward(m: nn.ModuleDict, x: Tensor) -> Tensor:
        h = move(F.gelu(m["a"](x)))
        return m["c"](F.avg_pool2d(F.gelu(m["b"](h)), (2, 1)).flatten(1)[:, :, None].squeeze(2)).squeeze(1)

    def make() -> nn.Module:
        layers = {"a": nn.Conv2d(1, 3, (3, 2), bias=False), "b": nn.Conv2d(3, 3, 2, bias=False)}
        h = layers["b"](move(layers["a"](torch.zeros(1, 1, 8, 5))))
        return Forward(forward, **layers, c=nn.Linear(F.avg_pool2d(h, (2, 1)).numel(), 1))

    result = ng.check(make, (1, 8, 5), members=thorough(1000), workers=1, progress=False)
    assert result.closed.exact
    assert result.agrees, str(result)
