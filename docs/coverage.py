"""What the sources state and where netgrain does it: writes docs/coverage.md. Run it with `make pages`.

The rows are in docs/coverage.toml. Experiments and the statements of `netgrain theory` name the rows they settle
themselves (`COVERS`); a row names other places in the package in `where`, and what it still lacks in `short`. Every
place is looked up, so a name that does not exist is an error, and a row without any place is missing.
"""

from __future__ import annotations

import importlib
import tomllib
from pathlib import Path
from typing import Any

from netgrain.experiments.registry import everything
from netgrain.experiments.theory.measuring import COMPLEXITY_COVERS, COVERS

DOCS = Path(__file__).parent
DONE, PARTLY, MISSING = "✓", "~", "✗"


def page() -> str:
    rows = tomllib.loads((DOCS / "coverage.toml").read_text(encoding="utf-8"))["row"]
    settle = {f"run {name}": experiment.covers for name, experiment in everything().items()}
    settle |= {f"theory {name}": covers for name, covers in (COVERS | COMPLEXITY_COVERS).items()}
    strays = {n for covers in settle.values() for n in covers} - {row["number"] for row in rows}
    if strays:
        raise SystemExit(f"no such row in docs/coverage.toml: {sorted(strays)}")
    lines = [_line(row, [place for place, covers in settle.items() if row["number"] in covers]) for row in rows]
    count = {mark: sum(line[4] == mark for line in lines) for mark in (DONE, PARTLY, MISSING)}
    opening = (
        "# Coverage of the sources\n\n"
        "Every statement of the poster, the paper, the slides and the page that netgrain implements, one row each: "
        f"where it is done, and what it still lacks. Of {len(rows)} rows, done ({DONE}): {count[DONE]}, in part "
        f"({PARTLY}): {count[PARTLY]}, missing ({MISSING}): {count[MISSING]}. Done means that it exists as "
        "the source says it and is judged, not that the source is right: verdicts are in "
        "[reproduction.md](reproduction.md) and [theory.md](theory.md). `docs/coverage.py` makes this page from the "
        "experiments themselves and looks up every place it names.\n\n"
    )
    head = ["| # | statement | source | where | | lacks |", "| ---: | --- | --- | --- | --- | --- |"]
    return opening + "\n".join([*head, *("| " + " | ".join(line) + " |" for line in lines)]) + "\n"


def _line(row: dict[str, Any], settled_by: list[str]) -> list[str]:
    places = [*settled_by, *(_existing(place) for place in row.get("where", []))]
    short = row.get("short", "")
    mark = MISSING if not places else PARTLY if short else DONE
    what, short = (text.replace("|", "\\|") for text in (row["what"], short))
    return [str(row["number"]), what, row["source"], ", ".join(f"`{p}`" for p in places) or "–", mark, short]


def _existing(written: str) -> str:
    """A dotted name below netgrain, looked up."""
    parts = ["netgrain", *written.split(".")]
    for i in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:i]))
        except ModuleNotFoundError:
            continue
        for part in parts[i:]:
            found = getattr(found, part)
        return written
    raise SystemExit(f"no such place: {written}")


if __name__ == "__main__":
    (DOCS / "coverage.md").write_text(page(), encoding="utf-8")
