"""Figures 2 and 8: the claims about a network on its way."""

import math

import pytest

from netgrain import Estimate
from netgrain.experiments.grain import course_claims as cc
from netgrain.experiments.grain import fig2
from tests.experiments.grain.made_up_courses import change, course

YES, NO, MAYBE = Estimate(0.2, 0.005, 8), Estimate(-0.2, 0.01, 8), Estimate(0.01, 0.1, 8)


def _verdicts(claims: list) -> dict[str, str]:
    return {c.name: c.verdict for c in claims}


def test_fig2_claims() -> None:
    courses = {
        "MLP": course(YES, NO, YES, kind="one", beside=False),
        "LeNet": course(NO, YES, NO),
        "ResNet18": course(MAYBE, MAYBE, MAYBE, left_out=1),
        "ViT": course(Estimate(math.nan, math.nan, 2), NO, YES, kind="two"),
    }
    found = fig2.claims(fig2.Result(fig2.PRESETS["smoke"], courses, "digits"))
    verdicts = _verdicts(found)
    assert len(verdicts) == len(found) == 34
    assert "MLP: above S" not in verdicts
    assert {v for n, v in verdicts.items() if n.startswith("MLP")} == {"holds"}
    assert {v for n, v in verdicts.items() if n.startswith("LeNet")} == {"fails"}
    assert {v for n, v in verdicts.items() if n.startswith("ResNet18")} == {"undecided"}
    assert verdicts["ViT: rise"] == "undecided"
    notes = {c.name: c.note for c in found}
    assert "an identity" in notes["MLP: rise"]
    assert "learning rate 0.1 of the text" in notes["MLP: rise"]
    assert "1 diverged" in notes["ResNet18: rise"]
    assert "step (5 and 1)" in notes["LeNet: rise"]
    assert {c.basis for c in found if c.kind == "slope at 0"} == {"counter"}
    assert cc.when(courses["MLP"]) == (
        "two standard errors below its start first at step 1, above its start first at step 5"
    )


@pytest.mark.quick
def test_change_by_index_claims() -> None:
    falls, rises = Estimate(-1.0, 0.01, 8), Estimate(1.0, 0.01, 8)
    assert set(_verdicts(cc.index_claims("LeNet", change(YES, falls))).values()) == {"holds"}
    assert set(_verdicts(cc.index_claims("LeNet", change(YES, rises))).values()) == {"fails"}
    (two,) = cc.index_claims("ViT", change(YES, falls, "two"), data="data like G")
    assert (two.name, two.verdict) == ("ViT, data like G: change by eigenspace", "holds")
    for random, verdict in ((0.1, "holds"), (0.9, "fails")):
        (none,) = cc.index_claims("MLP", change(NO, rises, "one", random))
        assert (none.kind, none.verdict) == ("no order without a grain", verdict)
    steep, flat = change(YES, falls), change(Estimate(0.1, 0.005, 8), falls)
    assert cc.steeper("LeNet", steep, flat).verdict == "holds"
    assert cc.steeper("LeNet", flat, steep).verdict == "fails"
