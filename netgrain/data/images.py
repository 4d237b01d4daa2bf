"""The image sets of the experiments: digits, MNIST, Fashion-MNIST, CIFAR-10 and CIFAR-2.

Pixels come as numbers from 0 to 1. official=False accepts cut-down copies with any number of images.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from netgrain.data.choosing import as_binary
from netgrain.data.dataset import Dataset, Split, Target
from netgrain.data.formats import format_of, read_parts
from netgrain.data.labels import checked_target
from netgrain.data.names import is_named_set, set_named
from netgrain.data.scaling import standardised
from netgrain.data.set_files import set_files
from netgrain.data.set_readers import READERS, read_digits
from netgrain.data.wanted import Wanted
from netgrain.runtime.errors import NetgrainError

CIFAR_VEHICLES = (0, 1, 8, 9)


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
        Accept only files with the official number of images; False also accepts cut-down copies.

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
        Accept only files with the official number of images; False also accepts cut-down copies.

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
        Accept only files with the official number of images; False also accepts cut-down copies.

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
        Accept only files with the official number of images; False also accepts cut-down copies.

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
        Accept only files with the official number of images; False also accepts cut-down copies.
    label : str, optional
        Column of a table with the labels.
    target : {"classes", "numbers", "none"}, optional
        What the labels are, if that is ambiguous.
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
    raw = read_digits() if key == "digits" else READERS[key](data_dir, download, official)
    parts = raw.parts(wanted.limits, wanted.seed)
    return wanted.sized([_two_classes(part) for part in parts] if key == "cifar2" else parts)


def _two_classes(data: Dataset) -> Dataset:
    binary = as_binary(data, CIFAR_VEHICLES, ("animal", "vehicle"))
    return replace(binary, name=data.name.replace("CIFAR-10", "CIFAR-2"))


def place_of(name: str) -> str:
    """Where a set is found; raises the sentence that says how to bring it where it is not."""
    key = set_named(name)
    if key == "digits":
        return f"{len(digits().train) + len(digits().test)} images, no download needed"
    return str(set_files("cifar10" if key == "cifar2" else key, None, download=False)[0].parent)
