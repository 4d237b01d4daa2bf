"""One family, one geometry and one audit for all tests of the room: small enough to be made in a second."""

from functools import partial

import pytest
import torch
from torch import Tensor, nn

import netgrain as ng
from netgrain.auditing.audits import Audit
from netgrain.models import LeNet

SHAPE = (1, 8, 8)
LENET_SHAPE = (1, 16, 16)
lenet = partial(LeNet, channels=1, image_size=16, outputs=2, activation="gelu")


def small() -> nn.Module:
    """A filter, a smooth activation, a pool and a readout: it has a closed form everywhere."""
    return nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.GELU(), nn.AvgPool2d(2), nn.Flatten(), nn.Linear(128, 2))


@pytest.fixture(scope="session")
def lenet_G() -> ng.Geometry:
    return ng.average_geometry(lenet, LENET_SHAPE)


@pytest.fixture(scope="session")
def G() -> ng.Geometry:
    """Of `small` at the origin."""
    return ng.average_geometry(small, SHAPE)


@pytest.fixture(scope="session")
def samples() -> tuple[Tensor, Tensor]:
    """Images with a common background, so that the data are away from the origin; two classes."""
    X = 1.5 + torch.randn(120, *SHAPE, generator=torch.Generator().manual_seed(5))
    return X, (X[:, 0, 2:4, 2:4].mean((1, 2)) > 1.5).long()


@pytest.fixture(scope="session")
def audited(samples: tuple[Tensor, Tensor]) -> Audit:
    """With everything that can be asked for: a checkpoint (the weights of a fresh network, doubled) and a change."""
    torch.manual_seed(3)
    weights = {name: 2 * tensor for name, tensor in small().state_dict().items()}
    return ng.audit(
        small,
        *samples,
        name="small",
        data="squares",
        classes=["no", "yes"],
        weights=weights,
        swaps={"2": nn.MaxPool2d(2)},
        members=24,
        trial=False,
        progress=False,
    )
