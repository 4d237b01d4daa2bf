"""Linear layers over positions, shared by channels: second moments by hand, and sampled networks."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import netgrain as ng
from tests.closed_form.networks import closed, images, thorough


class Mixer(nn.Module):
    """Patches, a linear layer over tokens, channels and tokens read by a head."""

    def __init__(self, width: int = 4, hidden: int = 6, side: int = 8, *, linear: bool = False) -> None:
        super().__init__()
        tokens = (side // 2) ** 2
        self.embed = nn.Conv2d(1, width, 2, 2)
        self.up, self.down = nn.Linear(tokens, hidden), nn.Linear(hidden, tokens)
        self.head = nn.Linear(width * tokens, 3)
        self.linear = linear

    def forward(self, x: Tensor) -> Tensor:
        t = self.embed(x).flatten(2)  # (batch, channels, tokens)
        h = self.up(t)
        t = t + self.down(h if self.linear else F.gelu(h))
        y: Tensor = self.head(t.flatten(1))
        return y


@pytest.mark.quick
def test_a_linear_mixer_by_hand() -> None:
    """G = outputs·width·v_head·v_embed·(1 + hidden·tokens·v_up·v_down) I, v = 1/(3·fan-in)."""
    width, hidden, tokens = 4, 6, 16
    G = closed(lambda: Mixer(width, hidden, linear=True), (1, 8, 8))
    assert G.exact
    path = 1 + tokens * hidden / (3 * tokens) / (3 * hidden)
    expected = 3 * width * path / (3 * width * tokens) / (3 * 4)
    torch.testing.assert_close(G.matrix(), expected * torch.eye(64, dtype=torch.float64))


@pytest.mark.parametrize("probe", [ng.Origin(), ng.Data(images((1, 8, 8), 2))], ids=["origin", "data"])
def test_a_mixer_against_sampled_networks(probe: ng.Probe) -> None:
    """Where slopes are random, the limit is that of many tokens."""
    result = ng.check(Mixer, (1, 8, 8), members=thorough(1200), probe=probe, workers=1, progress=False)
    assert result.agrees, str(result)


def test_weights_that_are_not_centred_are_refused() -> None:
    def make() -> nn.Module:
        net = Mixer()
        nn.init.uniform_(net.up.weight, 0.0, 1.0)
        return net

    with pytest.raises(ng.NetgrainError, match="not centred"):
        closed(make, (1, 8, 8))
