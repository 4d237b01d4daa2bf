"""Turning a label into the grain: orthogonal, undone, found from samples, and it helps."""

import pytest
import torch

import netgrain as ng
from netgrain import NetgrainError
from netgrain.auditing.alignment import align, label_directions
from netgrain.data import isotropic
from netgrain.training import Settings, accuracy, train_member
from tests.auditing.conftest import LENET_SHAPE, lenet


@pytest.mark.parametrize(("labels", "epsilon", "steps"), [("linear", 2.0, 150), ("quadratic", 4.0, 200)])
def test_alignment_turns_chance_into_more_than_ninety_per_cent(
    lenet_G: ng.Geometry, labels: str, epsilon: float, steps: int
) -> None:
    u = lenet_G.directions()[-1]
    train, test = (isotropic(u, n, labels=labels, epsilon=epsilon, seed=s) for n, s in ((1000, 0), (500, 1)))  # type: ignore[arg-type]
    turn = align(lenet_G, train.X, train.y)
    settings = Settings(lr=0.1, steps=steps, batch=50, decay="linear")
    found = []
    for change in (lambda x: x, turn):
        trained = train_member(lenet, change(train.X), train.y, settings, seed=0, i=0)
        found.append(accuracy(trained.model(lenet), change(test.X), test.y))
    assert found[0] < 0.6
    assert found[1] > 0.9


def test_the_transform_is_orthogonal_and_can_be_undone(lenet_G: ng.Geometry) -> None:
    data = isotropic(lenet_G.directions()[100], 1000, epsilon=1.0)
    turn = align(lenet_G, data.X, data.y)
    Q = turn.matrix().double()
    assert torch.allclose(Q @ Q.T, torch.eye(256, dtype=torch.float64), atol=1e-5)
    assert torch.allclose(turn.inverse(turn(data.X)), data.X, atol=1e-5)
    u = label_directions(data.X, data.y)[0]
    assert abs(float(Q @ u @ lenet_G.directions()[0].flatten())) == pytest.approx(1, abs=1e-5)
    assert not list(turn.parameters())
    again = type(turn)(torch.zeros_like(turn.reflections), LENET_SHAPE)
    again.load_state_dict(turn.state_dict())
    assert torch.equal(again(data.X), turn(data.X))
    with pytest.raises(NetgrainError, match="expected inputs of shape"):
        turn(data.X[:, :, :8])


def test_nothing_to_turn(G: ng.Geometry) -> None:
    generator = torch.Generator().manual_seed(0)
    X, y = torch.randn(600, 1, 8, 8, generator=generator), torch.randint(2, (600,), generator=generator)
    with pytest.raises(NetgrainError, match="no direction along which the label shows"):
        align(G, X, y)
    with pytest.raises(NetgrainError, match="at least two classes"):
        align(G, X, y * 0)
    with pytest.raises(NetgrainError, match="the data have 16 entries a sample, the geometry 64"):
        align(G, X[:, :, :4, :4], y)
