"""Changes of layers: each runs, changes what it says, and leaves the rest alone."""

import torch
from torch import nn

from netgrain.auditing import layer_changes
from netgrain.auditing.known_network import Change, Known
from netgrain.families.members import member


def make() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 4, 5, stride=2),
        nn.Sigmoid(),
        nn.AvgPool2d(2),
        nn.Conv2d(4, 6, 3, padding=1),
        nn.Sigmoid(),
        nn.Flatten(),
        nn.Linear(54, 8),
        nn.Sigmoid(),
        nn.Linear(8, 2),
    )


X = torch.randn(20, 1, 16, 16, generator=torch.Generator().manual_seed(0))
known = Known(make, X)


def found(function: str) -> dict[str, Change]:
    changes = [c for c in getattr(layer_changes, function)(known) if c is not None]
    for c in changes:
        assert member(c.family, 0, 0)(X[:2]).shape == (2, 2)
    return {c.change: c for c in changes}


def layer(change: Change, name: str) -> nn.Module:
    return member(change.family, 0, 0).get_submodule(name)


def test_pools_and_readouts() -> None:
    change = found("pools")["max pooling"]
    assert isinstance(layer(change, "2"), nn.MaxPool2d)
    assert change.action == "replace '2' by MaxPool2d(2)"
    changes = found("readouts")
    assert len(changes) == 2
    change = changes["maximum over all positions before the linear layers"]
    assert change.action == "put AdaptiveMaxPool2d(1) before '5'; to match, '6' = Linear(6, …)"


def test_strides_kernels_and_padding() -> None:
    changes = found("strides")
    assert layer(changes["no stride in the first strided convolution"], "0").stride == (1, 1)
    assert isinstance(layer(changes["without the first pool"], "2"), nn.Identity)
    assert "to match, '6' = Linear(" in changes["without the first pool"].action
    changes = found("kernels")
    assert sorted(changes) == ["kernels of 3 in the first convolution", "kernels of 7 in the first convolution"]
    assert layer(changes["kernels of 7 in the first convolution"], "0").kernel_size == (7, 7)
    assert layer(found("paddings")["zeros around the maps"], "0").padding == (2, 2)


def test_activations_norms_and_gains() -> None:
    changes = found("activations")
    assert set(changes) == {"relu as activation", "gelu as activation", "tanh as activation"}
    assert all(isinstance(layer(changes["relu as activation"], name), nn.ReLU) for name in ("1", "4", "7"))
    normed = layer(found("norms")["batch norm"], "3")
    assert isinstance(normed, nn.Sequential)
    assert isinstance(normed[1], nn.BatchNorm2d)
    changes = found("gains")
    plain = member(make, 0, 0).get_parameter("3.weight")
    double = changes["initial weights twice as large"]
    assert torch.equal(member(double.family, 0, 0).get_parameter("3.weight"), 2 * plain)


def test_a_network_without_layers_of_its_own_has_no_candidates() -> None:
    class Plain(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w = nn.Parameter(torch.randn(256, 2))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return (x.flatten(1) @ self.w).relu()

    bare = Known(Plain, X)
    for name in ("pools", "readouts", "strides", "kernels", "paddings", "activations", "norms", "gains"):
        assert list(getattr(layer_changes, name)(bare)) == []
