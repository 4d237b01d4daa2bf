"""Figure 14: learning rates are compared seed by seed."""

import math
from dataclasses import replace

import pytest

from netgrain.experiments.claims import Claim
from netgrain.experiments.grain import fig14
from tests.experiments.grain.planted_curves import STEEP, curve

LINEAR = replace(fig14.PRESETS["smoke"], labels=("linear",))


def test_fig14_compares_with_the_smallest_rate() -> None:
    good, bad = curve(*STEEP), curve(*[[x - 10 for x in row] for row in STEEP])
    names = [fig14.curve_name("linear", lr) for lr in fig14.RATES]
    curves = {n: bad if n == names[-1] else good for n in names}
    found = {c.name: c for c in fig14.claims(fig14.Result(LINEAR, curves))}
    assert len(found) == len(fig14.claims(fig14.Result(LINEAR, curves))) == 4 + 4 + 3 + 1
    assert found["linear: the smallest learning rate is worst"].value == pytest.approx(10)
    assert found["linear, lr 0.001: same preference"].verdict == "holds"
    curves = {n: good if n == names[-1] else bad for n in names}
    found = {c.name: c for c in fig14.claims(fig14.Result(LINEAR, curves))}
    assert found["linear: the smallest learning rate is worst"].verdict == "fails"


def test_a_seed_does_not_choose_its_own_best_rate() -> None:
    names = [fig14.curve_name("linear", lr) for lr in fig14.RATES]
    # rate 0 is lucky on seed 0 only, rate 1 on seed 1 only: chosen by the other seed, each luck is lost
    curves = {n: curve([50.0, 50.0], [50.0, 50.0]) for n in names}
    curves[names[0]] = curve([60.0, 60.0], [40.0, 40.0])
    curves[names[1]] = curve([40.0, 40.0], [60.0, 60.0])
    assert fig14._worst("linear", names, curves)[0].value == pytest.approx(-10)


def test_a_larger_rate_ends_farther_from_the_initialisation() -> None:
    names = [fig14.curve_name("linear", lr) for lr in fig14.RATES]

    def judged(*distances: float, train: float = 100.0) -> list[Claim]:
        curves = {
            name: replace(curve(*STEEP, train=train), distance={s: [d, 3 * d] for s in range(3)})
            for name, d in zip(names, distances, strict=True)
        }
        return [c for c in fig14.claims(fig14.Result(LINEAR, curves)) if c.kind.startswith("farther")]

    found = judged(8.0, 4.0, 4.0, 5.0)
    assert [c.subject for c in found] == ["linear, lr 1", "linear, lr 0.1", "linear, lr 0.01"]
    assert [c.verdict for c in found] == ["holds", "fails", "fails"]
    assert found[0].value == pytest.approx(math.log(2))
    assert found[0].note == "16 against 8 at lr 0.1"
    assert [c.verdict for c in judged(8.0, 4.0, 4.0, 5.0, train=70.0)] == ["holds", "not fitted", "not fitted"]
