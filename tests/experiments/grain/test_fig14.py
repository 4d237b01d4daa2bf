"""Figure 14: learning rates are compared seed by seed."""

import pytest

from netgrain.experiments.grain import fig14
from tests.experiments.grain.planted_curves import STEEP, curve


def test_fig14_compares_with_the_smallest_rate() -> None:
    good, bad = curve(*STEEP), curve(*[[x - 10 for x in row] for row in STEEP])
    names = [fig14.curve_name("linear", lr) for lr in fig14.RATES]
    curves = {n: bad if n == names[-1] else good for n in names}
    found = {c.name: c for c in fig14.claims(fig14.Result(fig14.PRESETS["smoke"], curves))}
    assert len(found) == 5
    assert found["linear: the smallest learning rate is worst"].value == pytest.approx(10)
    assert found["linear, lr 0.001: same preference"].verdict == "holds"
    curves = {n: good if n == names[-1] else bad for n in names}
    found = {c.name: c for c in fig14.claims(fig14.Result(fig14.PRESETS["smoke"], curves))}
    assert found["linear: the smallest learning rate is worst"].verdict == "fails"


def test_a_seed_does_not_choose_its_own_best_rate() -> None:
    names = [fig14.curve_name("linear", lr) for lr in fig14.RATES]
    # rate 0 is lucky on seed 0 only, rate 1 on seed 1 only: chosen by the other seed, each luck is lost
    curves = {n: curve([50.0, 50.0], [50.0, 50.0]) for n in names}
    curves[names[0]] = curve([60.0, 60.0], [40.0, 40.0])
    curves[names[1]] = curve([40.0, 40.0], [60.0, 60.0])
    assert fig14._worst("linear", names, curves)[0].value == pytest.approx(-10)
