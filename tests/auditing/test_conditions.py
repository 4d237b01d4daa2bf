"""Conditions on a report: numbers by their path, names for the usual ones, one sentence for what is wrong."""

from typing import Any

import pytest

from netgrain import NetgrainError
from netgrain.auditing.conditions import condition

REPORT: dict[str, Any] = {
    "expected": {"score": {"value": 0.7, "stderr": 0.02}, "points": [{"samples": 10}, {"samples": 20}], "trial": None},
    "model": "net",
    "network": {"parameters": 100},
}


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("accuracy < 0.8", True),
        ("score>=0.7", True),
        ("accuracy > 0.7", False),
        ("expected.score.stderr <= 0.01", False),
        ("expected.points.1.samples == 20", True),
        ("network.parameters != 1e2", False),
    ],
)
def test_by_hand(text: str, holds: bool) -> None:
    assert condition(text).holds(REPORT) is holds


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("accuracy", "expects a path, a comparison and a number"),
        ("accuracy < high", "expects a path, a comparison and a number"),
        ("accuracy = 0.8", "expects a path, a comparison and a number"),
        ("accuracy < nan", "expects a path, a comparison and a number"),
        ("acuracy < 0.8", "did you mean 'accuracy'"),
        ("expected.scores < 1", "'expected' has no 'scores'; did you mean 'score'"),
        ("expected.trial.score < 1", "'expected.trial' is null: it was not measured"),
        ("expected.trial < 1", "is null: it was not measured"),
        ("model == 1", "'model' is a str"),
    ],
)
def test_what_is_wrong_is_one_sentence(text: str, said: str) -> None:
    with pytest.raises(NetgrainError, match=said):
        condition(text).holds(REPORT)
