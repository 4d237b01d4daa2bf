"""What a model accepts as arguments, and the one sentence said when it is given something else."""

import math
from numbers import Integral, Real

from torch import Tensor, nn

from netgrain.runtime.errors import NetgrainError, did_you_mean


def check_whole_number(owner: str, name: str, value: object, hint: str, *, at_least: int = 1) -> None:
    """Refuse anything but an integer from `at_least` upwards; `hint` says what to pass instead."""
    # True is an integer in Python, and channels=True is a mistake.
    if isinstance(value, bool) or not isinstance(value, Integral) or int(value) < at_least:
        expected = "a positive whole number" if at_least == 1 else f"a whole number from {at_least} upwards"
        raise NetgrainError(f"{owner} expects {name} to be {expected}, found {value!r}: {hint}.")


class ImageModel(nn.Module):
    """A network on square images that applies its parts in the order in which they were set; refuses odd sizes."""

    def __init__(self, *, channels: object, image_size: object, outputs: object, width: object) -> None:
        super().__init__()
        _check_shared(type(self).__name__, channels, image_size, outputs, width)

    def forward(self, images: Tensor) -> Tensor:
        for part in self.children():
            images = part(images)
        return images


def _check_shared(owner: str, channels: object, image_size: object, outputs: object, width: object) -> None:
    """Refuse what no built-in model can be built from."""
    check_whole_number(owner, "channels", channels, "pass channels=3 for colour or channels=1 for grey images")
    check_whole_number(owner, "image_size", image_size, "pass the side of the square images, such as 32")
    check_whole_number(owner, "outputs", outputs, "pass the number of classes, such as 10")
    if isinstance(width, bool) or not isinstance(width, Real) or not 0 < float(width) < math.inf:
        raise NetgrainError(
            f"{owner} expects width to be a positive finite number, found {width!r}: "
            "pass 1.0 for the published size or 0.25 for a quarter of it."
        )


def check_choice(owner: str, name: str, value: object, known: tuple[str, ...]) -> None:
    """Refuse a word that is not one of `known`."""
    if value not in known:
        guess = did_you_mean(str(value), known)
        listed = " or ".join(repr(word) for word in known)
        raise NetgrainError(f"{owner} expects {name} to be {listed}, found {value!r}.{guess}")


def check_switch(owner: str, name: str, value: object) -> None:
    """Refuse anything but True and False: the word "no" would count as true."""
    if not isinstance(value, bool):
        raise NetgrainError(f"{owner} expects {name} to be True or False, found {value!r}.")


def scaled(size: int, width: float) -> int:
    """A hidden size under the width multiplier: rounded, and at least one.

    >>> scaled(64, 0.25), scaled(6, 0.25), scaled(6, 0.01)
    (16, 2, 1)
    """
    return max(1, round(size * width))
