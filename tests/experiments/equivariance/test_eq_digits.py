"""Digits on two groups: a level is not a change."""

from netgrain.experiments.equivariance import eq_digits
from tests.experiments.equivariance.made_up_curves import curves_that_fall, verdicts


def test_a_lower_level_alone_does_not_pass_for_training() -> None:
    config = eq_digits.PRESETS["smoke"]
    good = verdicts(eq_digits.claims(eq_digits.Result(config, curves_that_fall(0.1))))
    assert good["G-CNN, direct, falls by more than FC in Fourier space"] == "holds"
    assert good["G-CNN, direct, ends below FC in Fourier space"] == "holds"
    level = verdicts(eq_digits.claims(eq_digits.Result(config, curves_that_fall(0.9))))
    assert level["G-CNN, direct, ends below FC in Fourier space"] == "holds"
    assert level["G-CNN, direct, falls by more than FC in Fourier space"] == "fails"
    rising = verdicts(eq_digits.claims(eq_digits.Result(config, curves_that_fall(1.5))))
    assert rising["training lowers the Fourier ratio of the G-CNN, semidirect"] == "fails"
    assert rising["G-CNN, semidirect, is wider than FC in real space"] == "fails"
