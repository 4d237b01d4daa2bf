"""Members in pairs on their way: opposite heads, and correlations against a slow loop."""

import math

import pytest
import torch
from torch import nn

from netgrain.experiments.theory import courses
from netgrain.experiments.theory.statements import Job
from netgrain.families.members import member
from netgrain.geometry.value import Geometry


def test_members_in_pairs_do_not_see_the_labels_at_first_order() -> None:
    def made() -> nn.Module:
        return nn.Sequential(nn.Flatten(), nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 1))

    one, other = (member(make, 0, 0) for make in (made, courses.opposite(made)))
    x = torch.randn(5, 4, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(one(x), -other(x))


def test_corr_over_different_members_against_a_loop() -> None:
    rows = torch.randn(4, 3, 5, generator=torch.Generator().manual_seed(0))
    G = [r.double().T @ r.double() / 3 for r in rows]
    P = Geometry.from_matrix(torch.diag(torch.arange(1.0, 6.0)).double(), (5,))
    pairs = [(i, j) for i in range(4) for j in range(4) if i != j]
    norm = sum(float((G[i] * G[j]).sum()) for i, j in pairs) / len(pairs)
    along = sum(float((g * P.matrix()).sum()) for g in G) / 4
    found = courses.corr_with(rows, P)
    assert float(found.whole) == pytest.approx(along / math.sqrt(norm) / float(P.matrix().norm()))


def test_a_course_learns_and_each_training_set_is_another() -> None:
    job = Job()
    first, second = (courses.course(job, "MLP", repeat) for repeat in (0, 1))
    assert first.rows.shape == (4, 3, 2 * courses.PROBES, 768)
    assert first.losses[1] < first.losses[0]
    assert not torch.equal(first.data.X, second.data.X)
    assert set(courses.rises(first)) == {1, 3}
    assert "training samples right at the end" in courses.mean_loss_note([first, second])
