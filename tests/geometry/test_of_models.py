"""The geometry of given networks: their Jacobians, one by one."""

import pytest
import torch
from torch import nn

import netgrain as ng
from netgrain.models import LeNet
from tests import naive


@pytest.mark.quick
def test_trace_over_data_is_the_mean_squared_jacobian_norm() -> None:
    torch.manual_seed(0)
    models = [LeNet(channels=1, image_size=16, outputs=4).eval() for _ in range(3)]
    X = torch.randn(10, 1, 16, 16)
    G = ng.geometry_of(models, ng.Data(X))
    norms = [float(naive.jacobian(m, x).square().sum()) for m in models for x in X]
    assert G.trace.value == pytest.approx(sum(norms) / len(norms), rel=1e-5)
    torch.testing.assert_close(G.matrix(), naive.geometry(models, X), rtol=1e-4, atol=1e-9)


class Turned(nn.Module):
    """Its input goes through a matrix that is neither parameter nor buffer, and so stays in float32."""

    def __init__(self, activation: nn.Module) -> None:
        super().__init__()
        self.turn = torch.linalg.qr(torch.randn(6, 6)).Q
        self.network = nn.Sequential(nn.Linear(6, 20, bias=False), activation, nn.Linear(20, 3, bias=False))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.network(x @ self.turn)
        return found


@pytest.mark.parametrize(("activation", "probe"), [(nn.Tanh(), "origin"), (nn.ReLU(), "origin limit (gaussian:1)")])
def test_a_network_that_keeps_a_constant_in_float32(activation: nn.Module, probe: str) -> None:
    torch.manual_seed(0)
    model = Turned(activation)
    G = ng.geometry_of(model, ng.Origin(), input_shape=(6,), probes=4096, seed=1)
    assert str(G.about.probe) == probe
    plain = ng.geometry_of(model.network, ng.Origin(), input_shape=(6,), probes=4096, seed=1)
    turned = model.turn.double() @ plain.matrix() @ model.turn.double().T
    assert (G.matrix() - turned).norm() < (1e-5 if probe == "origin" else 0.1) * turned.norm()
