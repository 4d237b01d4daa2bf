"""A checkpoint beside fresh networks: doubled weights by hand, and weights that do not fit."""

import pytest
import torch
from torch import Tensor, nn

import netgrain as ng
from netgrain import NetgrainError
from netgrain.auditing.audits import Audit, audit


def linear() -> nn.Module:
    return nn.Linear(4, 2, bias=False)


X = torch.randn(64, 4, generator=torch.Generator().manual_seed(0))
Y = (X[:, 0] > 0).long()


def test_a_linear_network_by_hand() -> None:
    """Its Jacobian is its weight matrix W, so the complexity is ‖W‖², and its geometry WᵀW."""
    W = torch.tensor([[3.0, 0, 0, 0], [0, 0, 0, 0]])
    G = ng.Geometry.from_matrix(torch.eye(4))
    found = audit(linear, X, Y, G=G, weights={"weight": W}, trial=False, progress=False).report["complexity"]
    assert found["trained"]["value"] == pytest.approx(9)
    assert found["moved"]["corr"]["value"] == pytest.approx(0.5)  # ⟨WᵀW, I⟩ / ‖WᵀW‖ ‖I‖
    assert audit(linear, X, Y, G=G, trial=False, progress=False).report["complexity"]["trained"] is None


def test_a_checkpoint_is_told(audited: Audit) -> None:
    complexity = audited.report["complexity"]
    assert complexity["trained"]["value"] > 5 * complexity["initial"]["value"]
    assert complexity["moved"]["corr"]["value"] < 1
    assert len(complexity["moved"]["rows"]) == 3
    assert "How the geometry moved in training" in audited.html()


@pytest.mark.parametrize(
    ("weights", "said"),
    [
        ({}, "they lack 'weight'"),
        ({"weight": torch.zeros(3, 3)}, r"'weight' has shape \(3, 3\)"),
        ({"weight": torch.zeros(2, 4).to_sparse()}, "cannot be copied"),
        ({"weight": torch.zeros(2, 4) + 0j}, "complex numbers"),
        ({"weight": torch.zeros(2, 4), "more": torch.zeros(1)}, "they have 'more' too many"),
    ],
)
def test_weights_that_do_not_fit(weights: dict[str, Tensor], said: str) -> None:
    with pytest.raises(NetgrainError, match=said):
        audit(linear, X, Y, G=ng.Geometry.from_matrix(torch.eye(4)), weights=weights, trial=False, progress=False)
