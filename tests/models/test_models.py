"""Built-in models: one contract for all of them, and their sizes derived by hand."""

from collections.abc import Callable
from functools import partial
from itertools import product

import pytest
import torch
from torch import fx, nn

from netgrain.models import MLP, VGG11, LeNet, ResNet18, SmallLeNet, ViT
from tests.models.networks import MODELS, NORMS, count, images, leaves, small

PLACES = {"mlp": 2, "lenet": 4, "smalllenet": 4, "vgg11": 10, "resnet18": 17, "vit": 9}  # of the activation
CASES = [
    (name, activation, norm)
    for name, activation, norm in product(MODELS, ["relu", "gelu"], [None, "batch", "layer"])
    if (name, norm) != ("vit", "batch")
]


# Contract


@pytest.mark.parametrize(("name", "activation", "norm"), CASES)
def test_contract(name: str, activation: str, norm: str | None) -> None:
    model = small(name, activation=activation, norm=norm).eval()
    x = images()
    logits = model(x)
    assert logits.shape == (2, 3)
    assert logits.dtype == torch.float32
    assert logits.isfinite().all()
    assert not torch.allclose(logits[0], logits[1]), "the output does not depend on the input"
    assert torch.equal(model(x), logits), "evaluation is not deterministic"
    assert torch.equal(small(name, activation=activation, norm=norm).eval()(x), logits), "the seed does not decide"

    traced = fx.symbolic_trace(model)
    assert torch.equal(traced(x), logits)
    called = [node.target for node in traced.graph.nodes if node.op == "call_module"]
    assert len(called) == len(set(called)), "a module is called in two places"

    parts = [part for _, part in leaves(model)]
    assert len(parts) == len({id(part) for part in parts}), "a module is shared between places"
    chosen, other = (nn.ReLU, nn.GELU) if activation == "relu" else (nn.GELU, nn.ReLU)
    assert sum(isinstance(part, chosen) for part in parts) == PLACES[name]
    assert not any(isinstance(part, other) for part in parts)
    assert any(isinstance(part, NORMS) for part in parts) == (norm is not None)


@pytest.mark.parametrize("name", MODELS)
def test_every_module_is_used(name: str) -> None:
    model = small(name, norm="layer")
    used = {node.target for node in fx.symbolic_trace(model).graph.nodes if node.op == "call_module"}
    assert used == {path for path, part in leaves(model) if part.__class__.__module__.startswith("torch.nn")}


@pytest.mark.parametrize("name", MODELS)
def test_gradients_reach_every_parameter(name: str) -> None:
    model = small(name, norm="layer", activation="gelu")
    model(images()).square().sum().backward()
    assert [n for n, p in model.named_parameters() if p.grad is None] == []


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("norm", [None, "layer"])
def test_width_scales_parameters(name: str, norm: str | None) -> None:
    full = count(partial(MODELS[name], norm=norm))
    quarter = count(partial(MODELS[name], norm=norm, width=0.25))
    assert 0 < quarter < 0.5 * full
    assert count(partial(MODELS[name], norm=norm, width=1e-6)) > 0


@pytest.mark.parametrize("name", MODELS)
def test_channels_and_outputs_are_not_scaled(name: str) -> None:
    assert small(name, channels=3, outputs=7)(images(channels=3)).shape == (2, 7)


@pytest.mark.parametrize("name", MODELS)
def test_every_option_is_keyword_only(name: str) -> None:
    with pytest.raises(TypeError, match="positional argument"):
        MODELS[name](3)


# Activations and normalisations


@pytest.mark.parametrize("name", ["mlp", "lenet", "resnet18"])
def test_linear_activation_makes_the_network_affine(name: str) -> None:
    model = small(name, activation="linear")
    x, y = images(), images(batch=4)[2:]
    centred = model(x) + model(y) - model(torch.zeros_like(x))
    assert torch.allclose(model(x + y), centred, atol=1e-5)
    assert not torch.allclose(small(name)(x + y), small(name)(x) + small(name)(y) - small(name)(0 * x), atol=1e-5)


