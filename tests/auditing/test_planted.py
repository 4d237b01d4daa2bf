"""The verdict turns with where the labels lie: strong directions, lost ones, nowhere, a small mark anywhere. Slow."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from netgrain.auditing.audits import audit
from netgrain.auditing.sections.expected import at_chance
from netgrain.experiments.learnability.made_up_tasks import MARKS, marks
from netgrain.experiments.learnability.reaching import Recipe, train_until
from netgrain.learning.predictions import learnability

COUNT, SIDE = 300, 8


def pooled() -> nn.Module:
    """A convolutional network that averages squares of two pixels first: what differs inside of them is lost."""
    readout = [nn.ReLU(), nn.Conv2d(8, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(32, 2)]
    return nn.Sequential(nn.AvgPool2d(2), nn.Conv2d(1, 8, 3, padding=1), *readout)


def noise(seed: int) -> Tensor:
    return torch.randn(COUNT, 1, SIDE, SIDE, generator=torch.Generator().manual_seed(seed))


def along(direction: Tensor) -> tuple[Tensor, Tensor]:
    """Noise, and whether it lies on one side of a direction or the other."""
    X = noise(0)
    return X, ((X * direction).flatten(1).sum(1) > 0).long()


def lost() -> Tensor:
    """A chessboard: every square of two pixels has the mean 0."""
    i = torch.arange(SIDE)
    return (-1.0) ** (i[:, None] + i)


def verdict_on(X: Tensor, y: Tensor, **options: Any) -> dict[str, Any]:
    return audit(pooled, X, y, quick=True, members=16, progress=False, **options).report


def test_the_verdict_turns_with_the_place_of_the_labels() -> None:
    X, _ = along(lost())
    G = audit(pooled, X, members=32, quick=True, progress=False).G
    strong = verdict_on(*along(G.directions(1)[0]))
    assert strong["verdict"]["sentence"].startswith("Expect about")
    assert strong["expected"]["score"]["value"] > 0.8
    nothing = verdict_on(*along(lost()))
    assert nothing["verdict"]["sentence"].startswith("Nothing to learn here")
    assert nothing["verdict"]["level"] == "error"
    assert nothing["verdict"]["action"].startswith("Check that each label belongs to its sample")


@pytest.mark.timeout(600)
def test_shuffled_labels_are_nothing_to_learn_also_with_a_short_training() -> None:
    """Ten seeds, at most one false alarm; and the same training finds labels that are there."""
    X, y = (part[:150] for part in along(torch.ones(SIDE, SIDE)))
    orders = [torch.randperm(150, generator=torch.Generator().manual_seed(s)) for s in range(10)]

    def found(y: Tensor, seed: int) -> bool:
        options: dict[str, Any] = {"kinds": ["layers"], "members": 4, "grain": False, "progress": False}
        return not at_chance(learnability(pooled, X, y, trial=True, seed=seed, **options))

    assert sum(found(y[order], seed) for seed, order in enumerate(orders)) <= 1
    assert found(y, 0)


def finder() -> nn.Module:
    """It looks everywhere for patterns of 3 × 3 pixels, and keeps the largest answer."""
    layers = [nn.Conv2d(1, 16, 3), nn.ReLU(), nn.Conv2d(16, 16, 3), nn.ReLU(), nn.AdaptiveMaxPool2d(1), nn.Flatten()]
    return nn.Sequential(*layers, nn.Linear(16, len(MARKS)))


@pytest.mark.timeout(600)
def test_a_mark_anywhere_is_predicted_with_a_short_training() -> None:
    """Within 8 points of what training reaches; the page says why directions see nothing."""
    X, y = marks(1500, torch.Generator().manual_seed(0))
    report = audit(finder, X[:1000], y[:1000], quick=False, trial=True, advice=False, members=8, progress=False).report
    trained = train_until(finder, X[:1000], y[:1000], 0.003, Recipe(40, 8), seed=0)
    reached = float(trained.right(X[1000:], y[1000:]).double().mean())
    e = report["expected"]
    assert abs(e["combined"]["value"] - reached) <= 0.08
    if e["warning"]:
        assert report["verdict"]["sentence"].startswith("Expect between")
        assert "may show anywhere" in report["alerts"][0]["evidence"]
