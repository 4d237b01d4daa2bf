"""The multilayer perceptron."""

from torch import Tensor, nn

from netgrain.models import layers
from netgrain.models.arguments import check_shared, check_whole_number, scaled


class MLP(nn.Module):
    """A fully connected network on the flattened image: x ↦ W₃ φ(W₂ φ(W₁ x + b₁) + b₂) + b₃.

    `depth` hidden layers of 100 units, PyTorch's default initialisation. `depth=0` is one linear map. With a
    normalisation (`"batch"` or `"layer"`) a hidden layer is linear, normalisation, activation.

    Shapes: (batch, channels, image_size, image_size) → (batch, outputs).

    >>> sum(p.numel() for p in MLP(channels=1).parameters()) == (1024 + 1) * 100 + 101 * 100 + 101 * 10
    True
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
        depth: int = 2,
    ) -> None:
        super().__init__()
        check_shared("MLP", channels=channels, image_size=image_size, outputs=outputs, width=width)
        check_whole_number("MLP", "depth", depth, "pass the number of hidden layers, such as 2", at_least=0)
        norm = layers.norm_name("MLP", norm)
        hidden = scaled(100, width)
        stack: list[nn.Module] = [nn.Flatten()]
        size = channels * image_size**2
        for _ in range(depth):
            stack += [
                nn.Linear(size, hidden),
                *layers.vector_norm(norm, hidden),
                layers.activation(activation),
            ]
            size = hidden
        self.layers = nn.Sequential(*stack, nn.Linear(size, outputs))

    def forward(self, images: Tensor) -> Tensor:
        logits: Tensor = self.layers(images)
        return logits
