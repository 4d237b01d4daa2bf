"""The command `netgrain theory`: every statement of the paper, measured."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from netgrain.cli.options import Seed, argument, option, out_folder
from netgrain.cli.output import Answer, plain_table
from netgrain.cli.writing import json_file, write_all

if TYPE_CHECKING:
    from rich.table import Table

    from netgrain.experiments.theory.statements import Statement

EXAMPLES = """  netgrain theory
  netgrain theory theorem-3.1 --scale laptop --data-dir data
  netgrain theory --scale laptop --out out/theory
  netgrain theory conjecture-1-sign --json
  netgrain theory --work complexity

\b
NAME is one of
  mean-gradient, linear-regression, theorem-3.1, theorem-3.2, conjecture-1, conjecture-1-sign, conjecture-2,
  proposition-a1, theorem-a2, theorem-a3, corollary-a4, corollary-a4-network, curvature, example-a10, lemma-a5,
  lemma-a6, lemma-a7, moments
or, with --work complexity, one of
  parameter-norm, spectral-norm, lipschitz-below, product-bound, transfer-inequality, implicit-gradient, input-noise,
  initialisation, softmax, certificates, arc-length"""


def theory(
    name: Annotated[str | None, argument("NAME", "One statement, see below (default: all of them).")] = None,
    scale: Annotated[
        str,
        option(
            "SCALE",
            "smoke (half a minute, synthetic data), laptop (ten minutes, CIFAR-2) or paper (hours, 3 × 32 × 32).",
        ),
    ] = "smoke",
    work: Annotated[
        str,
        option("WORK", "geometry (theorems of the paper on inductive biases) or complexity (bounds and how tight)."),
    ] = "geometry",
    seed: Seed = 0,
    data_dir: Annotated[
        Path | None,
        option("DIR", "Folder that holds CIFAR-10 (default: synthetic images if it is not found)."),
    ] = None,
    out: Annotated[
        Path | None, out_folder("Write theory.json there, and fig7.png and fig15.png of the work geometry.", ".json")
    ] = None,
) -> Answer:
    """Measure the theorems, conjectures, lemmas and examples of the paper, and say which hold.

    Prints each number beside the value in the paper and the value derived in docs/theory.md.
    """
    from netgrain.experiments.theory.measuring import measure_statements

    found = measure_statements(name, scale, seed, work=work, data_dir=data_dir)
    files = partial(_json, found) if work == "complexity" else partial(_files, found, scale, seed, data_dir)
    written = write_all(out, files)
    return Answer(
        [s.as_dict() for s in found], _shown(found, "complexity" if work == "complexity" else "theory"), written=written
    )


def _json(found: list[Statement]) -> dict[str, bytes]:
    return {"theory.json": json_file([s.as_dict() for s in found])}


def _files(found: list[Statement], scale: str, seed: int, data_dir: Path | None) -> dict[str, bytes]:
    from netgrain.experiments.theory import figures, theorems
    from netgrain.experiments.theory.statements import Job
    from netgrain.geometry.plots import png

    job = Job(scale, seed, None if data_dir is None else str(data_dir))
    return {
        "fig7.png": png(figures.figure_7(figures.curves(job))),
        "fig15.png": png(figures.figure_15(theorems.example_geometry(seed))),
        **_json(found),
    }


def _shown(found: list[Statement], page: str) -> Iterator[str | Table]:
    from netgrain.experiments.claims import BASES

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
    bases = ", ".join(f"{sum(s.basis == b for s in found)} {words}" for b, words in BASES.items())
    yield f"\nwhat they rest on: {bases}"
    yield (
        f"\n{len(found)} numbers in {sum(s.seconds for s in found):.0f} s: {failed} contradict what the paper prints, "
        f"{wrong} contradict what is predicted here. Derivations: docs/{page}.md"
    )


def _measured(s: Statement) -> str:
    if s.measured.stderr == 0:
        return f"{s.measured.value:.4g}"
    if not math.isfinite(s.measured.value):
        return "too few members"
    return s.measured.with_error
