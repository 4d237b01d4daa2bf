"""timm's families as MODEL: sizes filled in where they are taken, and a sentence for what is wrong."""

import builtins
import importlib
import importlib.util
import pickle
from typing import Any

import pytest
import torch
from torch import nn

from netgrain.families.members import member
from netgrain.models import load_model
from netgrain.runtime.errors import NetgrainError

needs_timm = pytest.mark.skipif(
    importlib.util.find_spec("timm") is None, reason="timm is not installed: pip install -e '.[vision]'"
)
TINY = "timm:test_resnet"
TINY_VIT = "timm:test_vit"


@needs_timm
def test_channels_and_outputs_are_filled_in() -> None:
    make = load_model(TINY, channels=1, image_size=24)  # a size that this architecture does not take
    model = member(make, 0, 0)
    assert model(torch.zeros(2, 1, 24, 24)).shape == (2, 10)
    assert load_model(f"{TINY}:outputs=3", channels=1)().eval()(torch.zeros(1, 1, 32, 32)).shape == (1, 3)
    own = load_model(f"{TINY}:in_chans=2,num_classes=4", channels=1)().eval()
    assert own(torch.zeros(1, 2, 32, 32)).shape == (1, 4)


@needs_timm
def test_the_input_size_is_passed_where_it_is_taken() -> None:
    model = load_model(TINY_VIT, channels=1, image_size=32)()
    assert model(torch.zeros(1, 1, 32, 32)).shape == (1, 10)
    assert model.get_submodule("patch_embed").img_size == (32, 32)
    assert load_model(TINY_VIT, channels=1)().get_submodule("patch_embed").img_size != (32, 32)
    own = load_model(f"{TINY_VIT}:img_size=64", channels=1, image_size=32)()
    assert own.get_submodule("patch_embed").img_size == (64, 64)


@needs_timm
def test_members_follow_the_seed_and_a_family_can_be_sent() -> None:
    make = load_model(f"TIMM:{TINY.partition(':')[2]}:outputs=2", channels=1)
    again = pickle.loads(pickle.dumps(make))  # noqa: S301
    first, same, other = (next(member(m, 0, i).parameters()) for m, i in ((make, 0), (again, 0), (make, 1)))
    assert torch.equal(first, same)
    assert not torch.equal(first, other)
    assert isinstance(make(), nn.Module)


@needs_timm
@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("timm:resnet81", r"timm has no model called 'resnet81'. Did you mean 'resnet\d+'\? It has \d+"),
        ("timm:", "'timm:' names no model of timm"),
        ("timm:hf-hub:a/b", "timm has no model called 'hf-hub'"),
        (f"{TINY}:pretrained=true", "takes no pretrained weights"),
        (f"{TINY}:wings=2", r"timm:test_resnet could not be built \(.*wings"),
        (f"{TINY_VIT}:wings=2", r"timm:test_vit could not be built \(.*wings"),
        (f"{TINY}:img_size=32", r"could not be built \(.*img_size"),
        (f"{TINY}:outputs=0", "expects outputs to be a positive whole number, found 0"),
        (f"{TINY}:wings", "has the option 'wings', expected key=value"),
    ],
)
def test_what_is_wrong_is_said(spec: str, said: str) -> None:
    with pytest.raises(NetgrainError, match=said):
        load_model(spec, channels=1, image_size=32)()


def test_without_timm_the_command_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    real = importlib.import_module

    def without(name: str, *rest: Any) -> Any:
        if name == "torchvision":
            return builtins
        if name == "timm":
            raise ModuleNotFoundError("No module named 'timm'", name="timm")
        return real(name, *rest)

    monkeypatch.setattr(importlib, "import_module", without)
    with pytest.raises(NetgrainError, match=r"'timm:resnet18' needs timm, .*: pip install -e '\.\[vision\]'"):
        load_model("timm:resnet18")
