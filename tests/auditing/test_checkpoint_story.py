"""The rows under the verdict: what each says, and that what was not measured has none."""

from typing import Any

from netgrain.auditing.checkpoint_story import story
from tests.auditing.sections.test_checkpoint_words import GOOD, est, part

LAYERS = {
    "rows": [{"name": "pool"}],
    "loses": {"name": "pool", "factor": est(0.5)},
    "trained_loses": {"name": "head", "factor": est(0.25)},
}


def rows(layers: Any = LAYERS, **changes: Any) -> dict[str, tuple[str, str]]:
    return {r.label: (r.value, r.beside) for r in story({"checkpoint": {**GOOD, **changes}, "layers": layers})}


def test_the_story_of_a_checkpoint() -> None:
    assert rows() == {
        "Learnt to react to": ("patterns of 4 px and coarser", "60 % of its reaction; 20 % when fresh"),
        "Hardly reacts to": ("nothing large", "each size of pattern has its part of the reaction"),
        "Weights moved": ("1.400 ± 0.010 times", "the distance of two fresh networks"),
        "Steepness": ("4 times", "that of fresh networks (mean squared slope)"),
        "Steepest samples": ("#7, #3", "up to 90 times as steep as the median"),
        "Loses most at": ("head", "0.25 of what tells samples apart, over noise; not so in fresh networks"),
    }


def test_what_it_ignores_and_where_it_loses() -> None:
    ignoring = [part("age", 0.02, 0.3, 0.4), part("height", 0.98, 0.7, 0.6)]
    assert rows(parts=ignoring)["Hardly reacts to"] == ("age", "40 % of your data's variance, 2 % of its reaction")
    assert rows({**LAYERS, "trained_loses": LAYERS["loses"]})["Loses most at"][1].endswith("; as in fresh networks")
    assert rows({**LAYERS, "trained_loses": None})["Loses most at"][0] == "no layer"


def test_what_was_not_measured_has_no_row() -> None:
    nothing = {"value": None, "stderr": None, "n": 0}
    bare = rows(None, parts=[], steepest=[], moved={"weights": None}, complexity={"trained": nothing, "fresh": None})
    assert bare == {}
    assert story({"checkpoint": None}) == story({}) == []
