"""Random modules: small networks put together from the layers that people use, each a function of its number alone.

    make, shape = random_module(17)     # a family that can be pickled, and the shape of its inputs
    member().parts                      # what it is made of, in words

Inputs have 8 × 8 to 16 × 16 pixels, layers few channels, and there are 2 to 5 outputs, so that plain sampling of many
members is a reference for everything else. The layers are in tests/random_layers.py.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial

from torch import Tensor, nn

from tests.random_layers import (
    ACTIVATIONS,
    Attention,
    Branches,
    ConvNeXt,
    Gated,
    GlobalPool,
    LayerScale,
    PatchEmbedding,
    PoolMix,
    Residual,
    SqueezeExcitation,
    TokenMixing,
    Tokens,
    image_norm,
)


class RandomModule(nn.Module):
    """The module of a number; `parts` names its layers in order."""

    def __init__(self, number: int) -> None:
        super().__init__()
        plan = Plan(number)
        self.layers = nn.Sequential(*plan.layers)
        self.parts = tuple(plan.parts)
        _initialise(self.layers, plan.start)

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x)


def random_module(number: int) -> tuple[Callable[[], nn.Module], tuple[int, ...]]:
    """A family of random modules and the shape of its inputs."""
    plan = Plan(number)
    return partial(RandomModule, number=number), plan.shape


class Plan:
    """Draws layer after layer; modules are made on the way, and what they are is written down."""

    def __init__(self, number: int) -> None:
        self.draw = random.Random(f"random module {number}")
        draw = self.draw
        self.layers: list[nn.Module] = []
        self.parts: list[str] = []
        self.channels, self.side = draw.choice((1, 3)), draw.choice((8, 8, 8, 12, 16))
        self.shape = (self.channels, self.side, self.side)
        self.act = draw.choice(list(ACTIVATIONS))
        self.norm = draw.choice(("none", "batch", "batch", "layer", "group"))
        self.start = draw.choice(("as torch does", "kaiming", "narrow", "as torch does, random norms"))
        self.outputs = draw.randint(2, 5)
        trunk = draw.choice(("image", "image", "image", "tokens", "tokens", "vector"))
        self.parts += [f"{trunk} {'×'.join(map(str, self.shape))}, {self.start}"]
        {"image": self._image, "tokens": self._tokens, "vector": self._vector}[trunk]()

    # --- one layer after the other --------------------------------------------------------------------------------

    def _add(self, layer: nn.Module, words: str, *, channels: int | None = None, side: int | None = None) -> None:
        self.layers.append(layer)
        self.parts.append(words)
        self.channels = self.channels if channels is None else channels
        self.side = self.side if side is None else side

    def _activation(self) -> nn.Module:
        return ACTIVATIONS[self.act.removesuffix(" in place")]()

    def _after_layer(self) -> nn.Module:
        """The activation where nothing else needs its input, so that it may work in place."""
        return ACTIVATIONS[self.act]()

    def _coin(self, share: float = 0.5) -> bool:
        return self.draw.random() < share

    def _scale(self, channels: int, image: bool) -> tuple[nn.Module | None, str]:
        if not self._coin(0.3):
            return None, ""
        start = self.draw.choice((0.1, 0.5))
        return LayerScale(channels, start, image), f" LayerScale {start}"

    def _image(self) -> None:
        width = self.draw.choice((4, 6, 8, 12))
        self._conv(width)
        blocks = (
            *(self._conv_block, self._separable, self._inverted, self._basic, self._darknet, self._excited),
            *(self._pool, self._pool_mix, self._dense, self._inception, self._convnext, self._gated),
            *(self._upsampled, self._shuffled, self._normed),
        )
        for block in self.draw.sample(blocks, self.draw.randint(1, 4)):
            block()
        way = self.draw.choice(("mean", "adaptive", "max", "flat"))
        self._add(GlobalPool(way), f"global {way}")
        features = self.channels * (self.side**2 if way == "flat" else 1)
        if self._coin(0.2):
            hidden = self.draw.choice((8, 16))
            self._add(nn.Sequential(nn.Linear(features, hidden), self._activation()), f"linear {hidden} {self.act}")
            features = hidden
        self._add(nn.Linear(features, self.outputs), f"linear {self.outputs}")

    def _conv(self, width: int) -> None:
        """The stem."""
        kernel, stride, bias = self.draw.choice((3, 5)), self.draw.choice((1, 1, 2)), self._coin()
        layers = [nn.Conv2d(self.channels, width, kernel, stride, kernel // 2, bias=bias)]
        words = f"stem {kernel}/{stride} to {width}{' bias' * bias}"
        if self._coin(0.7):
            layers += [image_norm(self.norm, width), self._after_layer()]
            words += f" {self.norm} {self.act}"
        self._add(nn.Sequential(*layers), words, channels=width, side=-(-self.side // stride))

    def _conv_block(self) -> None:
        kernel, stride = self.draw.choice((1, 3, 5)), self.draw.choice((1, 2))
        width = self.draw.choice((4, 8, 16))
        conv = nn.Conv2d(self.channels, width, kernel, stride, kernel // 2, bias=self._coin())
        layer = nn.Sequential(conv, image_norm(self.norm, width), self._after_layer())
        words = f"conv {kernel}/{stride} to {width} {self.norm} {self.act}"
        self._add(layer, words, channels=width, side=-(-self.side // stride))

    def _separable(self) -> None:
        c, width = self.channels, self.draw.choice((4, 8, 12))
        depthwise = nn.Conv2d(c, c, 3, padding=1, groups=c, bias=False)
        layers = [depthwise, image_norm(self.norm, c), self._after_layer(), nn.Conv2d(c, width, 1)]
        self._add(nn.Sequential(*layers), f"depthwise {self.norm} {self.act}, 1×1 to {width}", channels=width)

    def _inverted(self) -> None:
        c, hard = self.channels, self._coin()
        layers = [nn.Conv2d(c, 2 * c, 1, bias=False), image_norm(self.norm, 2 * c), self._after_layer()]
        layers += [nn.Conv2d(2 * c, 2 * c, 3, padding=1, groups=2 * c, bias=False)]
        layers += [
            image_norm(self.norm, 2 * c),
            self._after_layer(),
            SqueezeExcitation(2 * c, self._activation(), hard),
        ]
        layers += [nn.Conv2d(2 * c, c, 1, bias=False)]
        self._add(Residual(nn.Sequential(*layers)), f"x + inverted {self.norm} {self.act} SE{' hard' * hard}")

    def _basic(self) -> None:
        c, stride, width = self.channels, self.draw.choice((1, 2)), self.draw.choice((self.channels, 8))
        body = nn.Sequential(
            nn.Conv2d(c, width, 3, stride, 1, bias=False),
            image_norm(self.norm, width),
            self._after_layer(),
            nn.Conv2d(width, width, 3, padding=1, bias=False),
            image_norm(self.norm, width),
        )
        skip = None if (stride, width) == (1, c) else nn.Conv2d(c, width, 1, stride, bias=False)
        scale, scaled = self._scale(width, True)
        after, in_place = self._coin(), self._coin()
        block = Residual(body, skip, scale=scale, after=self._after_layer() if after else None, in_place=in_place)
        words = f"basic block /{stride} to {width} {self.norm} {self.act}{scaled}{', act after' * after}"
        words += ", sum in place" * in_place
        self._add(block, words, channels=width, side=-(-self.side // stride))

    def _darknet(self) -> None:
        c = self.channels
        body = nn.Sequential(nn.Conv2d(c, c, 3, padding=1), image_norm(self.norm, c), self._after_layer())
        self._add(Residual(body), f"x + {self.act}({self.norm}(conv))")

    def _excited(self) -> None:
        hard = self._coin()
        self._add(SqueezeExcitation(self.channels, self._activation(), hard), f"SE{' hard' * hard} {self.act}")

    def _pool(self) -> None:
        pools: dict[str, Callable[[], nn.Module]] = {
            "max 2": lambda: nn.MaxPool2d(2),
            "max 3/2": lambda: nn.MaxPool2d(3, 2, 1),
            "average 2": lambda: nn.AvgPool2d(2),
            "average 3/2": lambda: nn.AvgPool2d(3, 2, 1),
        }
        name = self.draw.choice(list(pools))
        if self.side >= 4:
            self._add(pools[name](), f"{name} pool", side=-(-self.side // 2) if "3" in name else self.side // 2)

    def _pool_mix(self) -> None:
        scale, scaled = self._scale(self.channels, True)
        body = nn.Sequential(image_norm(self.norm, self.channels), PoolMix())
        self._add(Residual(body, scale=scale), f"x + (pool − 1)({self.norm} x){scaled}")

    def _dense(self) -> None:
        c, more = self.channels, 4
        layers = [image_norm(self.norm, c), self._activation()]
        branch = nn.Sequential(*layers, nn.Conv2d(c, more, 3, padding=1, bias=False))
        self._add(Branches(branch, keep=True), f"cat x, conv({self.act}({self.norm} x))", channels=c + more)

    def _inception(self) -> None:
        c = self.channels
        one = nn.Sequential(nn.Conv2d(c, 4, 1), self._activation())
        three = nn.Sequential(nn.Conv2d(c, 4, 3, padding=1), self._activation())
        pooled = nn.Sequential(nn.AvgPool2d(3, 1, 1), nn.Conv2d(c, 4, 1))
        self._add(Branches(one, three, pooled, keep=False), f"inception {self.act}", channels=12)

    def _convnext(self) -> None:
        scale, scaled = self._scale(self.channels, True)
        block = Residual(ConvNeXt(self.channels, self._activation()), scale=scale)
        self._add(block, f"x + ConvNeXt {self.act}{scaled}")

    def _gated(self) -> None:
        layer = nn.Conv2d(self.channels, 2 * self.channels, 1)
        self._add(Gated(layer, self._activation(), 1), f"gated 1×1 {self.act}")

    def _upsampled(self) -> None:
        if self.side > 8:
            return
        mode = self.draw.choice(("nearest", "bilinear"))
        conv = nn.Conv2d(self.channels, 8, 3, padding=1)
        self._add(
            nn.Sequential(nn.Upsample(scale_factor=2, mode=mode), conv, self._activation()),
            f"up {mode}, conv to 8 {self.act}",
            channels=8,
            side=2 * self.side,
        )

    def _shuffled(self) -> None:
        if self.side <= 8:
            layers = [nn.Conv2d(self.channels, 16, 1), nn.PixelShuffle(2)]
            self._add(nn.Sequential(*layers), "1×1, PixelShuffle to 4", channels=4, side=2 * self.side)

    def _normed(self) -> None:
        if self.norm != "none":
            self._add(image_norm(self.norm, self.channels), f"norm {self.norm}")

    # --- tokens and vectors ---------------------------------------------------------------------------------------

    def _tokens(self) -> None:
        if self._coin(0.3):
            self._conv(self.draw.choice((4, 8)))
        width = self.draw.choice((8, 12, 16))
        patch = 4 if self.side > 8 else 2
        token, positions = self._coin(), self._coin(0.7)
        tokens = (self.side // patch) ** 2 + token
        self._add(
            PatchEmbedding(self.channels, width, self.side, patch, token, positions),
            f"patches {patch} to {width}{', class token' * token}{', positions' * positions}",
        )
        kind = self.draw.choice(("attention", "attention", "mixing"))
        for _ in range(self.draw.randint(1, 2)):
            if kind == "attention":
                heads, fused = self.draw.choice((1, 2, 4)), self._coin()
                self._residual_tokens(Attention(width, heads, fused), f"attention of {heads}{', fused' * fused}", width)
            else:
                self._residual_tokens(TokenMixing(tokens, self._activation()), f"token mixing {self.act}", width)
            self._residual_tokens(self._channel_network(width), f"MLP {self.act}", width)
        if self._coin(0.7):
            self._add(nn.LayerNorm(width), "layer norm")
        way = self.draw.choice(("first", "mean", "flat")) if token else self.draw.choice(("mean", "flat"))
        self._add(Tokens(way), f"{way} token{'s' * (way != 'first')}")
        features = width * (tokens if way == "flat" else 1)
        self._add(nn.Linear(features, self.outputs), f"linear {self.outputs}")

    def _channel_network(self, width: int) -> nn.Module:
        if self._coin(0.3):
            return nn.Sequential(
                Gated(nn.Linear(width, 4 * width), nn.SiLU(), -1),
                nn.Linear(2 * width, width),
            )
        return nn.Sequential(nn.Linear(width, 2 * width), self._activation(), nn.Linear(2 * width, width))

    def _residual_tokens(self, body: nn.Module, words: str, width: int) -> None:
        scale, scaled = self._scale(width, False)
        words += " gated" * any(isinstance(m, Gated) for m in body.modules())
        normed = self._coin(0.85)
        body = nn.Sequential(nn.LayerNorm(width), body) if normed else body
        self._add(Residual(body, scale=scale), f"x + {words}{' (layer norm)' * normed}{scaled}")

    def _vector(self) -> None:
        features, width = self.channels * self.side**2, self.draw.choice((8, 16, 32))
        self._add(nn.Sequential(nn.Flatten(), nn.Linear(features, width)), f"flatten, linear {width}")
        norms = {"batch": nn.BatchNorm1d, "layer": nn.LayerNorm}
        for _ in range(self.draw.randint(1, 3)):
            kind = self.draw.choice(("plain", "residual", "gated", "normed"))
            body = nn.Sequential(self._activation(), nn.Linear(width, width))
            if kind == "residual":
                after = nn.Sequential(nn.Linear(width, width), self._activation(), nn.Linear(width, width))
                self._add(Residual(after), f"x + MLP {self.act}")
            elif kind == "gated":
                self._add(Gated(nn.Linear(width, 2 * width), self._activation(), -1), f"gated linear {self.act}")
            elif kind == "normed" and self.norm in norms:
                self._add(nn.Sequential(norms[self.norm](width), body), f"{self.norm} {self.act} linear")
            else:
                self._add(body, f"{self.act} linear")
        self._add(nn.Sequential(self._activation(), nn.Linear(width, self.outputs)), f"{self.act} linear")


def _initialise(model: nn.Module, start: str) -> None:
    """Weights as some libraries start them."""
    for layer in model.modules():
        weighted = isinstance(layer, nn.Linear | nn.Conv2d)
        if weighted and start == "kaiming":
            nn.init.kaiming_normal_(layer.weight)
        elif weighted and start == "narrow":
            nn.init.trunc_normal_(layer.weight, std=0.15)
        if weighted and layer.bias is not None and start in ("kaiming", "narrow"):
            nn.init.zeros_(layer.bias)
        if start.endswith("random norms") and isinstance(layer, nn.BatchNorm1d | nn.BatchNorm2d | nn.GroupNorm):
            nn.init.uniform_(layer.weight, 0.5, 1.5)
