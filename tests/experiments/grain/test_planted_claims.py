"""Claims about curves of accuracy come out as the numbers say, and can fail."""

import math
from dataclasses import replace

import pytest

from netgrain.experiments.grain import fig14, planted_claims
from netgrain.experiments.grain.planted_labels import AccuracyCurve, CurveName, Judged
from tests.experiments.grain.planted_curves import FLAT, NAME, STEEP, curve, verdict


def test_drop_needs_no_particular_length() -> None:
    assert planted_claims.drop([90, 80, 60, 50, 40]) == 35
    assert planted_claims.drop([90, 80, 50, 40]) == 40
    assert planted_claims.drop([90, 50]) == 20


def test_falls_and_order_come_out_as_the_numbers_say() -> None:
    assert verdict(planted_claims.falls(NAME, curve(*STEEP), "")) == "holds"
    assert verdict(planted_claims.falls(NAME, curve(*FLAT), "")) == "fails"
    assert verdict(planted_claims.falls(NAME, curve(STEEP[0], FLAT[0]), "")) == "undecided"
    # 25 points are above 20, but not 30
    assert verdict(planted_claims.falls(NAME, curve([85, 85, 60, 60, 60], [85.1, 85, 60, 60, 60]), "")) == "fails"
    assert verdict(planted_claims.predicted_order(NAME, curve(*STEEP), low=0.8, matrix="G")) == "holds"
    backwards = [list(reversed(row)) for row in STEEP]
    assert verdict(planted_claims.predicted_order(NAME, curve(*backwards), matrix="G")) == "fails"
    constant = planted_claims.predicted_order(NAME, curve([50.0] * 4, [50.0] * 4), matrix="G")[0]
    assert constant.verdict == "undecided"
    assert constant.n == 0


def test_what_is_not_learnt_is_said() -> None:
    assert planted_claims.falls(NAME, curve([51.0, 50, 50], [52.0, 50, 50]), "")[0].note == (
        "accuracy 51.5 % at the first index: not learnt"
    )
    assert not planted_claims.falls(NAME, curve(*STEEP), "")[0].note


def test_null_directions_are_tied() -> None:
    curve = AccuracyCurve([0, 1, 2], [1.0, 1e-13, 1e-16], {0: [90.0, 50.0, 51.0]}, {}, {}, 0)
    assert planted_claims.order(curve, [90, 50, 51]) == planted_claims.order(curve, [90, 51, 50])


def test_fitted() -> None:
    assert verdict(planted_claims.fitted(NAME, curve(*STEEP))) == "holds"
    assert verdict(planted_claims.fitted(NAME, curve(*STEEP, train=80.0))) == "not fitted"
    # one index that is not fitted is enough
    found = curve(*STEEP)
    for row in found.train.values():
        row[-1] = 98.0
    assert planted_claims.fitted(NAME, found)[0].value == pytest.approx(98)
    assert not planted_claims.is_fitted(found)
    assert planted_claims.is_fitted(replace(found, to_fit=False))


def test_claims_about_networks_that_did_not_fit_do_not_fail() -> None:
    flat = planted_claims.falls(NAME, curve(*FLAT, train=80.0), "")[0]
    assert flat.verdict == "not fitted"
    assert "train accuracy 80.0 % at the index that is fitted worst" in flat.note
    assert verdict(planted_claims.falls(NAME, curve(*FLAT), "")) == "fails"
    assert verdict(planted_claims.falls(NAME, curve(*STEEP, train=80.0), "")) == "holds"


