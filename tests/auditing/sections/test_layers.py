"""Layers: a row of gains for each, in forward order; none where there is nothing to look into."""

import pytest
import torch
from torch import Tensor, nn

import netgrain as ng
from netgrain.auditing.audits import Audit, audit


def test_a_row_for_each_layer(audited: Audit) -> None:
    rows = audited.report["layers"]
    assert [r["name"] for r in rows] == ["0", "1", "2", "3", "4"]
    assert all(set(r) == {"name", "strongest", "middle", "weakest"} for r in rows)
    assert rows[-1]["strongest"] > rows[-1]["weakest"]


def test_modules_without_layers(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(*_: object, **__: object) -> None:
        raise ng.NetgrainError("no layers")

    monkeypatch.setattr("netgrain.auditing.sections.layers.layer_profile", refuses)
    X = torch.randn(64, 3, generator=torch.Generator().manual_seed(0))
    y: Tensor = (X[:, 0] > 0).long()
    found = audit(lambda: nn.Linear(3, 2), X, y, probe="origin", trial=False, progress=False)
    assert found.report["layers"] == []
    assert "Layers: not measured." in found.html()


def test_a_module_called_twice_has_a_row_for_each_call() -> None:
    def make() -> nn.Module:
        activation = nn.Tanh()
        return nn.Sequential(nn.Linear(3, 4), activation, nn.Linear(4, 4), activation, nn.Linear(4, 2))

    X = torch.randn(64, 3, generator=torch.Generator().manual_seed(0))
    rows = audit(make, X, (X[:, 0] > 0).long(), members=8, trial=False, progress=False).report["layers"]
    assert [r["name"] for r in rows] == ["0", "1 (1 of 2)", "2", "1 (2 of 2)", "4"]
    assert rows[1]["strongest"] != rows[3]["strongest"]
