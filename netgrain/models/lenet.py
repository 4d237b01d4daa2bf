"""LeNet-5 with average pooling, and its smaller sibling."""

from typing import ClassVar

from torch import Tensor, nn

from netgrain.models import layers
from netgrain.models.arguments import check_shared, scaled
from netgrain.runtime.errors import NetgrainError

SMALLEST_IMAGE = 16  # 16 → 12 → 6 → 2 → 1 under two rounds of a valid 5×5 convolution and a 2×2 pool


class LeNet(nn.Module):
    """LeNet-5: two rounds of 5×5 convolution, activation, 2×2 average pooling; then three linear layers.

    6 and 16 channels, 120 and 84 hidden units, biases everywhere, PyTorch's default initialisation. A
    normalisation (`"batch"` or `"layer"`) stands between a convolution and its activation.

    Shapes: (batch, channels, image_size, image_size) → (batch, outputs), for image_size from 16 upwards.

    LeCun, Bottou, Bengio, Haffner: Gradient-based learning applied to document recognition, 1998.

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
        super().__init__()
        owner = type(self).__name__
        check_shared(owner, channels=channels, image_size=image_size, outputs=outputs, width=width)
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

    def forward(self, images: Tensor) -> Tensor:
        logits: Tensor = self.layers(images)
        return logits


class SmallLeNet(LeNet):
    """LeNet with 96 and 67 hidden units instead of 120 and 84.

    >>> sum(p.numel() for p in SmallLeNet(channels=1).parameters())
    48247
    """

    hidden: ClassVar[tuple[int, int]] = (96, 67)
