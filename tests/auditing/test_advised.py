"""What is first among changes that were tried, and what is said of them."""

import json
import math

from netgrain.auditing.advised import Advice, Row
from netgrain.auditing.paired_gains import Gain
from netgrain.geometry.estimate import Estimate


def row(change: str, value: float, chosen_by: float, *, trained: bool = False) -> Row:
    gain = Gain(value, 0.01, 0.01, 0.01, chosen_by, 100)
    before = Estimate(0.6, 0.03, 200)
    return Row(change, f"do {change}", "pool", gain, before, Estimate(0.6 + value, 0.04, 200), math.nan, None, trained)


def advice(*rows: Row, steps: int = 0) -> Advice:
    return Advice(rows, "accuracy", len(rows), 3, 2, None, 200, 8, steps, 4 if steps else 0)


def test_the_first_is_the_first_that_gained_where_it_was_chosen() -> None:
    worse, better = row("worse", 0.2, -0.01), row("better", -0.1, 0.05)
    assert advice(better, worse).first is better
    assert advice(worse).first is None


def test_where_some_were_trained_the_others_are_no_advice() -> None:
    tried, untried = row("trained", 0.05, -0.02, trained=True), row("by kernels", 0.2, 0.3)
    assert advice(tried, untried, steps=300).first is None
    assert advice(tried, untried).first is untried


def test_numbers_and_words() -> None:
    found = advice(row("more", 0.05, 0.04, trained=True), steps=300)
    document = json.loads(json.dumps(found.as_dict(), allow_nan=False))
    assert document["rows"][0]["gain"]["value"] == 0.05
    assert (document["rows"][0]["trained"], document["rows"][0]["cost_ratio"]) == (True, None)
    assert (document["steps"], document["rates"], document["left"], document["unfit"]) == (300, 4, 3, 2)
    assert "more: +5.0 ± 1.7 points; do more" in repr(found)
    assert repr(found.rows[0]) == "expected score 0.6 ± 0.03 (n = 200) → 0.65 ± 0.04 (n = 200), +5.0 ± 1.7 points"
