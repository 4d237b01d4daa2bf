"""The command `netgrain theory`: every statement of the paper, measured."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from netgrain.cli.options import Seed, argument, option, out_folder
from netgrain.cli.output import Answer, json_file, plain_table, write_all

if TYPE_CHECKING:
    from rich.table import Table

    from netgrain.experiments.theory.statements import Statement

EXAMPLES = """  netgrain theory
  netgrain theory theorem-3.1 --scale laptop --data-dir data
  netgrain theory --scale laptop --out out/theory
  netgrain theory conjecture-1-sign --json

\b
NAME is one of
  linear-regression, theorem-3.1, theorem-3.2, conjecture-1, conjecture-1-sign, conjecture-2, proposition-a1,
  theorem-a2, theorem-a3, corollary-a4, example-a10, lemma-a5, lemma-a6, lemma-a7, moments"""


def theory(
    name: Annotated[str | None, argument("NAME", "One statement, see below (default: all of them).")] = None,
    scale: Annotated[
        str,
        option("SCALE", "smoke (half a minute, synthetic data) or laptop (five minutes, CIFAR-2)."),
    ] = "smoke",
    seed: Seed = 0,
    data_dir: Annotated[
        Path | None,
        option("DIR", "Folder that holds CIFAR-10 (default: synthetic images if it is not found)."),
    ] = None,
    out: Annotated[Path | None, out_folder("Write fig7.png, fig15.png and theory.json there.")] = None,
) -> Answer:
    """Measure the theorems, conjectures, lemmas and examples of the paper, and say which hold.

    Each number stands beside what the paper prints and what is predicted here; docs/theory.md derives the latter.
    """
    from netgrain.experiments.theory.measuring import measure_statements

    found = measure_statements(name, scale, seed, data_dir=data_dir)
    written = write_all(out, partial(_files, found, scale, seed, data_dir))
    return Answer([s.as_dict() for s in found], _shown(found), written=written)


def _files(found: list[Statement], scale: str, seed: int, data_dir: Path | None) -> dict[str, bytes]:
    from netgrain.experiments.theory import figures, theorems
    from netgrain.experiments.theory.statements import Job
    from netgrain.geometry.plots import png

    job = Job(scale == "laptop", seed, None if data_dir is None else str(data_dir))
    return {
        "fig7.png": png(figures.figure_7(figures.curves(job))),
        "fig15.png": png(figures.figure_15(theorems.example_geometry(seed))),
        "theory.json": json_file([s.as_dict() for s in found]),
    }


def _shown(found: list[Statement]) -> Iterator[str | Table]:
    rows: list[tuple[str, ...]] = []
    before = ""
    for s in found:
        if s.name != before:
            rows.append((s.name,))
        before = s.name
        predicted = "" if s.predicted is None else f"{s.predicted:.4g}"
        rows.append(("  " + s.quantity, _measured(s), predicted, s.printed, s.paper or "–", s.corrected or "–"))
    columns = ("statement", "measured", "predicted", "paper prints", "paper", "corrected")
    yield plain_table(columns, rows, no_wrap=("paper", "corrected"))
    notes = {s.note: s.quantity for s in found if s.note}
    yield "\nnotes"
    for note, quantity in notes.items():
        yield f"  {quantity}: {note}"
    failed = sum(s.paper == "fails" for s in found)
    wrong = sum(s.corrected == "fails" for s in found)
    yield (
        f"\n{len(found)} numbers in {sum(s.seconds for s in found):.0f} s: {failed} contradict what the paper prints, "
        f"{wrong} contradict what is predicted here. Derivations: docs/theory.md"
    )


def _measured(s: Statement) -> str:
    if s.measured.stderr == 0:
        return f"{s.measured.value:.4g}"
    if not math.isfinite(s.measured.value):
        return "too few members"
    return s.measured.with_error
