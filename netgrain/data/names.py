"""What the named sets are called, known without loading torch."""

from __future__ import annotations

from netgrain.runtime.errors import known_name

SETS = {
    "digits": "digits",
    "mnist": "MNIST",
    "fashionmnist": "Fashion-MNIST",
    "cifar10": "CIFAR-10",
    "cifar2": "CIFAR-2",
}  # how a name is written in code, without marks between its words → how its authors write it
WRITTEN = ("digits", "mnist", "fashion-mnist", "cifar10", "cifar2")  # how people type them


def set_named(name: str) -> str:
    """The key in SETS of a name as a user writes it.

    >>> set_named("Fashion-MNIST")
    'fashionmnist'
    """
    return known_name("data set", _plain(name), SETS)


def is_named_set(name: object) -> bool:
    """Whether this is the name of a set.

    >>> is_named_set("Fashion-MNIST"), is_named_set("my.npz")
    (True, False)
    """
    return isinstance(name, str) and _plain(name) in SETS


def _plain(name: str) -> str:
    return name.lower().replace("-", "").replace("_", "").replace(" ", "")
