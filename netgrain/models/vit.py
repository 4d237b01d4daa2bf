"""The vision transformer for small images."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from netgrain.models import layers
from netgrain.models.arguments import ImageModel, check_switch, check_whole_number, scaled
from netgrain.runtime.errors import NetgrainError

HEAD_SIZE = 16


class Attention(nn.Module):
    """Self-attention with several heads: softmax(s·Q Kᵀ) V for each head, then one linear map over them all.

    Q, K, V come from one linear map without bias; s = 1/√HEAD_SIZE. With `local`, s is learned (one number
    per head, starting there) and no token attends to itself: locality self-attention of Lee, Lee, Song 2021.

    Shapes: (batch, tokens, hidden) → (batch, tokens, hidden), hidden = heads · HEAD_SIZE.
    """

    diagonal: Tensor

    def __init__(self, heads: int, tokens: int, *, local: bool) -> None:
        super().__init__()
        hidden = heads * HEAD_SIZE
        self.heads = heads
        self.local = local
        self.qkv = nn.Linear(hidden, 3 * hidden, bias=False)
        self.project = nn.Linear(hidden, hidden)
        self.scale: float | nn.Parameter = HEAD_SIZE**-0.5
        if local:
            self.scale = nn.Parameter(torch.full((heads, 1, 1), HEAD_SIZE**-0.5))
            self.register_buffer("diagonal", torch.eye(tokens, dtype=torch.bool), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        split = self.qkv(x).unflatten(-1, (3, self.heads, HEAD_SIZE)).permute(2, 0, 3, 1, 4)
        q, k, v = split[0], split[1], split[2]  # (batch, heads, tokens, HEAD_SIZE)
        scores = q @ k.transpose(-2, -1) * self.scale
        if self.local:
            scores = scores.masked_fill(self.diagonal, float("-inf"))
        mixed = scores.softmax(-1) @ v
        y: Tensor = self.project(mixed.transpose(1, 2).flatten(2))
        return y


class EncoderBlock(nn.Module):
    """A transformer block: x ← x + attention(x), x ← x + W₂ φ(W₁ x); each branch normalises its own input."""

    def __init__(
        self, heads: int, tokens: int, activation: layers.Activation, norm: str | None, *, local: bool
    ) -> None:
        super().__init__()
        hidden = heads * HEAD_SIZE
        self.attend = nn.Sequential(*layers.vector_norm(norm, hidden), Attention(heads, tokens, local=local))
        self.think = nn.Sequential(
            *layers.vector_norm(norm, hidden),
            nn.Linear(hidden, 4 * hidden),
            layers.activation(activation),
            nn.Linear(4 * hidden, hidden),
        )

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attend(x)
        y: Tensor = x + self.think(x)
        return y


class ShiftedPatches(nn.Module):
    """Shifted patch tokenisation: patches of the image and of its four diagonal shifts, embedded together.

    The shifts are by half a patch (at least one pixel) and fill with zeros; each patch vector of length
    5·channels·patch² is normalised if the model is, then mapped linearly.

    Lee, Lee, Song: Vision transformer for small-size datasets, 2021.

    Shapes: (batch, channels, side, side) → (batch, hidden, patches).
    """

    def __init__(self, channels: int, hidden: int, patch: int, norm: str | None) -> None:
        super().__init__()
        self.patch = patch
        size = 5 * channels * patch**2
        self.project = nn.Sequential(*layers.vector_norm(norm, size), nn.Linear(size, hidden))

    def patches(self, images: Tensor) -> Tensor:
        """The vectors that are embedded: (batch, patches, 5·channels·patch²)."""
        half = max(1, self.patch // 2)
        # Negative padding crops: (half, -half) moves the image by half a patch and keeps its size.
        shifts = [F.pad(images, (x, -x, y, -y)) for x in (half, -half) for y in (half, -half)]
        stacked = torch.cat([images, *shifts], dim=1)
        return F.pixel_unshuffle(stacked, self.patch).flatten(2).transpose(1, 2)

    def forward(self, images: Tensor) -> Tensor:
        tokens: Tensor = self.project(self.patches(images))
        return tokens.transpose(1, 2)


class ViT(ImageModel):
    """A vision transformer for small images.

    Patches become tokens; a class token and learned positions are added; residual blocks of attention and two linear
    layers follow, then a linear head on the class token. The class token starts at zero, positions at Normal(0, 0.02²),
    everything else at PyTorch's default. Twelve heads of size 16 make a hidden size of 192, and each block has 768
    hidden units. Maps (batch, channels, image_size, image_size) to (batch, outputs).

    Parameters
    ----------
    channels : int, default 3
        Channels of an image: 3 for colour, 1 for grey.
    image_size : int, default 32
        Side of the square images, a multiple of `patch`.
    outputs : int, default 10
        Number of outputs, one for each class.
    width : float, default 1.0
        Factor on the twelve heads of attention; the result is rounded and at least 1.
    activation : str or callable, default "relu"
        Nonlinearity φ: a name such as ``"relu"``, ``"gelu"``, ``"tanh"``, ``"erf"`` or ``"linear"``, a module class,
        or a function of one tensor that works on every element.
    norm : {"layer"}, optional
        Layer normalisation before each branch, on the class token before the head and on shifted patches before
        their embedding; no normalisation at all by default.
    patch : int, default 8
        Side of a patch in pixels.
    depth : int, default 9
        Number of blocks.
    shifted_patches : bool, default False
        Embed each patch together with those of four diagonal shifts of the image [2]_.
    local_attention : bool, default False
        Learn the scale of the attention scores, and let no token attend to itself [2]_.

    Attributes
    ----------
    exchangeable_tokens : bool
        Whether permuting the patches of the input leaves the law of the network unchanged: True without
        `shifted_patches`. Where the probe has the same symmetry, netgrain then averages a sampled geometry over
        permutations of patches.

    Raises
    ------
    NetgrainError
        If `patch` does not divide `image_size`, an argument is not of the kind described here, or the activation or
        normalisation is not known.

    See Also
    --------
    load_model : Models by name, such as ``"vit"``.

    References
    ----------
    .. [1] Dosovitskiy et al., "An image is worth 16×16 words", 2020.
    .. [2] Lee, Lee, Song, "Vision transformer for small-size datasets", 2021.

    Examples
    --------
    One head of size 16; the 16 patches of side 8 and the class token make 17 tokens:

    >>> vit = ViT(channels=1, width=1 / 12, depth=1)
    >>> tuple(vit.embed.weight.shape), tuple(vit.positions.shape)
    ((16, 1, 8, 8), (1, 17, 16))
    """

    exchangeable_tokens: bool
    """Whether the law of the network is unchanged by permuting the patches of its input.

    It is when all patches share one embedding and the positions are independent with one law. The embedding
    weights inside a patch are independent too, with one symmetric law. So at the origin, and under any probe
    with these symmetries such as Normal(0, I), the average geometry is exactly (a·I + b·11ᵀ) over patches ⊗ I
    inside a patch, and netgrain averages a sampled geometry over permutations of patches when a module
    declares this. Shifted patches overlap their neighbours, which breaks it.
    """

    def __init__(
        self,
        *,
        channels: int = 3,
        image_size: int = 32,
        outputs: int = 10,
        width: float = 1.0,
        activation: layers.Activation = "relu",
        norm: str | None = None,
        patch: int = 8,
        depth: int = 9,
        shifted_patches: bool = False,
        local_attention: bool = False,
    ) -> None:
        super().__init__(channels=channels, image_size=image_size, outputs=outputs, width=width)
        check_whole_number("ViT", "patch", patch, "pass the side of a patch, such as 8")
        check_whole_number("ViT", "depth", depth, "pass the number of blocks, such as 9")
        check_switch("ViT", "shifted_patches", shifted_patches)
        check_switch("ViT", "local_attention", local_attention)
        if image_size % patch:
            raise NetgrainError(
                f"ViT expects image_size to be a multiple of patch={patch}, found {image_size}: "
                "pass a patch that divides it, or resize the images."
            )
        norm = layers.norm_name("ViT", norm, known=("layer",))
        heads = scaled(12, width)
        hidden = heads * HEAD_SIZE
        tokens = 1 + (image_size // patch) ** 2
        self.patch = patch
        self.exchangeable_tokens = not shifted_patches
        self.embed = (
            ShiftedPatches(channels, hidden, patch, norm)
            if shifted_patches
            else nn.Conv2d(channels, hidden, patch, stride=patch)
        )
        self.class_token = nn.Parameter(torch.zeros(1, 1, hidden))
        self.positions = nn.Parameter(torch.empty(1, tokens, hidden).normal_(std=0.02))
        self.blocks = nn.Sequential(
            *(EncoderBlock(heads, tokens, activation, norm, local=local_attention) for _ in range(depth))
        )
        self.head = nn.Sequential(*layers.vector_norm(norm, hidden), nn.Linear(hidden, outputs))

    def forward(self, images: Tensor) -> Tensor:
        patches = self.embed(images).flatten(2).transpose(1, 2)  # (batch, patches, hidden)
        class_tokens = self.class_token.expand(patches.shape[0], -1, -1)
        tokens = torch.cat([class_tokens, patches], dim=1) + self.positions
        logits: Tensor = self.head(self.blocks(tokens)[:, 0])
        return logits
