"""Data: image sets with their files checked, and synthetic sets whose label lies along chosen directions.

Downloading and unpacking are in `netgrain.data.download`.
"""

from netgrain.data.dataset import Dataset, Split, as_binary, balanced, resized, standardised
from netgrain.data.images import cifar2, cifar10, digits, fashion_mnist, load, looking_in, mnist
from netgrain.data.synthetic import doughnut, gaussian_like, isotropic, linear_and_circle, planted, without

__all__ = [
    "Dataset",
    "Split",
    "as_binary",
    "balanced",
    "cifar2",
    "cifar10",
    "digits",
    "doughnut",
    "fashion_mnist",
    "gaussian_like",
    "isotropic",
    "linear_and_circle",
    "load",
    "looking_in",
    "mnist",
    "planted",
    "resized",
    "standardised",
    "without",
]
