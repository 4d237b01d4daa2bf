"""Built-in models: one contract for all of them, their sizes derived by hand, and what they say to bad arguments."""

from collections.abc import Callable, Iterator
from functools import partial
from itertools import product

import pytest
import torch
from torch import Tensor, fx, nn
from torch.nn import functional as F

from netgrain.models import MLP, VGG11, LeNet, ResNet18, SmallLeNet, ViT, layers
from netgrain.models.vit import HEAD_SIZE, Attention, ShiftedPatches
from netgrain.runtime.errors import NetgrainError

MODELS = {"mlp": MLP, "lenet": LeNet, "smalllenet": SmallLeNet, "vgg11": VGG11, "resnet18": ResNet18, "vit": ViT}
PLACES = {"mlp": 2, "lenet": 4, "smalllenet": 4, "vgg11": 10, "resnet18": 17, "vit": 9}  # of the activation
NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.GroupNorm, nn.LayerNorm)
CASES = [
    (name, activation, norm)
    for name, activation, norm in product(MODELS, ["relu", "gelu"], [None, "batch", "layer"])
    if (name, norm) != ("vit", "batch")
]


def small(name: str, **options: object) -> nn.Module:
    """A quarter of the width on 16×16 grey images with three outputs, the same weights every time."""
    torch.manual_seed(0)
    return MODELS[name](**{"channels": 1, "image_size": 16, "outputs": 3, "width": 0.25} | options)


def count(make: Callable[[], nn.Module]) -> int:
    return sum(p.numel() for p in make().parameters())


def images(*, channels: int = 1, size: int = 16, batch: int = 2) -> Tensor:
    return torch.randn(batch, channels, size, size, generator=torch.Generator().manual_seed(1))


def leaves(module: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    for name, child in module.named_modules(remove_duplicate=False):
        if not list(child.children()):
            yield name, child


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


@pytest.mark.parametrize("name", layers.ACTIVATIONS)
def test_named_activation_is_a_fresh_elementwise_module(name: str) -> None:
    phi = layers.activation(name)
    x = torch.linspace(-2, 2, 10).reshape(2, 5)
    assert phi is not layers.activation(name)
    assert torch.allclose(phi(x), torch.stack([phi(value) for value in x.flatten()]).reshape(2, 5))
    assert small("mlp", activation=name.upper())(images()).isfinite().all()


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("relu", F.relu), ("leaky_relu", F.leaky_relu), ("gelu", F.gelu), ("silu", F.silu), ("elu", F.elu),
        ("softplus", F.softplus), ("tanh", torch.tanh), ("sigmoid", torch.sigmoid), ("erf", torch.erf),
        ("linear", lambda x: x), ("identity", lambda x: x),
    ],
)  # fmt: skip
def test_named_activation_is_what_it_says(name: str, function: Callable[[Tensor], Tensor]) -> None:
    x = torch.linspace(-3, 3, 31)
    assert torch.equal(layers.activation(name)(x), function(x))


def slope(negative_slope: float = 0.5) -> nn.Module:
    return nn.LeakyReLU(negative_slope)


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        (nn.Tanh, torch.tanh),
        (partial(nn.LeakyReLU, 0.2), partial(F.leaky_relu, negative_slope=0.2)),
        (slope, partial(F.leaky_relu, negative_slope=0.5)),
        (nn.LeakyReLU(0.3), partial(F.leaky_relu, negative_slope=0.3)),
        (torch.sin, torch.sin),
        (partial(F.leaky_relu, negative_slope=0.1), partial(F.leaky_relu, negative_slope=0.1)),
        (lambda x: x * x, torch.square),
    ],
    ids=["class", "partial class", "factory", "instance", "torch function", "partial function", "lambda"],
)
def test_activation_may_be_a_callable(choice: object, expected: Callable[[Tensor], Tensor]) -> None:
    x = torch.linspace(-2, 2, 9)
    assert torch.equal(layers.activation(choice)(x), expected(x))
    model = small("lenet", activation=choice)
    parts = [part for _, part in leaves(model)]
    assert len(parts) == len({id(part) for part in parts})
    assert torch.equal(fx.symbolic_trace(model)(images()), model(images()))


