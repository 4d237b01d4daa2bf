"""What the origin means: by trying on a network, and by reading its steps."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from netgrain.families.members import double_copy, member
from netgrain.families.origin import (
    AtOrigin,
    at_origin,
    origin_by_trying,
    origin_from_steps,
    probe_used,
    resolved,
)
from netgrain.families.probes import Gaussian, Origin
from netgrain.families.reading import read
from netgrain.runtime.errors import NetgrainError


class Doubled(nn.Module):
    """A step that no table knows, with a kink at zero."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.maximum(x, 2 * x)


class Turned(nn.Module):
    """A product with a fixed matrix."""

    def forward(self, x: Tensor) -> Tensor:
        return x @ torch.ones(6, 6, dtype=x.dtype).tril()


def zero(layer: nn.Module) -> nn.Module:
    nn.init.zeros_(layer.weight)
    return layer


Layers = Callable[[], list[nn.Module]]
FOUND: dict[str, tuple[Layers, AtOrigin]] = {
    "ReLU": (lambda: [nn.Conv1d(1, 4, 3, bias=False), nn.ReLU()], AtOrigin("kink", True)),
    "in place": (lambda: [nn.Conv1d(1, 4, 3, bias=False), nn.ReLU(inplace=True)], AtOrigin("kink", True)),
    "leaky": (lambda: [nn.Conv1d(1, 4, 3, bias=False), nn.LeakyReLU(0.2)], AtOrigin("kink", True)),
    "after a bias": (
        lambda: [nn.Conv1d(1, 4, 1, bias=False), nn.ReLU(), nn.Conv1d(4, 4, 3), nn.ReLU()],
        AtOrigin("kink"),
    ),
    "maximum": (lambda: [nn.Conv1d(1, 4, 3, bias=False), nn.MaxPool1d(2)], AtOrigin("kink", True)),
    "maximum, curved": (lambda: [nn.Conv1d(1, 4, 3, bias=False), nn.MaxPool1d(2), nn.Tanh()], AtOrigin("kink")),
    "maximum, shifted": (lambda: [nn.Conv1d(1, 4, 3), nn.MaxPool1d(2)], AtOrigin("kink", True)),
    "maximum, deep": (
        lambda: [nn.Conv1d(1, 4, 1), nn.Tanh(), nn.Conv1d(4, 4, 3, padding=1), nn.MaxPool1d(2)],
        AtOrigin("kink"),
    ),
    "turned": (lambda: [Turned(), nn.Conv1d(1, 4, 3, bias=False), nn.ReLU()], AtOrigin("kink", True)),
    "ReLU with a bias": (lambda: [nn.Conv1d(1, 4, 3), nn.ReLU()], AtOrigin("smooth")),
    "twice": (lambda: [nn.Conv1d(1, 4, 3), nn.ReLU(), nn.ReLU()], AtOrigin("smooth")),
    "behind zeros": (
        lambda: [nn.Conv1d(1, 4, 3, bias=False), nn.ReLU(), zero(nn.Conv1d(4, 2, 1))],
        AtOrigin("smooth"),
    ),
    "a constant": (lambda: [nn.Conv1d(1, 4, 3, bias=False), nn.GroupNorm(2, 4)], AtOrigin("constant norm", where="1")),
    "one position": (lambda: [nn.Conv1d(1, 4, 3), nn.InstanceNorm1d(4)], AtOrigin("constant norm", where="1")),
    "statistics": (lambda: [nn.Conv1d(1, 4, 3, bias=False), nn.BatchNorm1d(4), nn.ReLU()], AtOrigin("kink", True)),
}


def network(layers: Layers) -> Callable[[], nn.Module]:
    return lambda: nn.Sequential(*layers(), nn.Flatten())


@pytest.mark.quick
@pytest.mark.parametrize("name", FOUND)
def test_trying_and_reading_agree(name: str) -> None:
    layers, expected = FOUND[name]
    model = double_copy(member(network(layers), 0, 0), (1, 6))
    assert origin_from_steps(model, (1, 6)) == expected
    assert origin_by_trying(model, (1, 6), "all") == expected


def test_a_step_that_nobody_knows_is_tried() -> None:
    model = member(network(lambda: [nn.Conv1d(1, 4, 3, bias=False), Doubled()]), 0, 0)
    assert origin_from_steps(model, (1, 6)) is None
    assert at_origin(model, (1, 6)) == AtOrigin("kink", True)


def test_steps_decide_where_they_can(monkeypatch: pytest.MonkeyPatch) -> None:
    """No gradient is taken of a module that can be traced."""
    monkeypatch.setattr("netgrain.families.origin.origin_by_trying", None)
    reading = read(network(FOUND["ReLU"][0]), (1, 6))
    assert reading.at_origin() == AtOrigin("kink", True)
    with pytest.raises(TypeError):
        reading.at_origin(torch.abs)


def test_a_smooth_network_is_never_drawn() -> None:
    made = []

    def make() -> nn.Module:
        made.append(1)
        return nn.Sequential(nn.Linear(6, 4), nn.GELU(), nn.Linear(4, 2))

    assert read(make, (6,)).at_origin() == AtOrigin("smooth")
    assert len(made) == 1  # on the meta device


def test_the_probe_that_is_used() -> None:
    assert resolved(None, lambda: AtOrigin("smooth")).at_origin
    assert resolved(None, lambda: AtOrigin("kink", homogeneous=True)).probe == Gaussian(1.0)
    limit = resolved(Origin(), lambda: AtOrigin("kink"))
    assert (limit.probe, limit.text) == (Gaussian(0.001), "origin limit (gaussian:0.001)")
    norm = AtOrigin("constant norm", where="norm")
    assert resolved(None, lambda: norm).probe == Gaussian(1.0)
    with pytest.raises(NetgrainError, match="'norm' normalises a constant"):
        resolved(Origin(), lambda: norm)
    asked = probe_used(Gaussian(0.3), nn.Linear(2, 1), (2,), "all")
    assert (asked.probe, asked.text) == (Gaussian(0.3), "gaussian:0.3")
