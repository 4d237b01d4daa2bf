"""Figures 12 and 13: gaps by number of samples."""

from dataclasses import replace

import pytest

from netgrain import Estimate
from netgrain.experiments.grain import fig3, fig12, fig13


def _pair(gaps: list[float], plug_in: Estimate, left_out: int = 0) -> fig3.Pair:
    accuracy = {"G": [[50.0, 60.0 + g, 60.0 + g] for g in gaps], "flip(G)": [[50.0, 60.0, 60.0] for _ in gaps]}
    turned = {law: [Estimate(0.1, 0.01, 4, 0.2)] * 2 for law in fig3.LAWS}
    return fig3.Pair(list(range(len(gaps))), accuracy, turned, plug_in, plug_in, left_out)


def _verdicts(claims: list) -> dict[str, str]:
    return {c.name: c.verdict for c in claims}


def test_fig12_and_fig13_claims() -> None:
    def result(small: list[float], large: list[float]) -> fig12.Result:
        none = Estimate(0.0, 0.0, 3)
        return fig12.Result(fig12.PRESETS["smoke"], {16: _pair(small, none), 32: _pair(large, none, left_out=1)})

    closes = result([30.0, 31.0, 32.0], [1.0, 0.0, 2.0])
    assert set(_verdicts(fig12.claims(closes)).values()) == {"holds"}
    assert fig12.closing(closes).value == pytest.approx(30)
    assert "1 diverged" in fig12.claims(closes)[0].note
    assert _verdicts(fig13.claims(closes))["ResNet18: gap with many samples"] == "undecided"
    stays = result([30.0, 31.0, 32.0], [40.0, 41.0, 43.0])
    assert _verdicts(fig12.claims(stays))["ResNet18: the gap closes"] == "fails"
    assert set(_verdicts(fig13.claims(stays)).values()) == {"holds"}
    apart = replace(stays, pairs={16: stays.pairs[16], 32: replace(stays.pairs[32], seeds=[1, 2, 5])})
    assert fig12.closing(apart).n == 2  # seeds 1 and 2 are paired with themselves, not by their place
    assert fig12.closing(apart).value == pytest.approx((31 - 40 + 32 - 41) / 2)
