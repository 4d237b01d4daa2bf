"""The multilayer perceptron."""

from torch import nn

from netgrain.models import layers
from netgrain.models.arguments import ImageModel, check_whole_number, scaled


class MLP(ImageModel):
    """A fully connected network on the flattened image, or on the features of a table.

    x ↦ W₃ φ(W₂ φ(W₁ x + b₁) + b₂) + b₃ with two hidden layers of 100 units. Weights and biases start at PyTorch's
    default. Maps (batch, channels, image_size, image_size), or (batch, features), to (batch, outputs).

    Parameters
    ----------
    channels : int, default 3
        Channels of an image: 3 for colour, 1 for grey.
    image_size : int, default 32
        Side of the square images.
    outputs : int, default 10
        Number of outputs, one for each class.
    width : float, default 1.0
        Factor on the 100 hidden units; the result is rounded and at least 1.
    activation : str or callable, default "relu"
        Nonlinearity φ: a name such as ``"relu"``, ``"gelu"``, ``"tanh"``, ``"erf"`` or ``"linear"``, a module class,
        or a function of one tensor that works on every element.
    norm : {"batch", "layer"}, optional
        Normalisation between a linear layer and its activation; none by default.
    depth : int, default 2
        Number of hidden layers; 0 is one linear map.
    features : int, optional
        Number of columns of a table; `channels` and `image_size` are then ignored.

    Raises
    ------
    NetgrainError
        If an argument is not of the kind described here, or the activation or normalisation is not known.

    See Also
    --------
    load_model : Models by name, such as ``"mlp"``.

    Examples
    --------
    1,024 pixels, two hidden layers of 100 units and ten outputs, each unit with a bias:

    >>> sum(p.numel() for p in MLP(channels=1).parameters()) == (1024 + 1) * 100 + 101 * 100 + 101 * 10
    True
    >>> sum(p.numel() for p in MLP(features=4, outputs=1, depth=0).parameters())  # a linear map of 4 features
    5
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
        features: int | None = None,
    ) -> None:
        super().__init__(channels=channels, image_size=image_size, outputs=outputs, width=width)
        check_whole_number("MLP", "depth", depth, "pass the number of hidden layers, such as 2", at_least=0)
        norm = layers.norm_name("MLP", norm)
        hidden = scaled(100, width)
        stack: list[nn.Module] = [nn.Flatten()]
        if features is not None:
            check_whole_number("MLP", "features", features, "pass the number of columns of the table, such as 20")
        size = channels * image_size**2 if features is None else features
        for _ in range(depth):
            stack += [
                nn.Linear(size, hidden),
                *layers.vector_norm(norm, hidden),
                layers.activation(activation),
            ]
            size = hidden
        self.layers = nn.Sequential(*stack, nn.Linear(size, outputs))
