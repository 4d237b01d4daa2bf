"""The one door to labelled samples: a name, a file, a folder, tensors or a torch data set.

Every way in ends in the same checks, in the one standardisation, and in a `Dataset` whose note says what was done to
the numbers. Nothing is unpickled. A new format of files is one module with a function `read_samples` and one row of
FORMATS. torch is loaded when something is read, so a wrong name is answered at once.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from netgrain.data.names import WRITTEN, set_named
from netgrain.runtime.arguments import whole
from netgrain.runtime.errors import NetgrainError
from netgrain.runtime.files import is_file

if TYPE_CHECKING:
    from netgrain.data.dataset import Dataset


@dataclass(frozen=True)
class Format:
    """A kind of file or folder: how people write it, how it is told apart, and the module that reads it.

    The module has read_samples(path, *, strict, size, limit, seed) → Dataset.
    """

    written: str
    module: str
    suffix: str | None = None  # None: a folder
    content: str = ""


FORMATS = (
    Format("FILE.npz", "netgrain.data.arrays", ".npz", "X and y"),
    Format("FOLDER/", "netgrain.data.folders", None, "images by class"),
)
HOW_TO_SAVE = "save your data with np.savez('my.npz', X=X, y=y) and pass my.npz"


def kinds() -> str:
    """What a source may be, for help texts and errors.

    >>> kinds()
    'digits, mnist, fashion-mnist, cifar10, cifar2, FILE.npz (X and y) or FOLDER/ (images by class)'
    """
    *first, last = [*WRITTEN, *(f"{f.written} ({f.content})" for f in FORMATS)]
    return f"{', '.join(first)} or {last}"


def load(
    source: Any,
    y: Any = None,
    *,
    standardise: bool = True,
    size: int | None = None,
    limit: int | None = None,
    seed: int = 0,
    classes: Sequence[str] | None = None,
    features: Sequence[str] | None = None,
    strict: bool = False,
    data_dir: str | Path | None = None,
    download: bool = False,
) -> Dataset:
    """Labelled samples from a name, a file, a folder, tensors or a torch data set.

    Parameters
    ----------
    source : str, Path, Tensor, array or data set
        One of

        - the name of a set, ``"digits"``, ``"mnist"``, ``"fashion-mnist"``, ``"cifar10"`` or
          ``"cifar2"``: its training part (`load_split` has both parts);
        - ``FILE.npz`` with arrays ``X`` and ``y``, perhaps with names ``features``;
        - ``FOLDER/`` with one folder of images for each class;
        - samples of shape (samples, *shape) with labels in `y`;
        - a torchvision-style data set of pairs (image, label).
    y : array of shape (samples,), optional
        Labels of samples in memory: whole numbers or words.
    standardise : bool, default True
        Give every channel of images and every feature of tables mean 0 and standard deviation 1.
    size : int, optional
        Average images over equal areas to size × size.
    limit : int, optional
        Keep that many random samples.
    seed : int, default 0
        Chooses the samples of `limit`, and runs the random transforms of a data set.
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
        Samples of shape (samples, *shape); its note says what was done to the numbers.

    Raises
    ------
    NetgrainError
        If the source is not found or damaged, or its numbers are no samples with labels.

    Warns
    -----
    GrainWarning
        If features are constant, or images could not be read.

    See Also
    --------
    load_split : Training and test part of a named set.
    standardised : The standardisation by itself.

    Examples
    --------
    >>> load([[1.0, 5.0], [3.0, 9.0]], ["dog", "cat"]).X.tolist()
    [[-1.0, -1.0], [1.0, 1.0]]
    >>> load("digits", limit=100, standardise=False)
    Dataset(digits train, 100 samples of shape (1, 8, 8), ..., pixels divided by 16)
    """
    from netgrain.data.dataset import resized, standardised
    from netgrain.data.in_memory import dataset_from, dataset_of

    for name, count in (("limit", limit), ("size", size)):
        if count is not None:
            whole(name, count, 1)
    if isinstance(source, str | Path):
        format_ = format_of(source)
        if format_ is None:
            from netgrain.data.images import load_split

            return load_split(
                str(source),
                data_dir,
                download=download,
                standardise=standardise,
                size=size,
                limit=limit,
                seed=seed,
            ).train
        reader = importlib.import_module(format_.module)
        data: Dataset = reader.read_samples(_path(source), strict=strict, size=size, limit=limit, seed=seed)
    else:
        if y is None:
            data = dataset_from(source, limit=limit, seed=seed)
        else:
            data = dataset_of(source, y, classes=classes, features=features, limit=limit, seed=seed)
        data = data if size is None else resized(data, size)
    return standardised(data) if standardise else data


def format_of(source: str | Path) -> Format | None:
    """The format of a file or folder, or None for the name of a set; anything else is refused in one sentence."""
    path, expected = _path(source), f"expected {kinds()}"
    if _is_folder(path):
        return next(f for f in FORMATS if f.suffix is None)
    if str(source).endswith("/"):
        raise NetgrainError(f"there is no folder {path}; {expected}.")
    for known in FORMATS:
        if known.suffix == path.suffix.casefold():
            if not is_file(path):
                raise NetgrainError(f"{path} is not a file; {HOW_TO_SAVE}.")
            return known
    if is_file(path) or path.suffix:
        found = f"{path.suffix or 'this kind of'} files are not read" if is_file(path) else f"{path} is not a file"
        raise NetgrainError(f"{found}: {HOW_TO_SAVE} ({expected}).")
    set_named(str(source))
    return None


def _path(source: str | Path) -> Path:
    try:
        return Path(source).expanduser()
    except RuntimeError:  # nobody's home
        return Path(source)


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except (OSError, ValueError):  # a name too long for one, or with a zero byte
        return False
