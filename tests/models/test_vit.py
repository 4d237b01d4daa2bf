"""ViT: attention as a loop over heads, patches, exchangeable tokens."""

from functools import partial
from itertools import product

import pytest
import torch
from torch import fx, nn
from torch.nn import functional as F

from netgrain.models import ViT
from netgrain.models.vit import HEAD_SIZE, Attention, ShiftedPatches
from tests.models.networks import count, images, small


def test_vit_has_four_million_parameters() -> None:
    assert round(count(partial(ViT, norm="layer")) / 1e6, 1) == 4.0


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
