"""Class tokens, stacks and products with weights: against the same function in other words, and sampled networks."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import netgrain as ng
from tests.closed_form.networks import closed, images, thorough

SIZE, WIDTH = 16, 6


class Tokens(nn.Module):
    """Patches as tokens, something done to them, an activation and a head."""

    def __init__(self, act: Callable[[Tokens, Tensor], Tensor], inputs: int, class_token: float) -> None:
        super().__init__()
        self.embed = nn.Conv1d(1, WIDTH, 4, 4, bias=False)
        self.token = nn.Parameter(torch.zeros(1, 1, WIDTH))
        self.positions = nn.Parameter(torch.empty(1, 5, WIDTH))
        self.weight = nn.Parameter(torch.empty(WIDTH, 3))
        self.heads = nn.Parameter(torch.empty(WIDTH, 3, 2))
        self.linear = nn.Linear(WIDTH, 3)
        self.bias = nn.Parameter(torch.empty(3))
        for p in (self.positions, self.weight, self.heads, self.linear.weight, self.linear.bias, self.bias):
            nn.init.normal_(p, std=0.4)
        if class_token:
            nn.init.normal_(self.token, std=class_token)
        self.act = act
        self.head = nn.Linear(inputs, 2)
        nn.init.normal_(self.head.weight, std=0.3)

    def forward(self, x: Tensor) -> Tensor:
        tokens = self.embed(x).flatten(2).transpose(1, 2)
        y: Tensor = self.head(F.gelu(self.act(self, tokens)).flatten(1))
        return y


def joined(m: Tokens, t: Tensor) -> Tensor:
    return torch.cat([m.token.expand(len(t), -1, -1), t], dim=1)


def of(act: Callable[[Tokens, Tensor], Tensor], class_token: float = 0.0) -> Callable[[], nn.Module]:
    blank = Tokens(act, 1, 0.0)
    inputs = act(blank, torch.zeros(1, 4, WIDTH)).numel()
    return lambda: Tokens(act, inputs, class_token)


# --- the same in other words ------------------------------------------------------------------------------------------

Words = Callable[[Tokens, Tensor], Tensor]
SAME: dict[str, tuple[Words, Words]] = {
    "a class token at zero": (joined, lambda m, t: F.pad(t, (0, 0, 1, 0))),
    "matmul": (lambda m, t: t @ m.weight, lambda m, t: F.linear(t, m.weight.T)),
    "matmul from the left": (lambda m, t: m.weight.T @ t.transpose(1, 2), lambda m, t: F.linear(t, m.weight.T)),
    "einsum": (lambda m, t: torch.einsum("bnc,cd->bnd", t, m.weight), lambda m, t: F.linear(t, m.weight.T)),
    "einsum, turned": (lambda m, t: torch.einsum("cd,bnc->bdn", m.weight, t), lambda m, t: F.linear(t, m.weight.T)),
    "einsum by heads": (
        lambda m, t: torch.einsum("bnc,chd->bnhd", t, m.heads),
        lambda m, t: F.linear(t, m.heads.flatten(1).T),
    ),
    "addmm": (
        lambda m, t: torch.addmm(m.bias, t.reshape(-1, WIDTH), m.weight).view(-1, 4, 3),
        lambda m, t: F.linear(t, m.weight.T, m.bias),
    ),
    "stack": (
        lambda m, t: torch.stack([F.linear(t, m.linear.weight), t @ m.weight], dim=2),
        lambda m, t: torch.cat([F.linear(t, m.linear.weight), t @ m.weight], dim=2),
    ),
    "cut and joined": (
        lambda m, t: torch.cat([t[:, 3:], t[:, :3]], 1),
        lambda m, t: t.roll(1, 1),
    ),
}


@pytest.mark.parametrize("probe", [ng.Origin(), ng.Gaussian(0.5)], ids=["origin", "Gaussian"])
@pytest.mark.parametrize("name", SAME)
def test_the_same_in_other_words(name: str, probe: ng.Probe) -> None:
    found = [closed(of(words), (1, SIZE), probe=probe, probes=1) for words in SAME[name]]
    a, b = (G.matrix() for G in found)
    torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-12 * float(b.abs().max()))


# --- against sampled networks -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("probe", [ng.Origin(), ng.Data(images((1, SIZE), 2))], ids=["origin", "data"])
def test_class_token_and_positions_against_sampled_networks(probe: ng.Probe) -> None:
    """One more position with a law of its own; the variance of positions adds to every token's."""

    def act(m: Tokens, t: Tensor) -> Tensor:
        y: Tensor = m.linear(joined(m, t) + m.positions)
        return y

    result = ng.check(of(act, 0.8), (1, SIZE), members=thorough(1600), probe=probe, workers=1, progress=False)
    assert result.agrees, str(result)


@pytest.mark.quick
def test_the_row_of_a_class_token_ends_there() -> None:
    """A linear network that reads the class token alone does not see the input."""
    make = of(lambda m, t: joined(m, t)[:, :1], 0.8)
    assert closed(make, (1, SIZE), probe=ng.Gaussian(1.0)).trace.value == 0


def test_tokens_that_differ_between_samples_are_refused() -> None:
    make = of(lambda m, t: torch.cat([torch.ones(len(t), 1, WIDTH).cumsum(0), t], 1))
    with pytest.raises(ng.NetgrainError, match="differs between samples"):
        closed(make, (1, SIZE))
