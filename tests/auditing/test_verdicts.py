"""The verdict by hand: what it says of each kind of report, and that it says nothing twice or against itself."""

from typing import Any

import pytest

from netgrain.auditing.sections.expected import alerts
from netgrain.auditing.verdicts import LABELS, TRAIN, few_lines, verdict
from tests.auditing.audit_example import est, expected

ALERT = {"title": "T", "evidence": "E.", "panel": "expected", "weight": 1.0}


def report(**changes: Any) -> dict[str, Any]:
    e = expected(2000, ["a", "b"]) | changes.pop("expected", {})
    whole = {"model": "net", "data": {"name": "d", "samples": 2000, "note": "n", "target": "classes"}, "alerts": []}
    return {**whole, "expected": e, **changes}


SCALES = {
    "kind": "image",
    "bands": [],
    "weak": {"bands": ["2–4 pixels"], "finer_than": 4.0, "labels": est(0.31, 0.02), "variance": est(0.5, 0.01)},
}


def test_the_sentence_of_the_issue() -> None:
    found = verdict(report(scales=SCALES))
    assert found == {
        "sentence": "Expect about 83 ± 3 % from this network with these 2,000 samples (guessing gives 10 %). More "
        "samples would help up to about 8,000. Before training it hardly reacts to patterns finer than 4 pixels, "
        "where 31 % of what tells your classes apart lies.",
        "level": "good",
        "action": TRAIN,
    }


def test_at_chance_nothing_else_is_said_and_nothing_is_good() -> None:
    alerts = [ALERT | {"level": "error", "action": "Check the labels."}]
    found = verdict(report(expected={"at_chance": True, "score": est(0.11, 0.03)}, alerts=alerts, scales=SCALES))
    assert found["sentence"] == (
        "Nothing to learn here: with these 2,000 samples the accuracy to expect is 11 ± 3 %, and always answering with "
        "the largest class gives 10 %."
    )
    assert (found["level"], found["action"]) == ("error", "Check the labels.")


def test_a_checkpoint_beyond_guessing_is_not_contradicted() -> None:
    whole = report(expected={"at_chance": True, "score": est(0.11, 0.03)}, checkpoint={"accuracy": est(0.95, 0.01)})
    assert verdict(whole)["sentence"].startswith("This checkpoint reaches 95 ± 1 % on these samples, where features")
    assert [a["level"] for a in alerts(whole)] != ["error"]
    whole["checkpoint"] = {"accuracy": est(0.11, 0.01)}
    assert verdict(whole)["sentence"].startswith("Nothing to learn here")


def test_a_share_within_its_error_is_not_said() -> None:
    weak = SCALES["weak"] | {"labels": est(0.31, 0.2), "variance": est(0.02, 0.001)}  # type: ignore[operator]
    assert "reacts" not in verdict(report(scales=SCALES | {"weak": weak}))["sentence"]
    weak |= {"labels": None, "variance": est(0.4, 0.001)}
    assert "40 % of the variance of your data" in verdict(report(scales=SCALES | {"weak": weak}))["sentence"]


def test_features_that_must_be_learnt_give_a_range() -> None:
    """Up to the number that combines the kernel with a short training; its own number alone is too small."""
    tried = {"warning": "w", "trial": {"score": est(0.9, 0.04)}, "combined": est(0.91, 0.03)}
    found = verdict(report(expected=tried | {"score": est(0.63, 0.04)}))
    assert found["sentence"].startswith("Expect between 63 and 94 % accuracy from this network")
    assert "More samples" not in found["sentence"]
    calm = verdict(report(expected=tried | {"warning": None}))
    assert calm["sentence"].startswith("Expect about 83 ± 3 %")


CHECKPOINT = {"accuracy": est(0.99, 0.01), "answered": 2000, "test": None, "tested": 0, "expected": est(0.83, 0.03)}


def with_checkpoint(e: dict[str, Any] | None = None, **changes: Any) -> dict[str, Any]:
    base = {"parts": [], "steepest": [], "moved": {"weights": None}, "complexity": {"trained": est(1.0), "fresh": None}}
    return report(expected=e or {}, checkpoint={**base, **CHECKPOINT, **changes})


def test_a_checkpoint_is_compared_with_what_was_expected() -> None:
    seen = verdict(with_checkpoint())
    assert seen["sentence"].startswith("This checkpoint reaches 99 ± 1 % on these samples; of a new one, 83 ± 3 %")
    assert "is expected on samples that it has not seen" in seen["sentence"]
    assert seen["level"] == "note"  # it may only remember them
    new = verdict(with_checkpoint(test=est(0.84, 0.01), tested=500))
    assert new["sentence"].startswith("This checkpoint reaches 84 ± 1 % on 500 samples that it has not seen; expected")
    assert new["level"] == "good"
    assert verdict(with_checkpoint(test=est(0.7, 0.01), tested=500))["level"] == "note"


def test_random_labels_that_were_learnt_by_heart_are_nothing_to_learn() -> None:
    """What it reaches on new samples decides, where there are some."""
    nothing = {"at_chance": True, "score": est(0.11, 0.03)}
    heart = verdict(with_checkpoint(nothing, test=est(0.11, 0.02), tested=500))
    assert heart["sentence"].startswith("Nothing to learn here")
    own = verdict(with_checkpoint(nothing, test=est(0.6, 0.02), tested=500))
    assert "features of random networks find nothing beyond guessing: it has learnt its own." in own["sentence"]


@pytest.mark.parametrize(("gain", "taken"), [(est(0.03, 0.01), True), (est(0.03, 0.02), False), (None, False)])
def test_the_change_that_pays_most_is_the_action(gain: Any, taken: bool) -> None:
    rows = [{"change": "x", "action": "Use stride 1.", "gain": gain}]
    action = verdict(report(advice={"rows": rows}))["action"]
    assert action == ("Use stride 1: predicted to add 3.0 ± 1.0 points." if taken else TRAIN)


def test_without_labels_the_reaction_is_said() -> None:
    geometry = {"largest": 1.2, "d": 64, "directions_90": 50}
    found = verdict({"model": "mlp", "expected": None, "geometry": geometry})
    assert found["sentence"].endswith("It reacts to all patterns of the input about alike.")
    assert found["action"] == LABELS


def test_an_action_is_said_once() -> None:
    alerts = [ALERT | {"level": "note", "action": "Do it."}, ALERT | {"level": "note", "action": "Or that."}]
    whole = report(alerts=alerts)
    lines = few_lines(whole | {"verdict": verdict(whole)})
    assert [name for name, _ in lines[:4]] == ["verdict", "do this", "note", "note"]
    assert sum("Do it." in text for _, text in lines) == 1


@pytest.mark.parametrize("whole", [{}, {"expected": None, "scales": None, "advice": None, "alerts": None}])
def test_parts_may_be_missing(whole: dict[str, Any]) -> None:
    assert verdict(whole)["sentence"].startswith("Without labels")
    assert few_lines(whole)[0][0] == "verdict"
