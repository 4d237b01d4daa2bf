"""The image sets of the experiments: digits, MNIST, Fashion-MNIST, CIFAR-10 and CIFAR-2.

Files are looked for in `data_dir`, then in $NETGRAIN_DATA, then in the cache folder; each may be the folder of the
set itself or hold it (`cifar-10-batches-bin`, `cifar-10-batches-py`, `mnist`, `fashion-mnist`). Pixels come as
numbers from 0 to 1. official=False accepts cut-down copies with any number of images.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from netgrain.data.dataset import Dataset, Split, Target, as_binary, generator_for, standardised
from netgrain.data.download import fetch
from netgrain.data.formats import format_of, read_parts
from netgrain.data.image_files import Labelled, read_cifar_binary, read_cifar_python, read_mnist_pair
from netgrain.data.labels import checked_target
from netgrain.data.names import SETS, is_named_set, set_named
from netgrain.data.wanted import Wanted
from netgrain.runtime.environment import environment
from netgrain.runtime.errors import NetgrainError

CIFAR10_CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
CIFAR_VEHICLES = (0, 1, 8, 9)
DIGIT_CLASSES = tuple("0123456789")
FASHION_CLASSES = (
    *("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat"),
    *("Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"),
)
DEBIAN = Path("/usr/share/datasets")  # where the package dataset-fashion-mnist puts its files
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


# --- the sets -------------------------------------------------------------------------------------------------


def digits() -> Split:
    """1,797 handwritten digits that come with netgrain and need no download.

    They are the test part of UCI's Optical Recognition of Handwritten Digits, the same as in
    scikit-learn. There is no official test part: 360 images, always the same, are set aside.

    Returns
    -------
    Split
        Images of shape (samples, 1, 8, 8) with values from 0 to 1, and labels.

    See Also
    --------
    load_split : The same by name, cut down and standardised.

    Examples
    --------
    >>> len(digits().train), len(digits().test)
    (1437, 360)
    """
    return load_split("digits", standardise=False)


def mnist(data_dir: str | Path | None = None, *, download: bool = False, official: bool = True) -> Split:
    """Handwritten digits of MNIST: 60,000 for training and 10,000 for testing.

    Parameters
    ----------
    data_dir : str or Path, optional
        Folder that holds the files; by default ``$NETGRAIN_DATA`` or the cache.
    download : bool, default False
        Fetch the files if they are not found.
    official : bool, default True
        Accept only files with the official number of images; else also cut-down copies.

    Returns
    -------
    Split
        Images of shape (samples, 1, 28, 28) with values from 0 to 1, and labels.

    Raises
    ------
    NetgrainError
        If the files are not found, or damaged.

    See Also
    --------
    load_split : The same by name, cut down and standardised.
    """
    return load_split("mnist", data_dir, download=download, standardise=False, official=official)


def fashion_mnist(data_dir: str | Path | None = None, *, download: bool = False, official: bool = True) -> Split:
    """Ten kinds of clothing: 60,000 images for training and 10,000 for testing.

    Parameters
    ----------
    data_dir : str or Path, optional
        Folder that holds the files; by default ``$NETGRAIN_DATA`` or the cache.
    download : bool, default False
        Fetch the files if they are not found.
    official : bool, default True
        Accept only files with the official number of images; else also cut-down copies.

    Returns
    -------
    Split
        Images of shape (samples, 1, 28, 28) with values from 0 to 1, and labels.

    Raises
    ------
    NetgrainError
        If the files are not found, or damaged.

    See Also
    --------
    load_split : The same by name, cut down and standardised.
    """
    return load_split("fashionmnist", data_dir, download=download, standardise=False, official=official)


def cifar10(data_dir: str | Path | None = None, *, download: bool = False, official: bool = True) -> Split:
    """Ten kinds of objects: 50,000 images for training and 10,000 for testing.

    Parameters
    ----------
    data_dir : str or Path, optional
        Folder that holds the files; by default ``$NETGRAIN_DATA`` or the cache.
    download : bool, default False
        Fetch the files if they are not found.
    official : bool, default True
        Accept only files with the official number of images; else also cut-down copies.

    Returns
    -------
    Split
        Images of shape (samples, 3, 32, 32) with values from 0 to 1, and labels.

    Raises
    ------
    NetgrainError
        If the files are not found, or damaged.

    See Also
    --------
    load_split : The same by name, cut down and standardised.
    """
    return load_split("cifar10", data_dir, download=download, standardise=False, official=official)


def cifar2(data_dir: str | Path | None = None, *, download: bool = False, official: bool = True) -> Split:
    """CIFAR-10 with two labels: 0 for an animal (classes 2 to 7), 1 for a vehicle.

    Parameters
    ----------
    data_dir : str or Path, optional
        Folder that holds the files; by default ``$NETGRAIN_DATA`` or the cache.
    download : bool, default False
        Fetch the files if they are not found.
    official : bool, default True
        Accept only files with the official number of images; else also cut-down copies.

    Returns
    -------
    Split
        Images of shape (samples, 3, 32, 32) with values from 0 to 1, and labels.

    Raises
    ------
    NetgrainError
        If the files are not found, or damaged.

    See Also
    --------
    load_split : The same by name, cut down and standardised.
    """
    return load_split("cifar2", data_dir, download=download, standardise=False, official=official)


def load_split(
    name: str | Path,
    data_dir: str | Path | None = None,
    *,
    download: bool = False,
    standardise: bool = True,
    size: int | None = None,
    limit: int | tuple[int, int] | None = None,
    seed: int = 0,
    official: bool = True,
    label: str | None = None,
    target: Target | None = None,
    strict: bool = False,
) -> Split:
    """Training and test part of a set, cut down and scaled in this order.

    Parameters
    ----------
    name : {"digits", "mnist", "fashion-mnist", "cifar10", "cifar2"}, str or Path
        A named set (case and hyphens do not matter), or a file or folder of yours that has both parts: ``.npz`` with
        ``X_train``, ``y_train``, ``X_test`` and ``y_test``; a folder with ``train/`` and ``test/`` or ``val/``; splits
        of Hugging Face.
    data_dir : str or Path, optional
        Folder that holds the set; by default ``$NETGRAIN_DATA`` or the cache.
    download : bool, default False
        Fetch the set if it is not found.
    standardise : bool, default True
        Give every channel mean 0 and standard deviation 1, with the statistics of the training part.
    size : int, optional
        Average images over equal areas to size × size.
    limit : int or pair of int, optional
        Number of random samples of each part, or of the training and of the test part.
    seed : int, default 0
        Chooses the samples of `limit`.
    official : bool, default True
        Accept only files with the official number of images; else also cut-down copies.
    label : str, optional
        Column of a table with the labels.
    target : {"classes", "numbers", "none"}, optional
        What the labels are, where they do not tell.
    strict : bool, default False
        Stop at an image that cannot be read, instead of skipping and counting it.

    Returns
    -------
    Split
        Samples of shape (samples, *shape) with labels of one kind.

    Raises
    ------
    NetgrainError
        If the set is not found, has no test part, or its files are damaged.

    See Also
    --------
    load : Samples from any source.

    Examples
    --------
    >>> split = load_split("digits", limit=(100, 50))
    >>> len(split.train), len(split.test), split.train.shape
    (100, 50, (1, 8, 8))
    """
    checked_target(target)
    limits = limit if isinstance(limit, tuple) else (limit, limit)
    wanted = Wanted(label=label, target=target, size=size, limits=limits, seed=seed, strict=strict, test=True)
    if is_named_set(name) or (format_ := format_of(name)) is None:
        wanted.refuse_label(f"{name} is a set of images with labels of its own")
        parts = [wanted.meant(part) for part in _named_set(set_named(str(name)), data_dir, download, official, wanted)]
    elif len(parts := read_parts(format_, name, wanted)) == 1:
        raise NetgrainError(
            f"{name} has no test part; expected X_train and X_test in an .npz file, folders train/ and test/ or val/, "
            "or such splits of Hugging Face."
        )
    if standardise:
        parts = [standardised(part, like=parts[0]) for part in parts]
    return Split(*parts)


def _named_set(key: str, data_dir: str | Path | None, download: bool, official: bool, wanted: Wanted) -> list[Dataset]:
    raw = _digits() if key == "digits" else _READERS[key](data_dir, download, official)
    parts = raw.parts(wanted.limits, wanted.seed)
    return wanted.sized([_two_classes(part) for part in parts] if key == "cifar2" else parts)


def _two_classes(data: Dataset) -> Dataset:
    binary = as_binary(data, CIFAR_VEHICLES, ("animal", "vehicle"))
    return replace(binary, name=data.name.replace("CIFAR-10", "CIFAR-2"))


# --- reading --------------------------------------------------------------------------------------------------


def _digits() -> Raw:
    X, y = read_mnist_pair(DIGITS / "images.idx3-ubyte.gz", DIGITS / "labels.idx1-ubyte.gz")
    order = torch.randperm(len(y), generator=generator_for(0, "digits"))
    test, train = order[:DIGITS_TEST].sort().values, order[DIGITS_TEST:].sort().values
    return Raw((X[train], y[train]), (X[test], y[test]), "digits", DIGIT_CLASSES, top=16)


def _cifar10(data_dir: str | Path | None, download: bool, official: bool) -> Raw:
    files = _find("cifar10", data_dir, download=download)
    read = read_cifar_binary if files[0].suffix == ".bin" else read_cifar_python
    parts = [read(file, records=10_000 if official else None) for file in files]
    train = torch.cat([X for X, _ in parts[:5]]), torch.cat([y for _, y in parts[:5]])
    return Raw(train, parts[5], "CIFAR-10", CIFAR10_CLASSES)


def _mnist(data_dir: str | Path | None, download: bool, official: bool) -> Raw:
    files = _find("mnist", data_dir, download=download)
    raw = _idx_raw(files, "MNIST", DIGIT_CLASSES, official)
    if official and not _opens_like_mnist(raw.train[1]):
        raise NetgrainError(
            f"{files[1]} does not begin with MNIST's labels; is it another set in the same format? "
            "Pass official=False to use it all the same."
        )
    return raw


def _fashion_mnist(data_dir: str | Path | None, download: bool, official: bool) -> Raw:
    files = _find("fashionmnist", data_dir, download=download)
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


_READERS: dict[str, Callable[[str | Path | None, bool, bool], Raw]] = {
    "mnist": _mnist,
    "fashionmnist": _fashion_mnist,
    "cifar10": _cifar10,
    "cifar2": _cifar10,
}


# --- finding --------------------------------------------------------------------------------------------------

FileNames = Sequence[tuple[str, ...]]  # for each file the names it may have

_IDX: FileNames = [
    (f"{stem}-{kind}", f"{stem}-{kind}.gz", f"{stem}.{kind}", f"{stem}.{kind}.gz")
    for stem, kind in (
        ("train-images", "idx3-ubyte"),
        ("train-labels", "idx1-ubyte"),
        ("t10k-images", "idx3-ubyte"),
        ("t10k-labels", "idx1-ubyte"),
    )
]


_BATCHES = ("data_batch_1", "data_batch_2", "data_batch_3", "data_batch_4", "data_batch_5", "test_batch")


@dataclass(frozen=True)
class _Place:
    """Where the files of a set may lie."""

    folders: dict[str, FileNames]  # folder name → its files; the first is the one that is downloaded
    packaged: bool = False  # DEBIAN is looked at, too
    avoid: str | None = None  # a word in the name of a folder that holds another set


_PLACES = {
    "mnist": _Place({"mnist": _IDX, "MNIST/raw": _IDX}, avoid="fashion"),
    "fashionmnist": _Place({"fashion-mnist": _IDX, "FashionMNIST/raw": _IDX}, packaged=True),
    "cifar10": _Place(
        {
            "cifar-10-batches-bin": [(f"{name}.bin",) for name in _BATCHES],
            "cifar-10-batches-py": [(name,) for name in _BATCHES],
        }
    ),
}


def place_of(name: str) -> str:
    """Where a set is found; raises the sentence that says how to bring it where it is not."""
    key = set_named(name)
    if key == "digits":
        return f"{len(digits().train) + len(digits().test)} images, no download needed"
    return str(_find("cifar10" if key == "cifar2" else key, None, download=False)[0].parent)


def cache_folder() -> Path:
    """Where downloads go when no other folder is named: $XDG_CACHE_HOME/netgrain or ~/.cache/netgrain."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "netgrain"


