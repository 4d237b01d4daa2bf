"""Claims on made-up pairs: they hold where they should and fail where they should."""

from netgrain.experiments.claims import FAILS, HOLDS, UNDECIDED, Claim
from netgrain.experiments.learnability.pairs import Pairs
from netgrain.experiments.learnability.verdicts import all_three, numbers, verdicts
from tests.experiments.learnability.made_up_pairs import made_up_pairs


def by_name(pairs: Pairs) -> dict[str, Claim]:
    found = verdicts(pairs, "12 tasks")
    names = {c.name: c for c in found}
    assert len(names) == len(found)
    return names


def test_a_perfect_prediction_holds() -> None:
    found = by_name(made_up_pairs())
    for name in (
        "A: rank correlation across tasks",
        "layers or tangent, by squared error: rank correlation across tasks, mean over networks",
        "layers or tangent, by squared error: median error in points",
        "layers or tangent, by squared error: 90 % of errors in points",
        "layers or tangent, by squared error: rank correlation across networks within a task, mean over tasks",
        "layers or tangent, by squared error: points lost by the pick",
        "against 5 nearest neighbours: ranks tasks better",
        "predictors of others with all three: tasks, networks and level",
    ):
        assert found[name].verdict == HOLDS, name
    assert "12 tasks" in found["A: rank correlation across tasks"].note
    assert all("no verdict" not in c.note for c in found.values())


def test_every_third_task_underrated_fails_and_is_warned_of() -> None:
    """30 points on a third of the pairs: four tasks with four pairs each, all of them warned, no other one."""
    found = by_name(made_up_pairs(off=0.3))
    tail = found["layers or tangent, by squared error: 90 % of errors in points"]
    assert tail.verdict == FAILS
    assert tail.value > 8
    caught = found["pairs underrated by more than 10 points that carry the warning"]
    assert (caught.value, caught.n) == (1.0, 4)
    assert "16 of 48 pairs are underrated" in caught.note
    assert found["other pairs that carry the warning"].value == 0.0


def test_false_alarms_count() -> None:
    """Nothing is underrated, and a third of the pairs is warned of."""
    found = by_name(made_up_pairs())
    assert found["other pairs that carry the warning"].value == 1 / 3
    assert found["pairs underrated by more than 10 points that carry the warning"].verdict == UNDECIDED


def test_compare_is_right_where_it_says_that_it_cannot_tell() -> None:
    """Networks lie three points apart: those next to the best are within the errors of the samples."""
    pairs = made_up_pairs()
    says, ties = (
        "one that compare calls best, or like the best, is not significantly worse than the best network",
        ("compare cannot tell the best from others"),
    )
    found = by_name(pairs)
    assert found[f"kernel and trial: {says}"].value == 1.0
    assert found[f"kernel and trial: {ties}"].value > 0.9
    pairs.predicted["combined"][:] = 1 - pairs.reached
    pairs.predicted["combined"][:, 0] += 0.1
    found = by_name(pairs)
    assert found[f"kernel and trial: {says}"].value < 0.1
    assert found[f"kernel and trial: {ties}"].value == 0.0


def test_tuning_tasks_give_no_verdict() -> None:
    assert all("no verdict" in c.note for c in verdicts(made_up_pairs(tuning=True)))


def test_three_numbers() -> None:
    judged = made_up_pairs().judged
    assert all_three(judged["kernel"])
    assert not all_three(judged["neighbours"])
    assert not all_three(judged["synflow"])
    assert numbers(judged["kernel"]) == "1.00, 1.00, 0.0"
    assert numbers(judged["neighbours"]).startswith("-1.00, –, ")


def test_another_with_all_three_is_named() -> None:
    pairs = made_up_pairs()
    pairs.predicted["last"][:] = pairs.reached
    found = by_name(pairs)["predictors of others with all three: tasks, networks and level"]
    assert (found.value, found.verdict) == (1.0, FAILS)
    assert "last layer" in found.note
