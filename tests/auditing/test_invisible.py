"""Invisible is what is lost before the first activation, and nothing else; every count here is known by hand."""

from collections.abc import Callable
from functools import partial

import pytest
import torch
from torch import Tensor, nn

import netgrain as ng
from netgrain.auditing.invisible import invisible_within
from netgrain.auditing.signals import visible
from netgrain.models import LeNet

SIDE = 8
D = SIDE * SIDE
EVERYTHING = torch.eye(D).reshape(D, 1, SIDE, SIDE)


def strided() -> nn.Module:
    """Sees every second pixel of every second row: 16 of 64."""
    return nn.Sequential(nn.Conv2d(1, 4, 1, stride=2), nn.ReLU(), nn.Flatten(), nn.Linear(64, 2))


def averaged() -> nn.Module:
    return nn.Sequential(nn.AvgPool2d(2), nn.Conv2d(1, 4, 3, padding=1), nn.GELU(), nn.Flatten(), nn.Linear(64, 2))


def averaged_later() -> nn.Module:
    """The same pool behind the activation loses nothing for good."""
    return nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.GELU(), nn.AvgPool2d(2), nn.Flatten(), nn.Linear(64, 2))


def narrow() -> nn.Module:
    """Each network sees four directions, and each other ones."""
    return nn.Sequential(nn.Flatten(), nn.Linear(D, 4), nn.ReLU(), nn.Linear(4, 2))


def linear() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(D, 3))


class Cropped(nn.Module):
    """Sees the inner 6 x 6 pixels, works in place, and its first layer is narrow, too."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(36, 3), nn.Linear(3, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.first(x[..., 1:7, 1:7].flatten(1)).relu_())


class Skipping(nn.Module):
    """One branch strides, the other takes everything."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.last, self.skip = nn.Conv2d(1, 4, 1, stride=2), nn.Linear(64, 2), nn.Linear(D, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(torch.relu(self.conv(x)).flatten(1)) + self.skip(x.flatten(1)).tanh()


class Deciding(nn.Module):
    """Looks at numbers, so it cannot be traced."""

    def __init__(self) -> None:
        super().__init__()
        self.last = nn.Linear(1, 2)

    def forward(self, x: Tensor) -> Tensor:
        first = x[:, :1, 0, 0] if float(x.sum()) < 1e9 else x[:, :1, 1, 1]
        return self.last(first)


@pytest.mark.parametrize(
    ("make", "count"),
    [
        (strided, 48),
        (averaged, 48),
        (Cropped, 28),
        (averaged_later, 0),
        (narrow, 0),
        (linear, 0),
        (Skipping, 0),
        (Deciding, 0),
    ],
)
def test_counts_known_by_hand(make: Callable[[], nn.Module], count: int) -> None:
    found = invisible_within(make, EVERYTHING)
    assert found.shape == (count, D)
    assert torch.allclose(found @ found.T, torch.eye(count, dtype=torch.float64), atol=1e-9)
    if make is strided:
        seen = torch.zeros(SIDE, SIDE)
        seen[::2, ::2] = 1
        assert float((found * seen.flatten()).abs().max()) < 1e-9


def test_only_the_candidates_are_searched() -> None:
    assert len(invisible_within(strided, EVERYTHING[[0, 1, 2, 9]])) == 2  # pixels 1 and 9 are left out
    mixed = EVERYTHING[0] + EVERYTHING[1]
    assert len(invisible_within(strided, mixed[None])) == 0


def test_zeros_at_the_origin_are_not_invisible() -> None:
    """LeNet is linear at the origin, so what its pools lose is zero there; at other inputs it reacts to that."""
    lenet = partial(LeNet, channels=1, image_size=32, outputs=10, activation="gelu")
    G = ng.average_geometry(lenet, (1, 32, 32))
    zeros = int((G.eigenvalues <= 1e-10 * G.eigenvalues[0]).sum())
    assert zeros == 183
    V = G.directions(zeros, bottom=True)
    elsewhere = ng.average_geometry(lenet, (1, 32, 32), probe=ng.Gaussian(1.0), members=8, probes=8)
    held = float((V.flatten(1) * elsewhere.form.matvec(V.flatten(1))).sum()) / elsewhere.trace.value
    assert held > 0.02
    assert len(invisible_within(lenet, V)) == 0


def test_the_word_for_a_signal() -> None:
    board = torch.zeros(1, SIDE, SIDE)
    board[0, 2:6, 2:6] = torch.tensor([[1.0, -1.0], [-1.0, 1.0]]).repeat(2, 2)
    found = visible(averaged, board, layers=False)
    assert (found.word, found.gain.value) == ("invisible", 0.0)
    assert "no network of the family reacts to it at any input" in repr(found)
    assert visible(averaged_later, board, layers=False).word != "invisible"