@contextmanager
def looking_in(data_dir: str | Path | None) -> Iterator[None]:
    """Look for named sets in this folder first, inside a with block.

    Parameters
    ----------
    data_dir : str, Path or None
        The folder; None changes nothing.

    Yields
    ------
    None
        Nothing; the folder counts until the block ends.

    Raises
    ------
    NetgrainError
        If `data_dir` is not a folder.
    """
    if data_dir is None:
        yield
        return
    if not Path(data_dir).is_dir():
        raise NetgrainError(f"data_dir '{data_dir}' is not a folder; expected one that holds data sets.")
    with environment({"NETGRAIN_DATA": str(Path(data_dir).absolute())}):
        yield


def _find(key: str, data_dir: str | Path | None, *, download: bool) -> list[Path]:
    """The files of a set in the first folder that has them all."""
    title, place = SETS[key], _PLACES[key]
    if data_dir is not None and not download and not Path(data_dir).is_dir():
        raise NetgrainError(f"data_dir '{data_dir}' is not a folder; expected one that holds {title}.")
    given = os.environ.get("NETGRAIN_DATA")
    roots = [Path(data_dir)] if data_dir is not None else []
    roots += [Path(given)] if given else []
    roots.append(cache_folder())
    lacking = ""
    for root in (*roots, *([DEBIAN] if place.packaged else [])):
        for name, wanted in place.folders.items():
            for folder in (root / name, root):
                if place.avoid is not None and place.avoid in folder.resolve().name.lower():
                    continue
                files = [next((folder / n for n in names if (folder / n).is_file()), None) for names in wanted]
                there = [file for file in files if file is not None]
                if len(there) == len(wanted):
                    return there
                if there and not lacking:
                    lost = next(names for file, names in zip(files, wanted, strict=True) if file is None)
                    lacking = f"; {folder} has a part of it but not {lost[0]}"
    if download:
        return _find(key, fetch(next(iter(place.folders)), roots[0]), download=False)
    raise NetgrainError(
        f"{title} was not found (looked in {', '.join(map(str, roots))}{lacking}); pass data_dir= (--data-dir) a "
        f"folder that holds {' or '.join(n for n in place.folders if '/' not in n)}, set NETGRAIN_DATA to it, or fetch "
        f"it with {bringing(key)}."
    )


def bringing(key: str) -> str:
    """The command that downloads a set."""
    return f"python -c \"from netgrain.data import load; load('{key}', download=True)\""
