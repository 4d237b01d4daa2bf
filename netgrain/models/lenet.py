"""LeNet-5 with average pooling, and its smaller sibling."""

from typing import ClassVar

from torch import nn

from netgrain.models import layers
from netgrain.models.arguments import ImageModel, scaled
from netgrain.runtime.errors import NetgrainError

SMALLEST_IMAGE = 16  # 16 → 12 → 6 → 2 → 1 under two rounds of a valid 5×5 convolution and a 2×2 pool


class LeNet(ImageModel):
    """LeNet-5 with average pooling.

    Two rounds of 5×5 convolution, activation and 2×2 average pooling, then three linear layers: 6 and 16 channels, 120
    and 84 hidden units, biases everywhere, PyTorch's default initialisation. Maps (batch, channels, image_size,
    image_size) to (batch, outputs).

    Parameters
    ----------
    channels : int, default 3
        Channels of an image: 3 for colour, 1 for grey.
    image_size : int, default 32
        Side of the square images, at least 16.
    outputs : int, default 10
        Number of outputs, one for each class.
    width : float, default 1.0
        Factor on the numbers of channels and hidden units; results are rounded and at least 1.
    activation : str or callable, default "relu"
        Nonlinearity φ: a name such as ``"relu"``, ``"gelu"``, ``"tanh"``, ``"erf"`` or ``"linear"``, a module class,
        or a function of one tensor that works on every element.
    norm : {"batch", "layer"}, optional
        Normalisation between a convolution and its activation; none by default.

    Attributes
    ----------
    hidden : tuple of int
        Numbers of hidden units before `width` scales them: (120, 84).
    transposable_images : bool
        Always True: square filters with i.i.d. weights, so transposing every image does not change the law of the
        network.

    Raises
    ------
    NetgrainError
        If `image_size` is below 16, an argument is not of the kind described here, or the activation or normalisation
        is not known.

    See Also
    --------
    SmallLeNet : The same with fewer hidden units.
    load_model : Models by name, such as ``"lenet"``.

    References
    ----------
    .. [1] LeCun, Bottou, Bengio, Haffner, "Gradient-based learning applied to document recognition", 1998.

    Examples
    --------
    With one input channel the layers have 156, 2,416, 48,120, 10,164 and 850 parameters:

    >>> sum(p.numel() for p in LeNet(channels=1).parameters())
    61706
    """

    hidden: ClassVar[tuple[int, int]] = (120, 84)
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
        owner = type(self).__name__
        if image_size < SMALLEST_IMAGE:
            raise NetgrainError(
                f"{owner} expects image_size to be at least {SMALLEST_IMAGE}, found {image_size}: "
                "enlarge the images, or take a model that does not shrink them as much, such as resnet18."
            )
        norm = layers.norm_name(owner, norm)
        stack: list[nn.Module] = []
        maps, side = channels, image_size
        for filters in (scaled(6, width), scaled(16, width)):
            stack += [
                nn.Conv2d(maps, filters, 5),
                *layers.map_norm(norm, filters),
                layers.activation(activation),
                nn.AvgPool2d(2),
            ]
            maps, side = filters, (side - 4) // 2
        stack.append(nn.Flatten())
        size = maps * side**2
        for units in (scaled(units, width) for units in self.hidden):
            stack += [nn.Linear(size, units), layers.activation(activation)]
            size = units
        self.layers = nn.Sequential(*stack, nn.Linear(size, outputs))


class SmallLeNet(LeNet):
    """LeNet with 96 and 67 hidden units instead of 120 and 84.

    Everything else is as in `LeNet`. Maps (batch, channels, image_size, image_size) to (batch, outputs).

    Parameters
    ----------
    channels : int, default 3
        Channels of an image: 3 for colour, 1 for grey.
    image_size : int, default 32
        Side of the square images, at least 16.
    outputs : int, default 10
        Number of outputs, one for each class.
    width : float, default 1.0
        Factor on the numbers of channels and hidden units; results are rounded and at least 1.
    activation : str or callable, default "relu"
        Nonlinearity φ: a name such as ``"relu"``, ``"gelu"``, ``"tanh"``, ``"erf"`` or ``"linear"``, a module class,
        or a function of one tensor that works on every element.
    norm : {"batch", "layer"}, optional
        Normalisation between a convolution and its activation; none by default.

    Attributes
    ----------
    hidden : tuple of int
        Numbers of hidden units before `width` scales them: (96, 67).

    Raises
    ------
    NetgrainError
        As in `LeNet`.

    See Also
    --------
    LeNet : The published size.

    Examples
    --------
    With one input channel the layers have 156, 2,416, 38,496, 6,499 and 680 parameters:

    >>> sum(p.numel() for p in SmallLeNet(channels=1).parameters())
    48247
    """

    hidden: ClassVar[tuple[int, int]] = (96, 67)
