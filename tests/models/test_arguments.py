"""What models say to bad arguments, and the sizes that a width makes."""

from collections.abc import Callable
from functools import partial

import pytest
import torch
from torch import nn

from netgrain.models import MLP, VGG11, LeNet, SmallLeNet, ViT
from netgrain.models.vit import HEAD_SIZE
from netgrain.runtime.errors import NetgrainError
from tests.models.networks import MODELS


def test_width_rounds_each_hidden_size() -> None:
    sizes = [tuple(p.shape) for p in LeNet(channels=2, width=0.25, outputs=5).parameters() if p.ndim > 1]
    assert sizes == [(2, 2, 5, 5), (4, 2, 5, 5), (30, 100), (21, 30), (5, 21)]
    sizes = [tuple(p.shape) for p in LeNet(channels=2, width=1e-6, outputs=5).parameters() if p.ndim > 1]
    assert sizes == [(1, 2, 5, 5), (1, 1, 5, 5), (1, 25), (1, 1), (5, 1)]
    assert ViT(width=0.25, depth=1).positions.shape == (1, 17, 3 * HEAD_SIZE)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"channels": 0}, "expects channels to be a positive whole number, found 0: pass channels=3 for colour"),
        ({"channels": True}, "expects channels to be a positive whole number, found True"),
        ({"image_size": -32}, "expects image_size to be a positive whole number, found -32: pass the side"),
        ({"image_size": 32.0}, "expects image_size to be a positive whole number, found 32.0"),
        ({"outputs": "ten"}, "expects outputs to be a positive whole number, found 'ten': pass the number of"),
        ({"width": 0}, "expects width to be a positive finite number, found 0: pass 1.0"),
        ({"width": float("nan")}, "expects width to be a positive finite number, found nan"),
        ({"width": float("inf")}, "expects width to be a positive finite number, found inf"),
        ({"width": "wide"}, "expects width to be a positive finite number, found 'wide'"),
        ({"norm": "instance"}, "expects norm to be None or .*'layer', found 'instance'"),
        ({"norm": "layr"}, r"found 'layr'\. Did you mean 'layer'\?"),
        ({"activation": "gelo"}, r"no activation called 'gelo'\. Did you mean 'gelu'\? Known names: relu, "),
        ({"activation": None}, "An activation is a name, .* found None: pass 'relu', .* or 'linear' for none"),
    ],
)
def test_bad_arguments_get_a_sentence(name: str, options: dict[str, object], message: str) -> None:
    with pytest.raises(NetgrainError, match=message) as caught:
        MODELS[name](**options)
    assert MODELS[name].__name__ in str(caught.value) or "activation" in options


def dictionary() -> dict[str, int]:
    return {}


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (partial(LeNet, image_size=15), "LeNet expects image_size to be at least 16, found 15"),
        (partial(SmallLeNet, image_size=8), "SmallLeNet expects image_size to be at least 16, found 8"),
        (partial(VGG11, pool="median"), "VGG11 expects pool to be 'max' or 'avg', found 'median'"),
        (partial(MLP, depth=-1), "MLP expects depth to be a whole number from 0 upwards, found -1"),
        (partial(ViT, norm="batch"), "ViT expects norm to be None or 'layer', found 'batch'"),
        (partial(ViT, patch=5), "ViT expects image_size to be a multiple of patch=5, found 32: pass a patch"),
        (partial(ViT, patch=0), "ViT expects patch to be a positive whole number, found 0"),
        (partial(ViT, depth=0), "ViT expects depth to be a positive whole number, found 0"),
        (partial(ViT, shifted_patches="no"), "ViT expects shifted_patches to be True or False, found 'no'"),
        (partial(ViT, local_attention=1), "ViT expects local_attention to be True or False, found 1"),
        (partial(MLP, activation=nn.Linear), "could not be made without arguments .*: pass functools.partial"),
        (partial(MLP, activation=dictionary), "expected to return an nn.Module, found dict"),
        (partial(MLP, activation=torch.sum), r"into one of the same shape, found shape \(\)"),
        (partial(MLP, activation=lambda x: 3), "into one of the same shape, found int"),
        (partial(MLP, activation=lambda x, y: x), r"could not be applied to a tensor of shape \(2, 3\) \(TypeError"),
    ],
)  # fmt: skip
def test_each_models_own_limits_get_a_sentence(make: Callable[[], nn.Module], message: str) -> None:
    with pytest.raises(NetgrainError, match=message):
        make()
