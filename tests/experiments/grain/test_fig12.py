"""Figures 12 and 13: gaps by number of samples."""

import math
from dataclasses import replace

import pytest

from netgrain import Estimate
from netgrain.experiments.grain import fig3, fig12, fig13


def _pair(gaps: list[float], plug_in: Estimate, left_out: int = 0, far: float = 1.0) -> fig3.Pair:
    accuracy = {"G": [[50.0, 60.0 + g, 60.0 + g] for g in gaps], "flip(G)": [[50.0, 60.0, 60.0] for _ in gaps]}
    turned = {law: [Estimate(0.1, 0.01, 4, 0.2)] * 2 for law in fig3.LAWS}
    distance = {law: [far + 0.01 * k for k in range(len(gaps))] for law in fig3.LAWS}
    return fig3.Pair(list(range(len(gaps))), accuracy, turned, plug_in, plug_in, left_out, distance, {})


def _verdicts(claims: list) -> dict[str, str]:
    return {c.name: c.verdict for c in claims}


def _result(gaps: list[list[float]], distances: list[float], velocity: float = 0.1) -> fig12.Result:
    turns = Estimate(velocity, 0.01, 3)
    sizes = (16, 24, 32, 40)
    pairs = {n: _pair(g, turns, int(n == 40), far) for n, g, far in zip(sizes, gaps, distances, strict=True)}
    return fig12.Result(fig12.PRESETS["smoke"], pairs)


FEW, NONE = [30.0, 31.0, 32.0], [1.0, 0.0, 2.0]


@pytest.mark.quick
def test_fig12_and_fig13_claims() -> None:
    closes = _result([FEW, FEW, NONE, NONE], [1.0, 2.0, 3.0, 4.0])
    verdicts = _verdicts(fig12.claims(closes))
    assert verdicts.pop("ResNet18: distance and accuracy") == "undecided"  # accuracy on flip(G) is the same everywhere
    assert set(verdicts.values()) == {"holds"}
    assert fig12.closing(closes).value == pytest.approx(30)
    assert "1 diverged" in fig12.claims(closes)[0].note
    assert _verdicts(fig13.claims(closes))["ResNet18: gap with many samples"] == "undecided"
    assert _verdicts(fig13.claims(closes))["ResNet18: distance from initialisation"] == "fails"
    many = [40.0, 41.0, 43.0]
    stays = _result([FEW, FEW, many, many], [1.0, 1.0, 1.1, 1.1])
    assert _verdicts(fig12.claims(stays))["ResNet18: the gap closes"] == "fails"
    assert set(_verdicts(fig13.claims(stays)).values()) == {"holds"}
    apart = replace(stays, pairs={16: stays.pairs[16], 40: replace(stays.pairs[40], seeds=[1, 2, 5])})
    assert fig12.closing(apart).n == 2  # seeds 1 and 2 are paired with themselves, not by their place
    assert fig12.closing(apart).value == pytest.approx((31 - 40 + 32 - 41) / 2)
    assert fig12.farther(apart).value == pytest.approx((math.log(1.1 / 1.01) + math.log(1.11 / 1.02)) / 2)


def test_distance_and_accuracy_are_ranked_within_a_seed() -> None:
    found = _result([FEW] * 4, [1.0, 2.0, 3.0, 4.0])

    def learnt(last: dict[int, float]) -> fig12.Result:
        pairs = {
            n: replace(p, accuracy={**p.accuracy, "flip(G)": [[50.0, last[n]]] * 3}) for n, p in found.pairs.items()
        }
        return replace(found, pairs=pairs)

    up, down = {16: 50.0, 24: 60.0, 32: 70.0, 40: 80.0}, {16: 80.0, 24: 70.0, 32: 60.0, 40: 50.0}
    assert fig12.distance_and_accuracy(learnt(up), "flip(G)").value == pytest.approx(1)
    assert fig12.distance_and_accuracy(learnt(down), "flip(G)").value == pytest.approx(-1)
    three = replace(found, pairs={n: p for n, p in found.pairs.items() if n > 16})
    assert fig12.distance_and_accuracy(three, "flip(G)").n == 0  # no rank correlation from three sizes
    slow = _result([FEW] * 4, [1.0] * 4, velocity=-0.1)
    assert _verdicts(fig12.claims(slow))["ResNet18: velocity with few samples"] == "fails"
