"""Inequalities as rows: a bound that breaks is seen, and every quotient is that of a slow loop."""

import math

import pytest
import torch

from netgrain.experiments.theory import bounds
from netgrain.experiments.theory.bounds import bound
from netgrain.experiments.theory.statements import Job

JOB = Job()


@pytest.mark.quick
def test_a_bound_breaks_where_one_quotient_is_below_one() -> None:
    good = bound("x", [2.0, 8.0], claim="", assumptions="")
    assert (good.corrected, good.measured.value) == ("holds", pytest.approx(4.0))
    assert "the smallest of 2 is 2" in good.note
    assert bound("x", [0.9, 100.0], claim="", assumptions="").corrected == "fails"
    assert bound("x", [0.9, 100.0], claim="", assumptions="", sampling=0.03).corrected == "holds"
    assert bound("x", [0.85, 100.0], claim="", assumptions="", sampling=0.03).corrected == "fails"


def test_quotients_are_those_of_a_slow_loop() -> None:
    there = bounds.subjects(JOB, "trained")
    X = there.X.flatten(1)
    ratios = []
    for net in there.perceptrons:
        jacobians = [torch.autograd.functional.jacobian(net, x) for x in X]
        gc = sum(float(J.square().sum()) for J in jacobians) / len(X)
        product = math.prod(float(p.square().sum()) for p in net.parameters() if p.dim() == 2)
        ratios.append(math.log(product / gc))
    (row,) = [s for s in bounds.parameter_norm(JOB) if s.quantity == "Π‖W‖² / GC, trained"]
    assert row.measured.value == pytest.approx(math.exp(sum(ratios) / len(ratios)), rel=1e-4)


def test_equalities_are_tight_and_the_wrong_bound_breaks() -> None:
    found = [s for check in (bounds.spectral_norm, bounds.transfer, bounds.product, bounds.softmax) for s in check(JOB)]
    tight = {s.quantity: s.measured.value for s in found if s.quantity.endswith("tight")}
    assert len(tight) == 4
    assert all(value == pytest.approx(1, abs=1e-4) for value in tight.values())
    (wrong,) = [s for s in found if "no width" in s.quantity]
    assert wrong.measured.value == pytest.approx(1 / 8)
