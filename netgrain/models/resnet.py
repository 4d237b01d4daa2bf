"""ResNet18 for small images."""

from typing import ClassVar

from torch import Tensor, nn

from netgrain.models import layers
from netgrain.models.arguments import ImageModel, scaled

STAGES = ((64, 1), (128, 2), (256, 2), (512, 2))  # channels, and stride of the first of two blocks


class BasicBlock(nn.Module):
    """A residual block: x ↦ φ(branch(x) + shortcut(x)), the branch being conv, norm, φ, conv, norm.

    The convolutions are 3×3 without bias. The shortcut is the identity, or a 1×1 convolution (and norm) where
    the shape changes.
    """

    def __init__(self, maps: int, filters: int, stride: int, activation: layers.Activation, norm: str | None) -> None:
        super().__init__()
        self.branch = nn.Sequential(
            nn.Conv2d(maps, filters, 3, stride=stride, padding=1, bias=False),
            *layers.map_norm(norm, filters),
            layers.activation(activation),
            nn.Conv2d(filters, filters, 3, padding=1, bias=False),
            *layers.map_norm(norm, filters),
        )
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or maps != filters:
            self.shortcut = nn.Sequential(
                nn.Conv2d(maps, filters, 1, stride=stride, bias=False), *layers.map_norm(norm, filters)
            )
        self.activation = layers.activation(activation)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.activation(self.branch(x) + self.shortcut(x))
        return y


class ResNet18(ImageModel):
    """ResNet18 with the stem for small images.

    The stem is a 3×3 convolution of stride one without max pooling. Four stages of two blocks with 64, 128, 256, 512
    channels and strides 1, 2, 2, 2 follow, then a global average pool and a linear head. Convolutions have no bias,
    with and without normalisation; PyTorch's default initialisation. Maps (batch, channels, image_size, image_size) to
    (batch, outputs), for every image_size.

    Parameters
    ----------
    channels : int, default 3
        Channels of an image: 3 for colour, 1 for grey.
    image_size : int, default 32
        Side of the square images.
    outputs : int, default 10
        Number of outputs, one for each class.
    width : float, default 1.0
        Factor on the numbers of channels; results are rounded and at least 1.
    activation : str or callable, default "relu"
        Nonlinearity φ: a name such as ``"relu"``, ``"gelu"``, ``"tanh"``, ``"erf"`` or ``"linear"``, a module class,
        or a function of one tensor that works on every element.
    norm : {"batch", "layer"}, optional
        Normalisation after each convolution; none by default.

    Attributes
    ----------
    transposable_images : bool
        Always True: square filters with i.i.d. weights, so transposing every image does not change the law of the
        network.

    Raises
    ------
    NetgrainError
        If an argument is not of the kind described here, or the activation or normalisation is not known.

    See Also
    --------
    load_model : Models by name, such as ``"resnet18"``.

    Notes
    -----
    With ReLU and ``norm=None`` the network is x ↦ h(x) + b, where b is the bias of the head and
    h(cx) = c·h(x) for c ≥ 0.

    References
    ----------
    .. [1] He, Zhang, Ren, Sun, "Deep residual learning for image recognition", 2015 (section 4.2 for small images).

    Examples
    --------
    At 1/64 of the width there are 1, 2, 4, 8 channels; the stem comes first, then the blocks of the first stage:

    >>> narrow = ResNet18(width=1 / 64)
    >>> [tuple(w.shape) for w in narrow.parameters()][:4]
    [(1, 3, 3, 3), (1, 1, 3, 3), (1, 1, 3, 3), (1, 1, 3, 3)]
    """

    # square filters with i.i.d. weights: transposing every image does not change the law of the network
    transposable_images: ClassVar[bool] = True

    def __init__(
        self,
        *,
        channels: int = 3,
        image_size: int = 32,
        outputs: int = 10,
        width: float = 1.0,
        activation: layers.Activation = "relu",
        norm: str | None = None,
    ) -> None:
        super().__init__(channels=channels, image_size=image_size, outputs=outputs, width=width)
        norm = layers.norm_name("ResNet18", norm)
        maps = scaled(64, width)
        self.stem = nn.Sequential(
            nn.Conv2d(channels, maps, 3, padding=1, bias=False),
            *layers.map_norm(norm, maps),
            layers.activation(activation),
        )
        blocks: list[BasicBlock] = []
        for size, first_stride in STAGES:
            filters = scaled(size, width)
            for stride in (first_stride, 1):
                blocks.append(BasicBlock(maps, filters, stride, activation, norm))
                maps = filters
        self.blocks = nn.Sequential(*blocks)
        self.pool = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.head = nn.Linear(maps, outputs)
