"""Arrays from a user's .npy or .npz file, without unpickling anything."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from netgrain.runtime.errors import NetgrainError
from netgrain.runtime.files import is_file

MOST_BYTES = 2**33  # of one array in an archive, and of all images of a folder


def read_arrays(path: Path, *names: str) -> list[Tensor]:
    """The named arrays of an .npz file; a single one may also come alone, as .npy."""
    expected = f".npz with {' and '.join(names)}" + (", or .npy" if len(names) == 1 else "")
    if not is_file(path):
        raise NetgrainError(f"{path} is not a file; expected {expected}.")
    try:
        with path.open("rb") as file:
            content = np.load(file, allow_pickle=False)
            if isinstance(content, np.ndarray) and len(names) == 1:
                return [torch.from_numpy(np.ascontiguousarray(content))]
            if isinstance(content, np.ndarray) or not set(names) <= set(content.files):
                found = "one array" if isinstance(content, np.ndarray) else f"arrays {', '.join(content.files)}"
                raise NetgrainError(f"{path} has {found}; expected {' and '.join(names)}.")
            check_sizes(content, path)
            return [torch.from_numpy(np.ascontiguousarray(content[name])) for name in names]
    except NetgrainError:
        raise
    except Exception as e:  # of NumPy's header, the archive and its four compressions: many kinds
        raise NetgrainError(f"{path} cannot be read as numbers ({e}); expected {expected}.") from e


def check_sizes(archive: Any, path: Path) -> None:
    """Refuse an .npz file whose arrays unpack to more than MOST_BYTES, before anything is unpacked."""
    for member in archive.zip.infolist():
        if member.file_size > MOST_BYTES:
            raise NetgrainError(
                f"{path} has an array '{member.filename.removesuffix('.npy')}' of {member.file_size / 2**30:.3g} GiB; "
                f"expected at most {MOST_BYTES / 2**30:.0f} GiB: save fewer samples, or with fewer digits."
            )