def test_function_shows_its_name() -> None:
    assert repr(layers.activation(torch.sin)) == "Elementwise(sin)"


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


def test_vit_has_four_million_parameters() -> None:
    assert round(count(partial(ViT, norm="layer")) / 1e6, 1) == 4.0


def test_width_rounds_each_hidden_size() -> None:
    sizes = [tuple(p.shape) for p in LeNet(channels=2, width=0.25, outputs=5).parameters() if p.ndim > 1]
    assert sizes == [(2, 2, 5, 5), (4, 2, 5, 5), (30, 100), (21, 30), (5, 21)]
    sizes = [tuple(p.shape) for p in LeNet(channels=2, width=1e-6, outputs=5).parameters() if p.ndim > 1]
    assert sizes == [(1, 2, 5, 5), (1, 1, 5, 5), (1, 25), (1, 1), (5, 1)]
    assert ViT(width=0.25, depth=1).positions.shape == (1, 17, 3 * HEAD_SIZE)


@pytest.mark.parametrize("name", ["vgg11", "resnet18"])
@pytest.mark.parametrize("size", [1, 8, 16, 33])
def test_other_image_sizes(name: str, size: int) -> None:
    assert small(name, image_size=size, width=0.05)(images(size=size)).shape == (2, 3)


@pytest.mark.parametrize(("size", "pools"), [(1, 0), (8, 3), (16, 4), (32, 5), (64, 5)])
def test_vgg_pools_only_maps_larger_than_one(size: int, pools: int) -> None:
    parts = [part for _, part in leaves(VGG11(image_size=size, width=0.02))]
    assert sum(isinstance(part, nn.MaxPool2d) for part in parts) == pools


def test_vgg_can_average() -> None:
    parts = [type(part) for _, part in leaves(VGG11(width=0.02, pool="avg"))]
    assert parts.count(nn.AvgPool2d) == 5
    assert nn.MaxPool2d not in parts


# What they compute


def test_lenet_is_the_network_of_the_paper() -> None:
    model = small("lenet", width=1.0, activation="tanh")
    w = list(model.parameters())
    x = images()
    for kernel, bias in ((w[0], w[1]), (w[2], w[3])):
        x = F.avg_pool2d(torch.tanh(F.conv2d(x, kernel, bias)), 2)
    x = x.reshape(2, -1)
    for matrix, bias in ((w[4], w[5]), (w[6], w[7])):
        x = torch.tanh(x @ matrix.T + bias)
    assert torch.allclose(model(images()), x @ w[8].T + w[9], atol=1e-6)


def test_vgg_convolutions_start_with_variance_two_over_fan_out() -> None:
    torch.manual_seed(0)
    for _, part in leaves(VGG11(width=0.25)):
        if isinstance(part, nn.Conv2d):
            n, variance = part.weight.numel(), 2 / (9 * part.out_channels)
            assert abs(part.weight.var().item() - variance) < 4 * variance * (2 / n) ** 0.5
            assert abs(part.weight.mean().item()) < 4 * (variance / n) ** 0.5
            assert part.bias.abs().max() == 0


def test_resnet_without_norm_is_homogeneous_up_to_the_head() -> None:
    model = small("resnet18")
    assert [n for n, _ in model.named_parameters() if n.endswith("bias")] == ["head.bias"]
    x = images()
    h, tripled = model(x) - model.head.bias, model(3 * x) - model.head.bias
    assert torch.allclose(tripled, 3 * h, atol=1e-6)
    assert h.abs().max() > 1e-5


def test_resnet_halves_the_map_three_times_and_keeps_the_stem_full() -> None:
    model = small("resnet18")
    sides = [model.stem(images()).shape[-1]]
    x = model.stem(images())
    for block in model.blocks:
        x = block(x)
        sides.append(x.shape[-1])
    assert sides == [16, 16, 16, 8, 8, 4, 4, 2, 2]


def test_resnet_activates_after_the_addition() -> None:
    block = small("resnet18").blocks[1]
    x = images(channels=16)
    expected = F.conv2d(F.conv2d(x, block.branch[0].weight, padding=1).relu(), block.branch[2].weight, padding=1)
    assert torch.allclose(block(x), (expected + x).relu(), atol=1e-6)


