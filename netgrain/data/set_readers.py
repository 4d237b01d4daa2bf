"""The named image sets as bytes, checked: digits, MNIST, Fashion-MNIST and CIFAR-10.

official=False accepts cut-down copies with any number of images.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from netgrain.data.choosing import generator_for
from netgrain.data.dataset import Dataset
from netgrain.data.image_files import Labelled, read_cifar_binary, read_cifar_python, read_mnist_pair
from netgrain.data.set_files import set_files
from netgrain.runtime.errors import NetgrainError

CIFAR10_CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
DIGIT_CLASSES = tuple("0123456789")
FASHION_CLASSES = (
    *("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat"),
    *("Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"),
)
MNIST_OPENING = (5, 0, 4, 1, 9, 2, 1, 3, 1, 4, 3, 5)  # the first training labels tell MNIST from its relatives
DIGITS = Path(__file__).parent / "digits"  # UCI's optical recognition of handwritten digits; see the licence there
DIGITS_TEST = 360  # of 1,797; there is no official split of these


@dataclass(frozen=True)
class Raw:
    """Images as bytes, before anything was converted: a tenth of a set is chosen at a tenth of the memory."""

    train: Labelled
    test: Labelled
    name: str
    classes: tuple[str, ...]
    top: int = 255  # the value of a white pixel

    def parts(self, most: tuple[int | None, int | None], seed: int) -> list[Dataset]:
        """Both parts as data sets, at most so many random samples of each."""
        return [self._part("train", self.train, most[0], seed), self._part("test", self.test, most[1], seed)]

    def _part(self, part: str, labelled: Labelled, most: int | None, seed: int) -> Dataset:
        X, y = labelled
        if most is not None:
            if most < 1:
                raise NetgrainError(f"limit {most} was asked for; expected at least one sample.")
            chosen = torch.randperm(len(y), generator=generator_for(seed, self.name, part))[:most]
            X, y = X[chosen], y[chosen]
        note = f"pixels divided by {self.top}"
        return Dataset(X.float().div_(self.top), y, f"{self.name} {part}", self.classes, note)


def read_digits() -> Raw:
    X, y = read_mnist_pair(DIGITS / "images.idx3-ubyte.gz", DIGITS / "labels.idx1-ubyte.gz")
    order = torch.randperm(len(y), generator=generator_for(0, "digits"))
    test, train = order[:DIGITS_TEST].sort().values, order[DIGITS_TEST:].sort().values
    return Raw((X[train], y[train]), (X[test], y[test]), "digits", DIGIT_CLASSES, top=16)


def _cifar10(data_dir: str | Path | None, download: bool, official: bool) -> Raw:
    files = set_files("cifar10", data_dir, download=download)
    read = read_cifar_binary if files[0].suffix == ".bin" else read_cifar_python
    parts = [read(file, records=10_000 if official else None) for file in files]
    train = torch.cat([X for X, _ in parts[:5]]), torch.cat([y for _, y in parts[:5]])
    return Raw(train, parts[5], "CIFAR-10", CIFAR10_CLASSES)


def _mnist(data_dir: str | Path | None, download: bool, official: bool) -> Raw:
    files = set_files("mnist", data_dir, download=download)
    raw = _idx_raw(files, "MNIST", DIGIT_CLASSES, official)
    if official and not _opens_like_mnist(raw.train[1]):
        raise NetgrainError(
            f"{files[1]} does not begin with MNIST's labels; is it another set in the same format? "
            "Pass official=False to use it anyway."
        )
    return raw


def _fashion_mnist(data_dir: str | Path | None, download: bool, official: bool) -> Raw:
    files = set_files("fashionmnist", data_dir, download=download)
    raw = _idx_raw(files, "Fashion-MNIST", FASHION_CLASSES, official)
    if _opens_like_mnist(raw.train[1]):
        raise NetgrainError(f"{files[1]} holds the labels of MNIST, expected those of Fashion-MNIST.")
    return raw


def _idx_raw(files: Sequence[Path], name: str, classes: tuple[str, ...], official: bool) -> Raw:
    train, test = read_mnist_pair(files[0], files[1]), read_mnist_pair(files[2], files[3])
    for (X, _), count, file in ((train, 60_000, files[0]), (test, 10_000, files[2])):
        if official and tuple(X.shape) != (count, 1, 28, 28):
            raise NetgrainError(
                f"{file} has the wrong size: expected {count} images of 28 × 28, found {len(X)} of "
                f"{X.shape[2]} × {X.shape[3]}; pass official=False to use a cut-down copy."
            )
    return Raw(train, test, name, classes)


def _opens_like_mnist(y: Tensor) -> bool:
    return tuple(y[: len(MNIST_OPENING)].tolist()) == MNIST_OPENING


READERS: dict[str, Callable[[str | Path | None, bool, bool], Raw]] = {
    "mnist": _mnist,
    "fashionmnist": _fashion_mnist,
    "cifar10": _cifar10,
    "cifar2": _cifar10,
}
