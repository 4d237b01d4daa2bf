"""Table 1: its claims say what the numbers say."""

import pytest

from netgrain.experiments.grain import pruning, tab1


def _result(gains: list[float], diverged: int = 0, train: float = 80.0) -> pruning.Result:
    one = {"networks": {"LeNet": {"width": 1.0, "levels": [50]}}, "variants": ["text"]}
    config = pruning.Config(**{**vars(tab1.PRESETS["smoke"]), **one})
    pair = {"random": [60.0 for _ in gains], "score": [60 + g for g in gains]}
    (cell,) = pruning.cells(config)
    fit = {m: [train for _ in gains] for m in pair}
    return pruning.Result(config, "digits", {cell: pair}, {cell: fit}, {cell: diverged})


@pytest.mark.parametrize(
    ("gains", "verdict"),
    [
        ([1.0, 1.2, 1.1], "holds"),
        ([-1.0, -1.2, -1.1], "fails"),
        ([1.0, -1.2, 0.1], "undecided"),
        ([0.0, 0.0, 0.0], "undecided"),
        ([], "undecided"),
    ],
)
def test_claims(gains: list[float], verdict: str) -> None:
    (found,) = tab1.claims(_result(gains, diverged=2))
    assert found.verdict == verdict
    assert found.name == "LeNet, 50 % dropped, text"
    assert found.paper == "+1.9: random 56.6±0.3, by score 58.5±0.4"
    assert "2 diverged pairs left out" in found.note


def test_networks_that_fit_less_than_the_paper_tests_cannot_fail() -> None:
    for gain, verdict in ((1.0, "holds"), (-1.0, "not fitted")):
        (found,) = tab1.claims(_result([gain, 1.1 * gain, 0.9 * gain], train=56.5))  # the paper's test accuracy is 56.6
        assert found.verdict == verdict