@pytest.mark.parametrize(
    ("name", "norm", "kind", "number"),
    [
        ("mlp", "batch", nn.BatchNorm1d, 2), ("mlp", "layer", nn.LayerNorm, 2),
        ("lenet", "batch", nn.BatchNorm2d, 2), ("lenet", "layer", nn.GroupNorm, 2),
        ("vgg11", "batch", nn.BatchNorm2d, 8), ("vgg11", "layer", nn.GroupNorm, 8),
        ("resnet18", "batch", nn.BatchNorm2d, 20), ("resnet18", "layer", nn.GroupNorm, 20),
        ("vit", "layer", nn.LayerNorm, 19),  # two for each of nine blocks, one before the head
    ],
)  # fmt: skip
def test_norm_is_the_right_layer_in_the_right_number(name: str, norm: str, kind: type[nn.Module], number: int) -> None:
    found = [part for _, part in leaves(small(name, norm=norm)) if isinstance(part, NORMS)]
    assert [type(part) for part in found] == [kind] * number
    assert all(part.num_groups == 1 for part in found if isinstance(part, nn.GroupNorm))


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("spelling", ["none", "None"])
def test_none_may_be_written_out(name: str, spelling: str) -> None:
    assert torch.equal(small(name, norm=spelling)(images()), small(name, norm=None)(images()))


@pytest.mark.parametrize("name", ["mlp", "lenet", "smalllenet", "vgg11"])
def test_norm_comes_between_weights_and_activation(name: str) -> None:
    kinds = [type(part) for _, part in leaves(small(name, norm="batch"))]
    for i, kind in enumerate(kinds):
        if issubclass(kind, NORMS):
            assert kinds[i - 1] in (nn.Linear, nn.Conv2d)
            assert kinds[i + 1] is nn.ReLU


# Sizes, derived by hand


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (partial(MLP, channels=1), 1024 * 100 + 100 + 100 * 100 + 100 + 1010),
        (partial(MLP, channels=1, depth=0), 1024 * 10 + 10),
        (partial(LeNet, channels=1), 61_706),
        (LeNet, 62_006),
        # conv 6·25+6, 16·150+16; linear 400·96+96, 96·67+67, 67·10+10
        (partial(SmallLeNet, channels=1), 156 + 2_416 + 38_496 + 6_499 + 680),
        # 9·in·out + out for 3→64→128→256→256→512→512→512→512; two linear of 512·512+512; 512·10+10
        (VGG11, 1_792 + 73_856 + 295_168 + 590_080 + 1_180_160 + 3 * 2_359_808 + 2 * 262_656 + 5_130),
        # 64×64 images leave a 2×2 map: the first linear layer sees 2048 values
        (partial(VGG11, image_size=64), 9_220_480 + 2048 * 512 + 512 + 262_656 + 5_130),
        (partial(ResNet18, norm="batch"), 11_173_962),
        # without the twenty norms: 2·(64·5 + 128·5 + 256·5 + 512·5) = 9,600 parameters fewer
        (ResNet18, 11_164_362),
        # embedding 192·192+192 = 37,056; class token 192; positions 17·192 = 3,264
        # block: norms 2·384, qkv 192·576, projection 192·192+192, mlp 192·768+768+768·192+192 → 444,288
        # final norm 384; head 192·10+10 = 1,930; 37,056+192+3,264+9·444,288+384+1,930
        (partial(ViT, norm="layer"), 4_041_418),
        (partial(ViT, norm=None), 4_041_418 - 19 * 384),
        # one learned temperature for each of 12 heads in 9 blocks
        (partial(ViT, norm="layer", local_attention=True), 4_041_418 + 9 * 12),
        # patch vectors are five times as long, and normalised
        (partial(ViT, norm="layer", shifted_patches=True), 4_041_418 + 4 * 192 * 192 + 2 * 960),
    ],
)
def test_number_of_parameters(make: Callable[[], nn.Module], expected: int) -> None:
    assert count(make) == expected


@pytest.mark.parametrize("name", ["vgg11", "resnet18"])
@pytest.mark.parametrize("size", [1, 8, 16, 33])
def test_other_image_sizes(name: str, size: int) -> None:
    assert small(name, image_size=size, width=0.05)(images(size=size)).shape == (2, 3)
