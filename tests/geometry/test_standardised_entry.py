"""Standardised first layers are recognised, and averaging over them equals sampling them."""

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import netgrain as ng
from netgrain.families.reading import read
from netgrain.families.reasons import Reason
from netgrain.geometry.first_layer import entry_of, first_layer_of
from netgrain.geometry.standardised_entry import standardised_entry
from tests.geometry.networks import Standardised


class Wide(Standardised):
    """The same, called with another padding than the layer says."""

    def forward(self, x: Tensor) -> Tensor:
        return F.conv2d(x, self.weights(), self.bias, self.stride, 2)


def behind(stem: nn.Module, width: int, act: type[nn.Module] = nn.GELU) -> nn.Module:
    return nn.Sequential(
        stem, act(), nn.Conv2d(width, 4, 2), act(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 2)
    )


def strided() -> nn.Module:
    return behind(Standardised(2, 6, 3, stride=2, padding=1), 6)


def unpadded() -> nn.Module:
    return behind(Standardised(2, 6, 3), 6)


def patches() -> nn.Module:
    return behind(Standardised(2, 6, 2, stride=2), 6)


def kinked() -> nn.Module:
    return behind(Standardised(2, 6, 3, stride=2, padding=1), 6, nn.ReLU)


@pytest.mark.quick
def test_the_law_of_a_row() -> None:
    entry = entry_of(read(strided, (2, 6, 6)))
    assert not isinstance(entry, Reason)
    assert (entry.name, entry.row, entry.copies) == ("0", 18, 2)
    torch.manual_seed(0)
    rows = torch.cat([Standardised(2, 400, 3).weights().detach().flatten(1) for _ in range(20)]).double()
    covariance = rows.T @ rows / len(rows)
    want = entry.law.variance * (torch.eye(18) - 1 / 18)
    assert float((covariance - want).abs().max()) < 6 * entry.law.variance / math.sqrt(len(rows))
    assert float(covariance.trace()) == pytest.approx(float(want.trace()), rel=1e-3)


@pytest.mark.quick
@pytest.mark.parametrize(
    "stem",
    [
        lambda: Wide(2, 6, 3, padding=1),
        lambda: Standardised(2, 6, 3, groups=2),
        lambda: Standardised(2, 6, 3, padding=1, padding_mode="circular"),
        lambda: nn.Conv2d(2, 6, 3),
        lambda: nn.Sequential(nn.Tanh(), Standardised(2, 6, 3)),
    ],
)
def test_what_is_unusual_is_left_alone(stem: Callable[[], nn.Module]) -> None:
    assert standardised_entry(read(lambda: behind(stem(), 6), (2, 6, 6))) is None


def errors(G: ng.Geometry, plain: ng.Geometry) -> Tensor:
    """Differences of entries in standard errors of the plain sample."""
    form = plain.form.batched(50)
    pieces = torch.stack([form.part(i).dense() for i in range(form.parts)])
    error = pieces.std(0) / math.sqrt(len(pieces))
    return (plain.matrix() - G.matrix()) / error.clamp(min=1e-6 * error.max())


@pytest.mark.parametrize("make", [strided, unpadded, patches])
def test_averaging_over_it_equals_sampling_it(make: Callable[[], nn.Module]) -> None:
    plain = ng.average_geometry(make, (2, 6, 6), members=300, first_layer="never", seed=1, vmapped=True)
    smart = ng.average_geometry(make, (2, 6, 6), members=300, seed=2, vmapped=True)
    assert smart.about.averaged.startswith("first layer integrated exactly"), smart.about.averaged
    assert abs(plain.trace - smart.trace) < 4 * math.hypot(plain.trace.stderr, smart.trace.stderr)
    agreement = ng.corr(plain, smart)
    assert abs(agreement - 1) < 4 * agreement.stderr
    assert agreement.stderr < 0.03
    assert float(errors(smart, plain).square().mean()) < 2.0


@pytest.mark.quick
def test_constant_images_are_invisible_without_padding() -> None:
    ones = torch.ones(2, 6, 6)
    for make, hidden in ((unpadded, True), (patches, True), (strided, False)):
        G = ng.average_geometry(make, (2, 6, 6), members=20)
        gain = float((ones.flatten() * G.matvec(ones).flatten()).sum()) / ones.numel() / G.trace.value * G.d
        assert (gain < 1e-6) is hidden, gain


def test_away_from_the_origin_members_judge_it() -> None:
    probe = ng.Gaussian(1.0)
    plain = ng.average_geometry(kinked, (2, 6, 6), probe=probe, members=400, first_layer="never", seed=1, vmapped=True)
    smart = ng.average_geometry(kinked, (2, 6, 6), probe=probe, members=200, first_layer="always", seed=2, vmapped=True)
    agreement = ng.corr(plain, smart)
    assert abs(agreement - 1) < max(0.01, 4 * agreement.stderr)
    assert agreement.stderr < 0.02
    assert abs(plain.trace / smart.trace.value - 1) < 0.1  # about one part in 18 weights


def test_the_first_layer_knows_its_row() -> None:
    plan = first_layer_of(read(strided, (2, 6, 6)))
    assert not isinstance(plan, Reason)
    assert plan.row == 18
    assert plan.law_text.startswith("standardised rows of 18, sd 0.353")  # 1.5 / √18
    assert not plan.symmetric
