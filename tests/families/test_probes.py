"""Where x comes from."""

import pytest
import torch
from torch import Tensor

from netgrain.families.probes import Data, Gaussian, Origin, Probe, checked_probe, probe_named
from netgrain.runtime.errors import NetgrainError

X = torch.arange(20.0).reshape(10, 2)


@pytest.mark.quick
@pytest.mark.parametrize("probe", [Origin(), Gaussian(0.5), Data(X)])
def test_every_probe_keeps_the_contract(probe: Probe) -> None:
    checked_probe(probe, (2,))
    points = probe.points((2,), 4, 3)
    assert points.shape[1:] == (2,)
    assert 1 <= len(points) <= 4
    assert torch.equal(points, probe.points((2,), 4, 3))
    assert isinstance(probe.describe(), str)


def test_points() -> None:
    assert not Origin().points((2, 3), 5, 0).any()
    many = Gaussian(0.5).points((2,), 4000, 0)
    assert float(many.std()) == pytest.approx(0.5, rel=0.05)
    assert not torch.equal(many, Gaussian(0.5).points((2,), 4000, 1))
    few = Data(X).points((2,), 4, 0)
    assert len(few.unique(dim=0)) == 4
    assert all((row == X).all(1).any() for row in few)
    assert torch.equal(Data(X).points((2,), 10, 0), X)


class Wide:
    """Points of another shape than asked for."""

    def describe(self) -> str:
        return "wide"

    def points(self, input_shape: tuple[int, ...], count: int, seed: int) -> Tensor:
        return torch.zeros(count, 7)


@pytest.mark.parametrize(
    ("probe", "message"),
    [
        (Gaussian, "call it, as in Gaussian"),
        (X, "wrap it, as in Data"),
        ("origin", "found"),
        (Wide(), r"shape \(7,\)"),
    ],
)
def test_what_is_no_probe(probe: object, message: str) -> None:
    with pytest.raises(NetgrainError, match=message):
        checked_probe(probe, (2,))


def test_probes_by_name() -> None:
    assert probe_named("auto") is None
    assert isinstance(probe_named("origin"), Origin)
    assert probe_named("gaussian") == Gaussian(1.0)
    for text, message in (
        ("gaussian:x", "a number after the colon"),
        ("data", "is not known"),
        ("gaussian:-1", "positive"),
    ):
        with pytest.raises(NetgrainError, match=message):
            probe_named(text)


@pytest.mark.parametrize(
    ("X", "message"),
    [(torch.zeros(3), "add a first axis"), (torch.zeros(3, 2).long(), "floating-point"), (X / 0, "NaN or Inf")],
)
def test_samples_that_are_none(X: Tensor, message: str) -> None:
    with pytest.raises(NetgrainError, match=message):
        Data(X)
