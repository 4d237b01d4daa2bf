"""VGG11 for small images."""

from typing import ClassVar

from torch import nn

from netgrain.models import layers
from netgrain.models.arguments import ImageModel, check_choice, scaled

STAGES = ((64,), (128,), (256, 256), (512, 512), (512, 512))  # a pool ends each of the five


class VGG11(ImageModel):
    """VGG11: eight 3×3 convolutions in five pooled stages, then three linear layers.

    Convolutions have 64, 128, 256, 256, 512, 512, 512, 512 channels and start at Normal(0, 2/(k²·out)), k = 3, with
    zero bias; linear layers have 512 hidden units and start at PyTorch's default. A map of side one is not pooled
    further, so images smaller than 32 work too. Maps (batch, channels, image_size, image_size) to (batch, outputs).

    Parameters
    ----------
    channels : int, default 3
        Channels of an image: 3 for colour, 1 for grey.
    image_size : int, default 32
        Side of the square images.
    outputs : int, default 10
        Number of outputs, one for each class.
    width : float, default 1.0
        Factor on the numbers of channels and hidden units; results are rounded and at least 1.
    activation : str or callable, default "relu"
        Nonlinearity φ: a name such as ``"relu"``, ``"gelu"``, ``"tanh"``, ``"erf"`` or ``"linear"``, a module class,
        or a function of one tensor that works on every element.
    norm : {"batch", "layer"}, optional
        Normalisation between a convolution and its activation; none by default.
    pool : {"max", "avg"}, default "max"
        How a 2×2 window becomes one value: its largest or its mean.

    Attributes
    ----------
    transposable_images : bool
        Always True: square filters with i.i.d. weights, so transposing every image does not change the law of the
        network.

    Raises
    ------
    NetgrainError
        If an argument is not of the kind described here, or the activation, normalisation or pooling is not known.

    See Also
    --------
    load_model : Models by name, such as ``"vgg11"``.

    References
    ----------
    .. [1] Simonyan, Zisserman, "Very deep convolutional networks for large-scale image recognition", 2014.

    Examples
    --------
    At 1/64 of the width there are 1, 2, 4, 4, 8, 8, 8, 8 channels and 8 hidden units. The convolutions have
    28 + 20 + 76 + 148 + 296 + 3 · 584 parameters, the linear layers 72 + 72 + 9:

    >>> narrow = VGG11(width=1 / 64, outputs=1)
    >>> sum(p.numel() for p in narrow.parameters())
    2473
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
        pool: str = "max",
    ) -> None:
        super().__init__(channels=channels, image_size=image_size, outputs=outputs, width=width)
        check_choice("VGG11", "pool", pool, ("max", "avg"))
        norm = layers.norm_name("VGG11", norm)
        stack: list[nn.Module] = []
        maps, side = channels, image_size
        for stage in STAGES:
            for filters in (scaled(size, width) for size in stage):
                stack += [
                    _convolution(maps, filters),
                    *layers.map_norm(norm, filters),
                    layers.activation(activation),
                ]
                maps = filters
            if side > 1:
                stack.append(nn.MaxPool2d(2) if pool == "max" else nn.AvgPool2d(2))
                side //= 2
        self.features = nn.Sequential(*stack)
        hidden = scaled(512, width)
        self.classifier = nn.Sequential(
            nn.Flatten(),
            nn.Linear(maps * side**2, hidden),
            layers.activation(activation),
            nn.Linear(hidden, hidden),
            layers.activation(activation),
            nn.Linear(hidden, outputs),
        )


def _convolution(maps: int, filters: int) -> nn.Conv2d:
    convolution = nn.Conv2d(maps, filters, 3, padding=1)
    nn.init.normal_(convolution.weight, std=(2 / (3 * 3 * filters)) ** 0.5)
    if convolution.bias is not None:
        nn.init.zeros_(convolution.bias)
    return convolution
