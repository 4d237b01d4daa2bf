"""Arrays from a user's .npy or .npz file, without unpickling anything."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from netgrain.errors import NetgrainError


def read_arrays(path: Path, *names: str) -> list[Tensor]:
    """The named arrays of an .npz file; a single one may also come alone, as .npy."""
    expected = f".npz with {' and '.join(names)}" + (", or .npy" if len(names) == 1 else "")
    if not path.is_file():
        raise NetgrainError(f"{path} is not a file; expected {expected}.")
    try:
        with path.open("rb") as file:
            content = np.load(file, allow_pickle=False)
            if isinstance(content, np.ndarray) and len(names) == 1:
                return [torch.from_numpy(np.ascontiguousarray(content))]
            if isinstance(content, np.ndarray) or not set(names) <= set(content.files):
                found = "one array" if isinstance(content, np.ndarray) else f"arrays {', '.join(content.files)}"
                raise NetgrainError(f"{path} has {found}; expected {' and '.join(names)}.")
            return [torch.from_numpy(np.ascontiguousarray(content[name])) for name in names]
    except (ValueError, OSError, EOFError, TypeError, zipfile.BadZipFile) as e:
        if isinstance(e, NetgrainError):
            raise
        raise NetgrainError(f"{path} cannot be read as numbers ({e}); expected {expected}.") from e
