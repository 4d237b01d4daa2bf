"""A trained network beside fresh ones: distances and shares by hand, budgets that never grow with the cost."""

import pytest
import torch
from torch import nn

from netgrain.auditing.checkpoints import Effort, parts_of, random_samples, steepest, weight_distance
from netgrain.auditing.slopes import slopes_of
from netgrain.families.members import member


def test_more_expensive_networks_are_looked_at_less() -> None:
    efforts = [Effort.for_network(10.0**power, 10) for power in range(4, 13)]
    for name in ("answers", "samples", "fresh_samples", "members", "maps"):
        counts = [getattr(e, name) for e in efforts]
        assert counts == sorted(counts, reverse=True)
    assert Effort.for_network(1e6, 1000).vectors == 2
    assert Effort.for_network(1e12, 1).vectors is None  # one row for the one output
    assert efforts[-1] == Effort(answers=32, samples=8, fresh_samples=8, members=2, vectors=2, maps=4)


def test_steepest_samples_and_the_share_of_a_tenth() -> None:
    values = torch.cat([torch.ones(19), torch.tensor([81.0, 19.0])])
    found = steepest(values.double(), 3)
    assert found.order.tolist() == [19, 20, 0]
    assert found.values.tolist() == [81, 19, 1]
    assert found.top_share == pytest.approx(100 / 119)


def test_the_distance_of_weights_by_hand() -> None:
    def make() -> nn.Module:
        return nn.Sequential(nn.Linear(200, 50), nn.BatchNorm1d(50))

    fresh = [member(make, 0, i) for i in range(4)]
    other = member(make, 0, 9)
    same = weight_distance(other, fresh)
    assert same == pytest.approx(1, abs=0.02)
    assert 0 < same.stderr < 0.02
    other[1].weight.data += 7.0  # type: ignore[operator, index, union-attr]  # a constant, which does not count
    assert weight_distance(other, fresh) == same
    other[0].weight.data *= 3.0  # type: ignore[operator, index, union-attr]
    assert weight_distance(other, fresh) == pytest.approx(5**0.5, rel=0.02)  # √((9 + 1) / (1 + 1))


def test_parts_by_hand() -> None:
    """Slopes 9 and 1 along two features, fresh ones 1 and 1; data that vary along the second alone."""

    def linear(*slopes: float) -> nn.Module:
        net = nn.Linear(2, 2, bias=False)
        net.weight.data = torch.diag(torch.tensor(slopes))
        return net

    X = torch.randn(20, 2, generator=torch.Generator().manual_seed(0)) * torch.tensor([0.0, 1.0])
    trained, fresh = slopes_of(linear(3.0, 1.0), X), [slopes_of(linear(1.0, 1.0), X)]
    first, second = parts_of(trained, fresh, X, ["a", "b"])
    assert (first.name, second.name) == ("a", "b")
    assert [float(v) for v in (first.trained, first.fresh, first.data)] == pytest.approx([0.9, 0.5, 0.0])
    assert [float(v) for v in (second.trained, second.fresh, second.data)] == pytest.approx([0.1, 0.5, 1.0])


def test_random_samples_are_those_of_the_seed() -> None:
    X = torch.zeros(50, 1)
    few, more = random_samples(X, 5, 0), random_samples(X, 20, 0)
    assert set(few.tolist()) <= set(more.tolist())
    assert not torch.equal(more, random_samples(X, 20, 1))
    assert torch.equal(random_samples(X, 99, 0), torch.arange(50))
