"""Weights from any usual file, and the network they belong to."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from netgrain.families.members import trained_model
from netgrain.models import read_weights
from netgrain.runtime.errors import NetgrainError


def make() -> nn.Module:
    return nn.Sequential(nn.Linear(3, 2), nn.Tanh())


def state() -> dict[str, Tensor]:
    torch.manual_seed(1)
    return make().state_dict()


@pytest.mark.parametrize("holder", [None, "state_dict", "model_state_dict", "model"])
@pytest.mark.parametrize("prefix", ["", "module.", "model.", "module.model.", "model.module."])
def test_checkpoints_of_training_loops(tmp_path: Path, holder: str | None, prefix: str) -> None:
    named = {prefix + name: tensor for name, tensor in state().items()}
    torch.save(named if holder is None else {"epoch": 3, holder: named, "optimizer": {}}, tmp_path / "w.pt")
    model = trained_model(make, read_weights(tmp_path / "w.pt"))
    assert torch.equal(model[0].weight, state()["0.weight"])
    assert not model.training
    assert not any(p.requires_grad for p in model.parameters())


def test_safetensors(tmp_path: Path) -> None:
    save_file(state(), tmp_path / "w.safetensors")
    found = read_weights(tmp_path / "w.safetensors")
    assert all(torch.equal(found[name], tensor) for name, tensor in state().items())


def test_a_prefix_that_the_model_has_itself_stays() -> None:
    class Wrapping(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = nn.Linear(2, 1)

    weights = {"model.weight": torch.ones(1, 2), "model.bias": torch.zeros(1)}
    assert torch.equal(trained_model(Wrapping, weights).model.weight, torch.ones(1, 2))
    wrapped = {f"module.{name}": tensor for name, tensor in weights.items()}
    assert torch.equal(trained_model(Wrapping, wrapped).model.weight, torch.ones(1, 2))


def test_a_prefix_of_some_names_is_no_prefix() -> None:
    weights = {f"module.{name}": tensor for name, tensor in state().items()} | {"loss.weight": torch.ones(1)}
    with pytest.raises(NetgrainError, match=r"they lack '0\.weight' and have 'module\.0\.weight' too many"):
        trained_model(make, weights)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ([torch.ones(1)], "holds list, not named tensors"),
        ({"state_dict": {"a": 1}}, "holds dict, not named tensors"),
        ({3: torch.ones(1)}, "holds dict, not named tensors"),
        (make(), "cannot be read as weights"),  # a whole module is code, which is not run
    ],
)
def test_what_is_no_state_dict(tmp_path: Path, content: object, said: str) -> None:
    torch.save(content, tmp_path / "w.pt")
    with pytest.raises(NetgrainError, match=f"{said}.*expected weights as .safetensors"):
        read_weights(tmp_path / "w.pt")


def test_a_missing_file() -> None:
    with pytest.raises(NetgrainError, match=r"no\.pt is not a file; expected weights"):
        read_weights("no.pt")
