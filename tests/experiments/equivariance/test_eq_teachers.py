"""Teachers: one problem by hand, claims that can fail."""

import torch

from netgrain.experiments.claims import Claim
from netgrain.experiments.equivariance import eq_teachers
from netgrain.experiments.equivariance.studies import Seeds, group_named
from netgrain.runtime.units import Outcome
from tests.experiments.equivariance.made_up import verdict


def test_teachers_of_a_seed_share_their_points() -> None:
    group = group_named("D8")
    unit = {"seed": 3, "points": 5, "rank": 2, "entries": 1}
    found = [eq_teachers.problem(group, {**unit, "teacher": t}) for t in eq_teachers.TEACHERS]
    for X, y, teacher in found:
        assert torch.equal(X, found[0][0])
        assert torch.equal(y, torch.sign(X @ teacher))
    assert not torch.equal(found[0][1], found[1][1]) or not torch.equal(found[0][1], found[2][1])


def test_the_students_are_nearer_to_the_teacher_they_are_made_for() -> None:
    unit = {"group": "C8", "seed": 0, "points": 8, "rank": 2, "entries": 1, "log_norm": 50.0}
    sparse = eq_teachers._one({**unit, "teacher": "sparse"}).numbers
    low = eq_teachers._one({**unit, "teacher": "low rank"}).numbers
    assert sparse["diagonal 2"] < sparse["group-cnn 2"]
    assert low["group-cnn 2"] < low["diagonal 2"]
    assert max(sparse["kkt"], low["kkt"]) < 1e-3


def judged(low: float, sparse: float, white: float) -> list[Claim]:
    """Errors of the G-CNN with each teacher; FC has 0.3, the diagonal network mirrors the G-CNN."""
    errors = {}
    for teacher, value in (("low rank", low), ("sparse", sparse), ("dense", white)):
        rows = [
            {"FC": 0.3 + 0.001 * i, "kkt": 0.0}
            | {f"group-cnn {L}": value + 0.002 * i for L in eq_teachers.DEPTHS}
            | {f"diagonal {L}": 0.6 - value - 0.002 * i for L in eq_teachers.DEPTHS}
            for i in range(4)
        ]
        errors["D6", teacher] = Seeds(Outcome(row) for row in rows)
    return eq_teachers.claims(eq_teachers.Result(eq_teachers.PRESETS["smoke"], errors))


def test_claims_can_fail() -> None:
    good, bad = judged(0.1, 0.4, 0.35), judged(0.4, 0.2, 0.2)
    for part in ("helps", "ahead of the diagonal", "hurts", "ahead of FC", "control", "depends on the teacher"):
        assert verdict(good, part) == "holds"
        assert verdict(bad, part) == "fails"
