"""A model of your own: any class or function that returns a fresh module.

netgrain geometry examples/mymodels.py:Net --input 3x32x32
"""

from torch import Tensor, nn


class Net(nn.Module):
    """Three convolutions, an average over the image, a linear head.

    Parameters called channels, image_size and outputs are filled in from the input and the labels.
    """

    def __init__(self, channels: int = 3, outputs: int = 10) -> None:
        super().__init__()
        self.features = nn.Sequential(
            *(nn.Conv2d(channels, 16, 3, stride=2, padding=1), nn.SiLU()),
            *(nn.Conv2d(16, 32, 3, stride=2, padding=1), nn.SiLU()),
            *(nn.Conv2d(32, 64, 3, padding=1), nn.SiLU()),
        )
        self.head = nn.Linear(64, outputs)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.features(x).mean((2, 3)))
