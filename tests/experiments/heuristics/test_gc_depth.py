"""Depth at the start: claims follow the numbers, and the figure has a panel for each scheme."""

import math

import pytest

from netgrain.experiments.heuristics.gc_depth import OUTPUTS, SCHEMES, Config, Result, claims, figure, overview_panels

DEPTHS = (1, 2, 4, 8)


def _result(he: float, factor: float) -> Result:
    """He's networks around a mean at every depth; the others change by a factor with every layer."""
    noise = (0.98, 1.02, 0.99, 1.01)
    values = {s: {d: [20 * factor**d * e for e in noise] for d in DEPTHS} for s in ("glorot", "lecun")}
    values["lecun"] = {d: [OUTPUTS * factor**d * e for e in noise] for d in DEPTHS}
    values["he"] = {d: [he * e for e in noise] for d in DEPTHS}
    return Result(Config(depths=DEPTHS, networks=1, others=1, seeds=2), values)


@pytest.mark.quick
def test_claims_follow_the_numbers() -> None:
    right = {c.name: c.verdict for c in claims(_result(he=2 * OUTPUTS, factor=0.5))}
    assert right["depth lowers complexity under Glorot"] == right["depth lowers complexity under LeCun"] == "holds"
    assert right["under He the mean does not depend on depth"] == "holds"
    assert {c.basis for c in claims(_result(he=20, factor=0.5)) if "under He" in c.name} == {"counter"}
    wrong = {c.name: c.verdict for c in claims(_result(he=3 * OUTPUTS, factor=2.0))}
    assert set(wrong.values()) == {"fails"}


def test_panels() -> None:
    result = _result(he=20, factor=0.5)
    drawn = figure(result)
    assert [ax.get_title() for ax in drawn.axes] == [f"Depth at the start, {name}" for name in SCHEMES.values()]
    for ax, scheme in zip(drawn.axes, SCHEMES, strict=True):
        theory = next(line for line in ax.lines if line.get_label() == "expectation, exact").get_ydata()
        # 2 × outputs under He; LeCun's halves with every layer, from the outputs at depth 0
        if scheme == "he":
            assert list(theory) == pytest.approx([20.0] * len(DEPTHS))
        if scheme == "lecun":
            assert [math.log2(OUTPUTS / t) for t in theory] == pytest.approx(list(DEPTHS))
    assert [p.title for p in overview_panels(result)] == [ax.get_title() for ax in drawn.axes]
