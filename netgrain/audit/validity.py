"""How well the difficulty of an audit ranked what networks really learnt, from a reproduction run."""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import Any


@cache
def validity() -> dict[str, Any] | None:
    """rho, its 95 % interval, the number of seeds and where it was measured; None where nothing was measured."""
    file = files("netgrain.audit") / "validity.json"
    return dict(json.loads(file.read_text())) if file.is_file() else None
