"""What an integrated first layer gets wrong, against plain and integrated samples of many other members."""

import math

import pytest
import torch
from torch import Tensor, nn

import netgrain as ng
from netgrain.families.members import member
from netgrain.families.reading import read
from netgrain.geometry.estimate import Estimate
from netgrain.geometry.first_layer import FirstLayer, first_layer_of
from netgrain.geometry.forms import Factored
from netgrain.geometry.gradient_rows import Rows
from netgrain.geometry.random_head import RandomHead, random_head_of
from netgrain.geometry.stem_bias import StemBias, StemRows, along_geometry, stem_bias, through_other_weights
from netgrain.runtime.randomness import derived_seed
from tests.geometry.networks import Standardised

SHAPE = (1, 6, 6)


class Square(nn.Module):
    """Its slope h = W·x grows with the weights that the gradient passes next."""

    def forward(self, x: Tensor) -> Tensor:
        return x.square() / 2


def tied() -> nn.Module:
    """Behind a stem of four weights: E[W_i² (W·x)²] is 1 + 2/4 times the product of the means at a typical x."""
    net = nn.Sequential(nn.Conv2d(1, 2, 2, bias=False), Square(), nn.Flatten(), nn.Linear(50, 3))
    nn.init.normal_(net[0].weight)
    return net


def measured(probe: ng.Gaussian, members: int = 4) -> StemBias:
    reading = read(tied, SHAPE)
    plan, head = first_layer_of(reading), random_head_of(reading, "all")
    assert isinstance(plan, FirstLayer)
    assert isinstance(head, RandomHead)
    rows = StemRows(tied, 0, SHAPE, probe, 2, "all", plan, torch.device("cpu"), head)
    return stem_bias(plan, 0, rows.one_by_one(range(members)))


def test_its_rows_are_those_of_the_sample() -> None:
    """The members that judge the first layer need not be computed again."""
    reading = read(tied, SHAPE)
    plan, head = first_layer_of(reading), random_head_of(reading, "all")
    asked = (tied, 0, SHAPE, ng.Gaussian(1.0), 2, "all", plan, torch.device("cpu"), head)
    both, usual = StemRows(*asked).one(3), Rows(*asked).one(3)
    assert torch.allclose(both.arrays["rows"], usual.arrays["rows"], rtol=1e-6)
    assert both.numbers == usual.numbers
    model = member(tied, 0, 3)
    x = Rows(*asked).points(3).requires_grad_(True)
    assert isinstance(head, RandomHead)
    (want,) = torch.autograd.grad(head.on(model, derived_seed(0, "head", 3))(x).sum(), x)
    assert torch.allclose(both.arrays["own"], want.flatten(1), rtol=1e-6)


def test_against_plain_and_integrated_samples() -> None:
    found = measured(ng.Gaussian(1.0), 200)
    plain = ng.average_geometry(tied, SHAPE, probe=ng.Gaussian(1.0), members=600, first_layer="never", seed=1)
    whole = ng.average_geometry(tied, SHAPE, probe=ng.Gaussian(1.0), members=600, first_layer="always", seed=2)
    ratio = plain.trace.value / whole.trace.value
    error = ratio * math.hypot(plain.trace.stderr / plain.trace.value, whole.trace.stderr / whole.trace.value)
    assert abs(ratio - 1) > 6 * error  # there is something to see
    assert abs(found.scale.value - ratio) < 4 * math.hypot(error, found.scale.stderr)
    A, B = plain.matrix(), whole.matrix()
    along = float((A * B).sum() / B.square().sum()) / ratio
    assert abs(found.along.value - along) < 4 * found.along.stderr + 0.05


@pytest.mark.quick
def test_near_the_origin_nothing_is_wrong() -> None:
    found = measured(ng.Gaussian(1e-4))
    assert abs(found.scale.value - 1) < 4 * found.scale.stderr
    assert found.within(0.01) == (abs(found.scale.value - 1) <= math.sqrt(0.02) + 2 * found.scale.stderr)


def test_standardised_weights_of_a_linear_network_have_no_bias() -> None:
    """Gradients behind the layer do not depend on it: only its law enters, and rows of it add up to zero."""

    def linear() -> nn.Module:
        return nn.Sequential(Standardised(2, 3, 3, padding=1), nn.Flatten(), nn.Linear(48, 2))

    reading = read(linear, (2, 4, 4))
    plan, head = first_layer_of(reading), random_head_of(reading, "all")
    assert isinstance(plan, FirstLayer)
    assert isinstance(head, RandomHead)
    rows = StemRows(linear, 0, (2, 4, 4), ng.Gaussian(1.0), 2, "all", plan, torch.device("cpu"), head)
    found = rows.one_by_one(range(60))
    bias = stem_bias(plan, 0, found)
    inside = torch.zeros(3, 4, 4)
    inside[:, 1:3, 1:3] = torch.randn(3, 2, 2)  # of windows that lie inside the image: constant images are hidden
    other = through_other_weights(plan, inside.flatten(1), 1, seed=0)
    assert abs(float(other.sum())) < 1e-5 * float(other.abs().sum())
    for ratio in (bias.scale, bias.along):
        assert abs(ratio.value - 1) < 4 * ratio.stderr
        assert ratio.stderr < 0.05
    # a bias of one part in N would be seen if the term of the rows were forgotten in one of both
    g, r = found[0].arrays["own"][:2], found[1].arrays["rows"]
    G = plan.form(Factored(r)).dense()
    assert float(along_geometry(plan, r, g)) == pytest.approx(
        float(g.double().flatten() @ G @ g.double().flatten()), rel=1e-5
    )


def test_the_verdict() -> None:
    right, wrong = Estimate(1.0, 0.01, 4), Estimate(1.5, 0.02, 4)
    assert StemBias(right, right).within(0.01)
    assert not StemBias(wrong, right).within(0.01)
    assert not StemBias(right, wrong).within(0.01)
    assert "1.500 ± 0.020 times" in StemBias(wrong, right).text
