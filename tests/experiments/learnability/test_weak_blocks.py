"""Projections on directions by their gain: they lie in their block, keep their size, and are measured right."""

from functools import partial

import pytest
import torch
from torch import nn

from netgrain.experiments.learnability.reaching import AdamW, Recipe
from netgrain.experiments.learnability.tasks import TaskData
from netgrain.experiments.learnability.trainings import training_outcome
from netgrain.experiments.learnability.weak_blocks import Block, Grain, gain_of, projected
from netgrain.geometry.value import Geometry


class Scaled(nn.Module):
    """x ↦ w · (s x) for fixed s: G is diag(s²) times the mean square of a weight."""

    s: torch.Tensor

    def __init__(self, s: torch.Tensor, hidden: bool = False) -> None:
        super().__init__()
        self.register_buffer("s", s)
        inner = [nn.Linear(len(s), 16), nn.ReLU(), nn.Linear(16, 2)] if hidden else [nn.Linear(len(s), 2)]
        self.layers = nn.Sequential(*inner)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.layers(self.s * x.flatten(1))
        return y


S = torch.tensor([10.0, 10.0, 1.0, 1.0, 0.1, 0.1, 0.0, 0.0])


@pytest.fixture(scope="module")
def grain() -> Grain:
    X = torch.randn(20, 8, generator=torch.Generator().manual_seed(0))
    return Grain.of(partial(Scaled, S), X, members=120, seed=0)


def made_up(strong: bool, samples: int = 200) -> TaskData:
    """A label along the first direction, or along the last, which is lost."""
    g = torch.Generator().manual_seed(1)
    X = torch.randn(3 * samples, 8, generator=g)
    y = (X[:, 0 if strong else 7] > 0).long()
    parts = zip(X.split(samples), y.split(samples), strict=True)
    return TaskData(*parts, torch.zeros(8))


def test_gains_and_what_is_lost(grain: Grain) -> None:
    """Squares of 10, 1, 0.1 and 0 twice each, of mean 202.02 / 8; 120 networks give each to a tenth or so."""
    expected = S.double().square() * 8 / S.double().square().sum()
    assert grain.gains.sort().values[2:].tolist() == pytest.approx(expected.sort().values[4:].tolist(), rel=0.3)
    assert torch.allclose(grain.lost @ grain.lost.T, torch.eye(2).double(), atol=1e-9)
    assert float(grain.lost[:, :6].abs().max()) < 1e-9
    assert len(grain.vectors) == 6
    assert grain.at_origin is not None


def test_blocks_hold_the_directions_of_their_range(grain: Grain) -> None:
    blocks = grain.blocks((10.0, 1.0, 1e-2, 1e-5))
    assert [(b.high, len(b.vectors), b.lost) for b in blocks] == [
        (10.0, 2, False), (1.0, 2, False), (1e-2, 2, False), (0.0, 2, True),
    ]  # fmt: skip
    for block, axes in zip(blocks, ((0, 1), (2, 3), (4, 5), (6, 7)), strict=True):
        outside = [i for i in range(8) if i not in axes]
        assert float(block.vectors[:, outside].abs().max()) < 0.05


def test_projections_lie_in_their_block_and_keep_their_size(grain: Grain) -> None:
    data = made_up(strong=True)
    mean = data.train[0].mean(0)
    weak = grain.blocks((1.0, 1e-2))[0]
    outside = torch.eye(8).double() - weak.vectors.T @ weak.vectors
    for scaled in (True, False):
        some = projected(data, weak, scaled=scaled)
        for X, y in (some.train, some.validation, some.test):
            assert float((X.double() @ outside).norm()) < 1e-5 * float(X.norm())
            assert X.dtype == torch.float32
            assert len(X) == len(y) == 200
        size = float((data.train[0] - mean).square().sum()) if scaled else None
        own = float(((data.train[0] - mean).double() @ weak.vectors.T).square().sum())
        assert float(some.train[0].square().sum()) == pytest.approx(size or own, rel=1e-4)
    assert torch.equal(projected(data, weak, scaled=False).test[1], data.test[1])


def test_gain_of_data_weighs_directions_by_their_energy() -> None:
    """Gains 1.5 and 0.5, energies 1 and 3: 0.75."""
    G = Geometry.from_matrix(torch.diag(torch.tensor([3.0, 1.0])))
    assert gain_of(G, torch.tensor([[1.0, 0.0], [0.0, -(3.0**0.5)]])) == pytest.approx(0.75)


def reached(data: TaskData, block: Block) -> float:
    """Test accuracy of a small network with AdamW on one block."""
    some = projected(data, block, scaled=True)
    make = partial(Scaled, S, hidden=True)
    found = training_outcome(make, some, [1e-2], Recipe(15, 10, 1), seed=3, optimizer=AdamW)
    return float(found.numbers["test"])


def test_what_is_lost_cannot_be_learnt_and_a_strong_label_is(grain: Grain) -> None:
    blocks = grain.blocks((10.0, 1.0))
    strong, lost = blocks[0], blocks[-1]
    assert reached(made_up(strong=True), strong) > 0.9
    assert lost.lost
    assert abs(reached(made_up(strong=False), lost) - 0.5) < 0.1
