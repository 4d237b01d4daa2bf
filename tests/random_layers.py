"""The layers that random modules are made of, written the way people write them."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

ACTIVATIONS: dict[str, Callable[[], nn.Module]] = {
    "relu": nn.ReLU,
    "relu in place": lambda: nn.ReLU(inplace=True),
    "gelu": nn.GELU,
    "silu": nn.SiLU,
    "hardswish": nn.Hardswish,
}


class ChannelsFirstLayerNorm(nn.LayerNorm):
    """LayerNorm over the channels of an image, as in ConvNeXt."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


def image_norm(name: str, channels: int) -> nn.Module:
    if name == "batch":
        return nn.BatchNorm2d(channels)
    if name == "group":
        return nn.GroupNorm(math.gcd(channels, 2), channels)
    return ChannelsFirstLayerNorm(channels, eps=1e-6) if name == "layer" else nn.Identity()


class LayerScale(nn.Module):
    def __init__(self, channels: int, start: float, image: bool) -> None:
        super().__init__()
        self.gamma = nn.Parameter(torch.full((channels,), start))
        self.image = image

    def forward(self, x: Tensor) -> Tensor:
        return x * (self.gamma.view(1, -1, 1, 1) if self.image else self.gamma)


class SqueezeExcitation(nn.Module):
    """x · σ(W₂ φ(W₁ mean x)), by a sigmoid or a hard one."""

    def __init__(self, channels: int, act: nn.Module, hard: bool) -> None:
        super().__init__()
        self.reduce, self.act = nn.Conv2d(channels, max(2, channels // 2), 1), act
        self.expand = nn.Conv2d(max(2, channels // 2), channels, 1)
        self.gate: nn.Module = nn.Hardsigmoid() if hard else nn.Sigmoid()

    def forward(self, x: Tensor) -> Tensor:
        return x * self.gate(self.expand(self.act(self.reduce(x.mean((2, 3), keepdim=True)))))


class Residual(nn.Module):
    """skip(x) + scale(body(x)), with an activation behind it or not, in place or not."""

    def __init__(
        self,
        body: nn.Module,
        skip: nn.Module | None = None,
        *,
        scale: nn.Module | None = None,
        after: nn.Module | None = None,
        in_place: bool = False,
    ) -> None:
        super().__init__()
        self.body, self.in_place = body, in_place
        self.skip = nn.Identity() if skip is None else skip
        self.scale = nn.Identity() if scale is None else scale
        self.after = nn.Identity() if after is None else after

    def forward(self, x: Tensor) -> Tensor:
        y = self.scale(self.body(x))
        if self.in_place:
            y += self.skip(x)
            return self.after(y)
        return self.after(self.skip(x) + y)


class Branches(nn.Module):
    """The outputs of several modules (and x itself, or not) side by side."""

    def __init__(self, *branches: nn.Module, keep: bool) -> None:
        super().__init__()
        self.branches, self.keep = nn.ModuleList(branches), keep

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([*([x] if self.keep else []), *(branch(x) for branch in self.branches)], 1)


class PoolMix(nn.Module):
    """pool(x) − x, the token mixer of PoolFormer."""

    def __init__(self) -> None:
        super().__init__()
        self.pool = nn.AvgPool2d(3, 1, 1, count_include_pad=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.pool(x) - x


class ConvNeXt(nn.Module):
    """Depthwise convolution, layer norm and a two-layer network over the channels."""

    def __init__(self, channels: int, act: nn.Module) -> None:
        super().__init__()
        self.depthwise = nn.Conv2d(channels, channels, 3, padding=1, groups=channels)
        self.norm, self.act = nn.LayerNorm(channels, eps=1e-6), act
        self.up, self.down = nn.Linear(channels, 2 * channels), nn.Linear(2 * channels, channels)

    def forward(self, x: Tensor) -> Tensor:
        y = self.depthwise(x).permute(0, 2, 3, 1)
        return self.down(self.act(self.up(self.norm(y)))).permute(0, 3, 1, 2)


class Gated(nn.Module):
    """a · φ(b), both from one layer (SwiGLU)."""

    def __init__(self, layer: nn.Module, act: nn.Module, axis: int) -> None:
        super().__init__()
        self.layer, self.act, self.axis = layer, act, axis

    def forward(self, x: Tensor) -> Tensor:
        a, b = self.layer(x).chunk(2, self.axis)
        return a * self.act(b)


class PatchEmbedding(nn.Module):
    """Patches as tokens, with a class token and a position embedding or without."""

    def __init__(self, channels: int, width: int, side: int, patch: int, token: bool, positions: bool) -> None:
        super().__init__()
        self.proj = nn.Conv2d(channels, width, patch, patch)
        tokens = (side // patch) ** 2 + token
        self.token = nn.Parameter(torch.randn(1, 1, width) * 0.02) if token else None
        self.positions = nn.Parameter(torch.randn(1, tokens, width) * 0.02) if positions else None

    def forward(self, x: Tensor) -> Tensor:
        x = self.proj(x).flatten(2).transpose(1, 2)
        if self.token is not None:
            x = torch.cat([self.token.expand(len(x), -1, -1), x], 1)
        return x if self.positions is None else x + self.positions


class Attention(nn.Module):
    """Self-attention, fused or written out."""

    def __init__(self, width: int, heads: int, fused: bool) -> None:
        super().__init__()
        self.heads, self.fused = heads, fused
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        b, n, width = x.shape
        q, k, v = self.qkv(x).reshape(b, n, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4).unbind(0)
        if self.fused:
            y = F.scaled_dot_product_attention(q, k, v)
        else:
            y = (q @ k.transpose(-2, -1) * (width // self.heads) ** -0.5).softmax(-1) @ v
        return self.proj(y.transpose(1, 2).reshape(b, n, width))


class TokenMixing(nn.Module):
    """A two-layer network over the tokens, the same for all channels (MLP-Mixer)."""

    def __init__(self, tokens: int, act: nn.Module) -> None:
        super().__init__()
        self.up, self.act, self.down = nn.Linear(tokens, 2 * tokens), act, nn.Linear(2 * tokens, tokens)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(self.act(self.up(x.transpose(1, 2)))).transpose(1, 2)


class Tokens(nn.Module):
    """Tokens to one vector: the first, their mean, or all of them."""

    def __init__(self, way: str) -> None:
        super().__init__()
        self.way = way

    def forward(self, x: Tensor) -> Tensor:
        if self.way == "first":
            return x[:, 0]
        return x.mean(1) if self.way == "mean" else x.flatten(1)


class GlobalPool(nn.Module):
    """Positions to one vector: their mean (as a call or a module), their maximum, or all of them."""

    def __init__(self, way: str) -> None:
        super().__init__()
        self.way = way

    def forward(self, x: Tensor) -> Tensor:
        if self.way == "mean":
            return x.mean((2, 3))
        if self.way == "max":
            return x.amax((2, 3))
        return F.adaptive_avg_pool2d(x, 1).flatten(1) if self.way == "adaptive" else x.flatten(1)