@pytest.mark.parametrize("local", [False, True])
def test_attention_equals_a_loop_over_heads(local: bool) -> None:
    torch.manual_seed(0)
    heads, tokens = 3, 5
    attention = Attention(heads, tokens, local=local)
    x = torch.randn(2, tokens, heads * HEAD_SIZE)
    q, k, v = attention.qkv(x).chunk(3, dim=-1)
    columns = []
    for h in range(heads):
        part = slice(h * HEAD_SIZE, (h + 1) * HEAD_SIZE)
        scores = q[..., part] @ k[..., part].mT / 4  # √16
        if local:
            scores = scores - torch.eye(tokens) * 1e9
        columns.append(scores.softmax(-1) @ v[..., part])
    assert torch.allclose(attention(x), attention.project(torch.cat(columns, -1)), atol=1e-6)
    assert attention.qkv.bias is None


def test_local_attention_learns_its_temperature() -> None:
    attention = Attention(2, 3, local=True)
    assert isinstance(attention.scale, nn.Parameter)
    assert torch.equal(attention.scale.flatten(), torch.tensor([0.25, 0.25]))
    assert not isinstance(Attention(2, 3, local=False).scale, nn.Parameter)


def test_shifted_patches_hold_the_image_and_its_four_diagonal_shifts() -> None:
    x = images(channels=2, size=8)
    moved = []
    for down, right in product((2, -2), repeat=2):
        shifted = torch.zeros_like(x)
        for i, j in product(range(8), repeat=2):
            if 0 <= i - down < 8 and 0 <= j - right < 8:
                shifted[:, :, i, j] = x[:, :, i - down, j - right]
        moved.append(shifted)
    found = ShiftedPatches(2, 16, 4, None).patches(x)
    assert found.shape == (2, 4, 5 * 2 * 16)
    assert torch.equal(found[..., :32].mT, F.unfold(x, 4, stride=4))
    expected = {tuple(F.unfold(m, 4, stride=4).flatten().tolist()) for m in moved}
    assert expected == {tuple(part.mT.flatten().tolist()) for part in found[..., 32:].split(32, dim=-1)}


def test_vit_starts_with_zero_class_token_and_small_positions() -> None:
    torch.manual_seed(0)
    model = ViT(depth=1)
    assert model.class_token.abs().max() == 0
    n = model.positions.numel()
    assert abs(model.positions.std().item() - 0.02) < 4 * 0.02 / (2 * n) ** 0.5
    assert isinstance(model.embed, nn.Conv2d)


@pytest.mark.parametrize("options", [{}, {"norm": "layer"}, {"norm": "layer", "local_attention": True}])
def test_vit_tokens_are_exchangeable(options: dict[str, object]) -> None:
    model = small("vit", patch=4, depth=2, **options)
    assert model.exchangeable_tokens
    nn.init.normal_(model.positions)  # large enough that a token in the wrong place shows
    x = images()
    order = torch.randperm(16, generator=torch.Generator().manual_seed(2))
    permuted = F.fold(F.unfold(x, 4, stride=4)[:, :, order], 16, 4, stride=4)
    before = model(x)
    assert (model(permuted) - before).abs().max() > 1e-3
    model.positions.data[:, 1:] = model.positions.data[:, 1:][:, order]
    assert torch.allclose(model(permuted), before, atol=1e-5)


def test_vit_with_shifted_patches_does_not_claim_exchangeable_tokens() -> None:
    model = small("vit", patch=4, depth=2, norm="layer", shifted_patches=True, local_attention=True)
    assert model.exchangeable_tokens is False
    assert torch.equal(fx.symbolic_trace(model)(images()), model(images()))
    x = images()
    nn.init.zeros_(model.positions)
    permuted = F.fold(F.unfold(x, 4, stride=4).flip(-1), 16, 4, stride=4)
    assert (model(permuted) - model(x)).abs().max() > 1e-3


# Messages


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


def test_an_unknown_norm_is_refused_by_the_layers_too() -> None:
    with pytest.raises(NetgrainError, match="A normalisation is None, 'batch' or 'layer', found 'instance'"):
        layers.map_norm("instance", 3)
