"""How well the difficulty of an audit ranked what networks really learnt, from a reproduction run.

validity.json is made from reproduction.json by `python -m netgrain.audit.validity reproduction.json`.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from netgrain.errors import NetgrainError
from netgrain.files import write_whole

CLAIM = ": difficulty of the audit"
FILE = "validity.json"


@cache
def validity() -> dict[str, Any] | None:
    """rho, its 95 % interval, the number of seeds and where it was measured; None where nothing was measured."""
    file = files("netgrain.audit") / FILE
    return dict(json.loads(file.read_text())) if file.is_file() else None


def from_claims(claims: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The mean rank correlation over networks and labellings, with the error of that mean."""
    rows = [c for c in claims if c["claim"].endswith(CLAIM) and c["ours"] is not None]
    if not rows:
        raise NetgrainError("no claim about the difficulty of the audit was found; expected a reproduction with fig10.")
    rho = sum(c["ours"] for c in rows) / len(rows)
    error = math.sqrt(sum((c["stderr"] or 0.0) ** 2 for c in rows)) / len(rows)
    names = sorted({c["claim"].partition(",")[0] for c in rows})
    kinds = sorted({c["claim"].removesuffix(CLAIM).partition(", ")[2] for c in rows})
    tasks = f"labels planted along single directions ({', '.join(kinds)}; {' and '.join(names)}, netgrain reproduce)"
    return {
        "rho": round(rho, 3),
        "low": round(max(rho - 1.96 * error, -1.0), 3),
        "high": round(min(rho + 1.96 * error, 1.0), 3),
        "n": sum(c["n"] for c in rows),
        "where": tasks,
    }


def main(path: str) -> Path:
    found = from_claims(json.loads(Path(path).read_text()))
    validity.cache_clear()
    return write_whole(Path(__file__).parent / FILE, (json.dumps(found, indent=2) + "\n").encode())


if __name__ == "__main__":
    main(sys.argv[1])
