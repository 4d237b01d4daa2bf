"""Versions of what computed a result."""

from __future__ import annotations

import platform

__version__ = "0.1.0"


def versions() -> dict[str, str]:
    import torch  # late: netgrain --version does not wait for it

    return {"netgrain": __version__, "torch": torch.__version__, "python": platform.python_version()}