def test_no_rank_correlation_from_few_indices_or_two_eigenvalues() -> None:
    def kinds(found: AccuracyCurve) -> list[str]:
        curves = {CurveName(n, "linear"): found for n in ("LeNet", "ViT")}
        both = planted_claims.along_the_spectrum(curves, ["LeNet"], matrix="G", paper="")
        return [c.kind for c, _ in both + planted_claims.in_two_eigenspaces(curves, bool, matrix="G", paper="")]

    assert kinds(curve(*STEEP)) == ["falls", "predicted order", "first eigenspace", "predicted order"]
    three = curve(*[row[:3] for row in STEEP])
    assert kinds(three) == ["falls", "first eigenspace"]
    two_eigenvalues = replace(curve(*STEEP), values=[1.0, 1.0, 1.0, 0.1, 0.1, 0.1])
    assert kinds(two_eigenvalues) == ["falls", "first eigenspace"]


def test_the_sine_of_labels_is_described_and_labels_of_our_own_are_no_claims_of_the_paper() -> None:
    spread = {s: [9.8, 2.0, 1.0, 0.5, 0.2, 0.1] for s in range(3)}
    found = replace(curve(*STEEP), spread=spread)
    expected = "standard deviation inside the sine, in radians: 9.8 at the first index, 0.1 at the last"
    claim = planted_claims.falls(CurveName("N", "sinusoidal"), found, "falls")[0]
    assert expected in claim.note
    assert claim.basis == "paper"
    scaled = planted_claims.falls(CurveName("N", "sinusoidal, scaled"), replace(found, spread={0: [5.0] * 6}), "falls")
    assert "in radians: 5.0" in scaled[0].note
    assert scaled[0].basis == "own"
    assert not planted_claims.radians(replace(found, spread={0: [math.nan] * 6}))


def test_harder_labels_fall_sooner() -> None:
    early = (
        [98.0, 60.0, 51.0, 50.0, 50.0, 50.0],
        [97.0, 61.0, 52.0, 50.0, 51.0, 50.0],
        [98.0, 62.0, 50.0, 50.0, 50.0, 50.0],
    )
    steep, hard = curve(*STEEP), curve(*early)

    def judged(linear: AccuracyCurve, harder: AccuracyCurve) -> Judged:
        quadratic = CurveName("N", "quadratic")
        return planted_claims.sooner({CurveName("N", "linear"): linear, quadratic: harder}, quadratic)

    assert judged(steep, hard)[0].name == "N, quadratic: falls sooner than linear"
    assert verdict(judged(steep, hard)) == "holds"
    assert judged(steep, hard)[1] == ()  # no seeds are added for it
    assert verdict(judged(hard, steep)) == "fails"
    assert verdict(judged(steep, curve([50.0] * 6, [50.0] * 6))) == "undecided"
    # only indices that both have are compared: the thin curve below is the steep one with points left out
    thin = curve(*[[r[0], r[1], r[5]] for r in STEEP], indices=[0, 1, 5])
    assert abs(judged(steep, thin)[0].value) < 1e-12
    claim = judged(steep, replace(hard, accuracy={2: list(early[2])}, left_out=2))[0]
    assert claim.n == 1
    assert "2 diverged" in claim.note


def test_two_eigenspaces() -> None:
    found = curve([90.0, 88.0, 60.0, 50.0], [91.0, 88.0, 60.0, 52.0], [90.0, 89.0, 61.0, 50.0])
    inside = [True, True, False, False]
    claim = planted_claims.spaces(NAME, found, inside, paper="")[0]
    assert claim.verdict == "holds"
    assert claim.value == pytest.approx(((89 - 55) + (89.5 - 56) + (89.5 - 55.5)) / 3)
    assert verdict(planted_claims.spaces(NAME, found, [not i for i in inside], paper="")) == "fails"
    assert math.isnan(planted_claims.spaces(NAME, found, [True] * 4, paper="")[0].value)


def test_no_difference_is_not_positive() -> None:
    same = curve([50.0] * 4, [50.0] * 4)
    assert verdict(planted_claims.spaces(NAME, same, [True, True, False, False], paper="")) == "fails"
    names = [fig14.curve_name("linear", lr) for lr in fig14.RATES]
    assert fig14._worst("linear", names, dict.fromkeys(names, same))[0].verdict == "fails"
