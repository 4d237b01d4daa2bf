"""The one door to samples: a name, a file, a folder, tensors, or a torch data set or loader.

Every way in ends in the same checks, in the one standardisation, and in a `Dataset` whose note says what was done to
the numbers. Nothing is unpickled. torch is loaded when something is read.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from netgrain.data.formats import format_of, read_parts
from netgrain.runtime.arguments import whole
from netgrain.runtime.errors import GrainWarning, NetgrainError

if TYPE_CHECKING:
    from netgrain.data.dataset import Dataset, Target
    from netgrain.data.wanted import Wanted


def load(
    source: Any,
    y: Any = None,
    *,
    standardise: bool = True,
    size: int | None = None,
    limit: int | None = None,
    seed: int = 0,
    label: str | None = None,
    target: Target | None = None,
    channels: int | None = None,
    classes: Sequence[str] | None = None,
    features: Sequence[str] | None = None,
    strict: bool = False,
    data_dir: str | Path | None = None,
    download: bool = False,
) -> Dataset:
    """Samples and labels from a name, a file, a folder, tensors or a torch data set.

    Parameters
    ----------
    source : str, Path, Tensor, array or data set
        One of

        - the name of a set, ``"digits"``, ``"mnist"``, ``"fashion-mnist"``, ``"cifar10"`` or
          ``"cifar2"``: its training part (`load_split` has both parts);
        - ``FILE.npz`` with arrays ``X`` and perhaps ``y`` and names ``features``, or with
          ``X_train``, ``y_train``, ``X_test`` and ``y_test``;
        - ``FILE.csv`` or ``FILE.parquet``: a table with named columns, one of which holds the labels;
        - ``FOLDER/`` with one folder of images for each class, perhaps inside ``train/`` and ``test/``
          or ``val/``; or with images alone;
        - ``FOLDER/`` that Hugging Face's ``save_to_disk`` wrote, or with parquet files;
        - samples of shape (samples, *shape), with labels in `y` or without labels;
        - a torch data set or ``DataLoader`` of pairs (sample, label), of dictionaries with usual names,
          or of samples alone.
    y : array of shape (samples,) or (samples, outputs), optional
        Labels of samples in memory: whole numbers, words or one-hot rows are classes; other numbers are values to
        predict.
    standardise : bool, default True
        Give every channel of images and every feature of tables mean 0 and standard deviation 1.
    size : int, optional
        Average images over equal areas to size × size.
    limit : int, optional
        Keep this many random samples.
    seed : int, default 0
        Chooses the samples of `limit`, and runs the random transforms of a data set.
    label : str, optional
        Column of a table, or array of an ``.npz`` file, with the labels; by default the column called
        label, target, y or class, else the last one.
    target : {"classes", "numbers", "none"}, optional
        What the labels are, if that is ambiguous; ``"none"`` ignores them.
    channels : {1, 3}, optional
        Make images grey or colour.
    classes : sequence of str, optional
        Names of the labels 0, 1, … of samples in memory.
    features : sequence of str, optional
        Names of the entries of a sample in memory.
    strict : bool, default False
        Stop at an image that cannot be read, instead of skipping and counting it.
    data_dir : str or Path, optional
        Folder that holds named sets; by default ``$NETGRAIN_DATA`` or the cache.
    download : bool, default False
        Fetch a named set that is not found.

    Returns
    -------
    Dataset
        Samples of shape (samples, *shape), the training part if there are two; its note says what was
        done to the numbers.

    Raises
    ------
    NetgrainError
        If the source is not found or damaged, or its content is not a set of samples.

    Warns
    -----
    GrainWarning
        If features are constant, or images could not be read.

    See Also
    --------
    load_split : Training and test part, of a named set or of your own.
    standardised : The standardisation by itself.

    Examples
    --------
    >>> load([[1.0, 5.0], [3.0, 9.0]], ["dog", "cat"]).X.tolist()
    [[-1.0, -1.0], [1.0, 1.0]]
    >>> load("digits", limit=100, standardise=False)
    Dataset(digits train, 100 samples of shape (1, 8, 8), ..., pixels divided by 16)
    """
    import numpy as np
    from torch import Tensor

    from netgrain.data.in_memory import dataset_of
    from netgrain.data.pictures import with_channels
    from netgrain.data.scaling import standardised
    from netgrain.data.torch_sets import dataset_from

    wanted = _wanted(label=label, target=target, size=size, limit=limit, seed=seed, strict=strict)
    if isinstance(source, str | Path):
        data = _parts(source, wanted, data_dir, download)[0]
    elif y is None and not isinstance(source, Tensor | np.ndarray):
        data = wanted.sized([dataset_from(source, wanted=wanted)])[0]
    else:
        wanted.refuse_label("samples in memory have none: labels are y")
        data = wanted.sized([dataset_of(source, y, classes=classes, features=features, wanted=wanted)])[0]
    data = data if channels is None else with_channels(data, channels)
    return standardised(data) if standardise else data


def load_with_test(
    source: str | Path,
    *,
    standardise: bool = True,
    size: int | None = None,
    limit: int | None = None,
    seed: int = 0,
    label: str | None = None,
    target: Target | None = None,
    channels: int | None = None,
    strict: bool = False,
    data_dir: str | Path | None = None,
    download: bool = False,
) -> tuple[Dataset, Dataset | None]:
    """The samples of `load`, and those of the test part where the source has one.

    Parameters
    ----------
    source : str or Path
        The name of a set, a file or a folder.
    standardise : bool, default True
        Give every channel or feature mean 0 and standard deviation 1, by the statistics of the training part.
    size, limit, seed, label, target, channels, strict, data_dir, download
        As in `load`; `limit` holds for either part.

    Returns
    -------
    tuple of Dataset and Dataset or None
        The training part, and the test part.

    Raises
    ------
    NetgrainError
        If the source is not found or damaged, or its content is not a set of samples.

    Warns
    -----
    GrainWarning
        If there is a test part that does not fit the training part; it is left out then.

    See Also
    --------
    load_split : Both parts, where both are needed.

    Examples
    --------
    >>> train, test = load_with_test("digits", limit=100)
    >>> len(train), len(test)
    (100, 100)
    """
    from netgrain.data.dataset import Split
    from netgrain.data.pictures import with_channels
    from netgrain.data.scaling import standardised

    wanted = _wanted(label=label, target=target, size=size, limit=limit, seed=seed, strict=strict, test=True)
    parts = _parts(source, wanted, data_dir, download)
    if channels is not None:
        parts = [with_channels(part, channels) for part in parts]
    try:
        train, test = (parts[0], None) if len(parts) == 1 else ((both := Split(*parts)).train, both.test)
    except NetgrainError as e:
        warnings.warn(f"the test part of {source} is left out: {e}", GrainWarning, stacklevel=2)
        train, test = parts[0], None
    if not standardise:
        return train, test
    return standardised(train), None if test is None else standardised(test, like=train)


def _wanted(
    *,
    label: str | None,
    target: Target | None,
    size: int | None,
    limit: int | None,
    seed: int,
    strict: bool,
    test: bool = False,
) -> Wanted:
    """What is asked for, checked."""
    from netgrain.data.labels import checked_target
    from netgrain.data.wanted import Wanted

    for name, count in (("limit", limit), ("size", size)):
        if count is not None:
            whole(name, count, 1)
    checked_target(target)
    limits = (limit, limit if test else None)
    return Wanted(label=label, target=target, size=size, limits=limits, seed=seed, strict=strict, test=test)


def _parts(source: str | Path, wanted: Wanted, data_dir: str | Path | None, download: bool) -> list[Dataset]:
    """The training part of a named set, a file or a folder, and the test part where it is wanted and there."""
    if (format_ := format_of(source)) is not None:
        return read_parts(format_, source, wanted)
    from netgrain.data.images import load_split

    wanted.refuse_label(f"{source} is a set of images with labels of its own")
    split = load_split(
        str(source),
        data_dir,
        download=download,
        standardise=False,
        size=wanted.size,
        limit=wanted.limits[0],
        seed=wanted.seed,
    )
    return [wanted.meant(part) for part in ((split.train, split.test) if wanted.test else (split.train,))]
