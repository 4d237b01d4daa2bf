"""Sentences and alerts about a checkpoint: what each threshold turns on and off."""

import copy
from typing import Any

from netgrain.auditing.sections.checkpoint_words import alerts, sentences


def est(value: float, stderr: float = 0.01) -> dict[str, Any]:
    return {"value": value, "stderr": stderr, "n": 100}


def part(name: str, trained: float, fresh: float, data: float) -> dict[str, Any]:
    return {"name": name, "trained": est(trained), "fresh": est(fresh), "data": est(data)}


GOOD: dict[str, Any] = {
    "given": "weights",
    "measure": "accuracy",
    "accuracy": est(0.9),
    "chance": 0.1,
    "answered": 500,
    "expected": {**est(0.88, 0.03), "of": "fresh networks of this kind, once trained", "samples": 500},
    "mistakes": [{"true": "cat", "said": "dog", "count": 7, "share": est(0.2, 0.05)}],
    "overconfidence": est(0.02, 0.02),
    "calibration_error": 0.03,
    "samples": 200,
    "members": 4,
    "complexity": {"trained": est(12.0), "fresh": est(3.0)},
    "leading": [],
    "parts": [part("4 px and coarser", 0.6, 0.2, 0.3), part("2–4 px", 0.4, 0.8, 0.3)],
    "moved": {"corr": est(0.4), "fresh_corr": est(0.8), "weights": est(1.4)},
    "steepest": [{"index": 7, "place": 7, "value": 90.0}, {"index": 3, "place": 3, "value": 40.0}],
    "top_share": {"trained": est(0.2), "fresh": est(0.15)},
    "pictures": [],
}


def changed(**what: Any) -> dict[str, Any]:
    return {"checkpoint": {**copy.deepcopy(GOOD), **what}}


def titles(**what: Any) -> list[str]:
    return [a["title"] for a in alerts(changed(**what))]


def test_the_story_of_a_good_checkpoint() -> None:
    first, second, third = (s["text"] for s in sentences(changed()))
    assert first.startswith(
        "The checkpoint reaches 90.0 ± 1.0 % accuracy on these samples; if it was trained on them, "
    )
    assert "Expected was 88.0 ± 3.0 % accuracy, of fresh networks of this kind, once trained." in first
    assert "Most often it takes 'cat' for 'dog' (20.0 ± 5.0 % of 'cat')." in first
    assert "sure" not in first
    assert second == (
        "Training raised its reaction to patterns of 4 px and coarser from 20.0 ± 1.0 % to 60.0 ± 1.0 % and lowered "
        "that to patterns of 2–4 px from 80.0 ± 1.0 % to 40.0 ± 1.0 %."
    )
    assert third.startswith("Its weights are 1.400 ± 0.010 times as far from fresh ones as those are from each other; ")
    assert third.endswith("its mean squared slope is 4 times theirs.")
    assert titles() == []


def test_nothing_is_said_without_a_checkpoint_or_labels() -> None:
    assert sentences({"checkpoint": None}) == alerts({}) == []
    silent = changed(accuracy=None, expected=None, measure=None, mistakes=[], overconfidence=None)
    assert len(sentences(silent)) == 2
    assert alerts(silent) == []


def test_parts_that_it_hardly_reacts_to() -> None:
    ignoring = [part("age", 0.02, 0.3, 0.4), part("height", 0.98, 0.7, 0.6)]
    assert any("It hardly reacts to age" in s["text"] for s in sentences(changed(parts=ignoring)))
    seeing = [part("age", 0.09, 0.3, 0.4), part("height", 0.91, 0.7, 0.6)]
    assert not any("hardly" in s["text"] for s in sentences(changed(parts=seeing)))


def test_close_to_guessing_and_below_what_was_expected() -> None:
    assert titles(accuracy=est(0.17)) == ["The checkpoint is close to guessing"]
    (alert,) = alerts(changed(accuracy=est(0.12), moved={**GOOD["moved"], "weights": est(1.0)}))
    assert alert["level"] == "error"
    assert "may be untrained" in alert["evidence"]
    assert "--standardise" in alert["action"]
    assert titles(accuracy=est(0.7)) == ["The checkpoint is below what was expected"]
    assert titles(accuracy=est(0.83)) == []  # within the error of what was expected
    nothing = changed(accuracy=est(0.12)) | {"expected": {"at_chance": True}}
    assert alerts(nothing) == []  # the labels cannot be learnt, which another alert says


def test_what_it_may_remember_is_not_what_it_can_do() -> None:
    """Above what was expected on new samples: those that it was given may have been in its training."""
    (alert,) = alerts(changed(accuracy=est(0.99)))
    assert (alert["level"], alert["title"]) == ("note", "It may remember these samples")
    assert "test=(X, y)" in alert["action"]
    assert titles(accuracy=est(0.93)) == []  # within the error of what was expected
    assert titles(accuracy=est(0.99), test=est(0.9), tested=100) == []


def test_new_samples_decide_where_there_are_some() -> None:
    heart = changed(accuracy=est(0.99), test=est(0.5), tested=100)
    (alert,) = alerts(heart)
    assert alert["title"] == "The checkpoint is below what was expected"
    assert alert["evidence"].startswith("It reaches 50.0 ± 1.0 % accuracy on samples that it has not seen; ")
    assert "on samples that it has not seen, and 99.0 ± 1.0 % on the others" in sentences(heart)[0]["text"]
    assert titles(accuracy=est(0.99), test=est(0.12), tested=100) == ["The checkpoint is close to guessing"]


def test_steep_on_a_few_samples() -> None:
    (alert,) = alerts(changed(top_share={"trained": est(0.8), "fresh": est(0.2)}))
    assert "Look at samples #7, #3" in alert["action"]
    assert titles(top_share={"trained": est(0.8), "fresh": est(0.7)}) == []  # fresh networks are so, too


def test_too_sure_of_itself() -> None:
    assert titles(overconfidence=est(0.2)) == ["It is more sure of its answers than it is right"]
    assert titles(overconfidence=est(0.2, 0.1)) == []


def test_numbers_have_an_r_squared() -> None:
    report = changed(measure="R²", accuracy=est(0.5), chance=0.0, mistakes=[], overconfidence=None)
    assert "reaches R² 0.500 ± 0.010 on these samples" in sentences(report)[0]["text"]
