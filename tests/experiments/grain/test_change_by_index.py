"""The change of the geometry by index: against loops, and where it is known."""

import math

import pytest
import torch

from netgrain import Geometry
from netgrain.experiments.grain import change_by_index as c
from tests.experiments.grain.made_up_courses import directions, rows


def _planted(changes: torch.Tensor, starts: torch.Tensor, members: int = 6) -> torch.Tensor:
    """Rows of members that are alike: uᵀGu is `starts` before training and `starts + changes` after it."""
    d = len(changes)
    before, after = (torch.diag((d * v).sqrt()) for v in (starts, starts + changes))  # d probes, mean over them
    return torch.stack([before, after]).expand(members, -1, -1, -1)


@pytest.mark.quick
def test_a_planted_change_is_found() -> None:
    starts, changes = torch.arange(16, 0, -1.0), torch.arange(16, 0, -1.0).square() / 100
    found = c.change_along(_planted(changes, starts), [1], directions())
    bands = directions().bands
    for k, (a, b) in enumerate(bands):
        expected = math.sqrt(float(changes[a:b].square().mean()))
        assert found.absolute[k].value == pytest.approx(expected, rel=1e-4)
        assert found.absolute[k].plug_in == pytest.approx(expected, rel=1e-4)
        start = math.sqrt(float(starts[a:b].square().mean()))
        assert found.relative[k].value == pytest.approx(expected / start, rel=1e-4)
    assert (found.order.value, found.order.stderr) == (-1.0, 0.0)
    assert found.relative_order.value == -1.0
    assert found.fall.value == pytest.approx(math.log10(found.absolute[0] / found.absolute[-1]), rel=1e-4)
    assert abs(found.random.value) < 4 * found.random.stderr  # bands of random directions are alike
    assert found.random.stderr > 0.05
    rising = c.change_along(_planted(changes.flip(0), starts), [1], directions())
    assert rising.order.value == 1.0


def test_a_geometry_that_grows_as_a_whole_changes_by_the_same_share() -> None:
    starts = torch.arange(16, 0, -1.0)
    found = c.change_along(_planted(starts / 2, starts), [1], directions())
    assert found.order.value == -1.0
    assert [v.value for v in found.relative] == pytest.approx([0.5] * 5, rel=1e-4)


def test_squares_of_changes_against_loops() -> None:
    g = rows(members=5, times=3, d=16).double()
    along, members = directions(), range(5)
    found = c.change_along(g.float(), [1, 2], along)
    changes = g.float().double().square().mean(2)
    for k, (a, b) in enumerate(along.bands):

        def square(kept: list[int], a: int = a, b: int = b) -> float:
            pairs = [(i, j, t) for i in kept for j in kept if i != j for t in (1, 2)]
            terms = [
                float(((changes[i, t] - changes[i, 0]) * (changes[j, t] - changes[j, 0]))[a:b].mean())
                for i, j, t in pairs
            ]
            return sum(terms) / len(terms)

        whole = square(list(members))
        assert found.absolute[k].value == pytest.approx(math.sqrt(max(whole, 0.0)), abs=1e-9)
        own = sum(float((changes[i, t] - changes[i, 0])[a:b] @ (changes[j, t] - changes[j, 0])[a:b]) / (b - a) / 50
                  for i in members for j in members for t in (1, 2))  # fmt: skip
        assert found.absolute[k].plug_in == pytest.approx(math.sqrt(own))


def test_members_taken_again_are_not_paired_with_themselves() -> None:
    P = torch.randn(2, 4, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    drawn = [0, 0, 1, 3]
    counts = torch.tensor([[2.0, 1.0, 0.0, 1.0]], dtype=torch.float64)
    pairs = [(i, j) for i in drawn for j in drawn if i != j]
    for k in range(2):
        expected = sum(float(P[k, i, j]) for i, j in pairs) / len(pairs)
        assert float(c._resampled(P, counts)[0, k]) == pytest.approx(expected)


def test_bands() -> None:
    assert c.halves(torch.tensor([4.0, 3.0, 2.0, 1.0])) == [(0, 1), (1, 2), (2, 4)]
    assert c.halves(torch.ones(768))[0] == (0, 12)
    assert c.looks(17) == [5, 11, 16]
    assert c.looks(3) == [1, 2]
    lenet = c.Directions.of(Geometry.from_matrix(torch.diag(torch.arange(64.0))))
    assert (lenet.bands[-1], lenet.ordered, lenet.few) == ((63, 64), True, False)  # the null space by itself
    torch.testing.assert_close(lenet.vectors[0].abs(), torch.eye(64, dtype=torch.float64)[63])
    vit = c.Directions.of(Geometry.from_matrix(torch.diag(torch.tensor([5.0, 2.0, 2.0, 2.0]))))
    assert (vit.bands, vit.ordered, vit.few) == ([(0, 1), (1, 4)], True, True)
    mlp = c.Directions.of(Geometry.from_matrix(torch.eye(64)))
    assert (len(mlp.bands), mlp.ordered) == (7, False)


def test_too_little_for_an_order() -> None:
    two = directions(kind="two")
    found = c.change_along(_planted(torch.ones(16), two.values.float()), [1], two)
    assert math.isnan(found.order.value)
    assert math.isnan(found.random.value)
    assert found.fall.value == pytest.approx(0, abs=1e-5)
    alone = c.change_along(rows(members=2, d=16), [1], directions())
    assert all(math.isnan(v.value) for v in (*alone.absolute, alone.order, alone.fall))
