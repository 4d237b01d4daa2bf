"""The command `netgrain theory`: every statement of the paper, measured."""

from __future__ import annotations

import math
import sys
from contextlib import nullcontext, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from netgrain.cli.parsing import as_text, check_folder, one_sentence_errors

if TYPE_CHECKING:
    from netgrain.experiments.theory.statements import Statement

FILE_WIDTH = 170  # columns of the table where the output is not a terminal

EXAMPLES = """  netgrain theory
  netgrain theory theorem-3.1 --scale laptop --data-dir data
  netgrain theory --scale laptop --out out/theory
  netgrain theory conjecture-1-sign --json

\b
NAME is one of
  linear-regression, theorem-3.1, theorem-3.2, conjecture-1, conjecture-1-sign, conjecture-2, proposition-a1,
  theorem-a2, theorem-a3, corollary-a4, example-a10, lemma-a5, lemma-a6, lemma-a7, moments"""


def theory(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="One statement, see below; all of them if not given.")
    ] = None,
    scale: Annotated[
        str,
        typer.Option(metavar="SCALE", help="smoke (half a minute, synthetic data) or laptop (five minutes, CIFAR-2)."),
    ] = "smoke",
    seed: Annotated[int, typer.Option(metavar="SEED", help="The same seed gives the same result.")] = 0,
    data_dir: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Where CIFAR-10 is; synthetic images if it is not found.", show_default=False),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Write fig7.png, fig15.png and theory.json there.", show_default=False),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")] = False,
) -> None:
    """Measure the theorems, conjectures, lemmas and examples of the paper, and say which hold.

    Each number stands beside what the paper prints and what is predicted here; docs/theory.md derives the latter.
    """
    with one_sentence_errors(), redirect_stdout(sys.stderr) if as_json else nullcontext():
        from netgrain.experiments.theory.measuring import measure_statements

        if out is not None:
            check_folder(out)
        found = measure_statements(name, scale, seed, data_dir=data_dir)
        written = [] if out is None else _write(found, scale, seed, data_dir, out)
    if as_json:
        typer.echo(as_text([s.as_dict() for s in found]))
        return
    _print(found)
    for path in written:
        typer.echo(f"written: {path}")


def _write(found: list[Statement], scale: str, seed: int, data_dir: Path | None, out: Path) -> list[Path]:
    """Everything is made first and written last."""
    from netgrain.experiments.theory import figures, theorems
    from netgrain.experiments.theory.statements import Job
    from netgrain.geometry.plots import png
    from netgrain.runtime.files import write_whole
    from netgrain.runtime.threads import one_thread

    job = Job(scale == "laptop", seed, None if data_dir is None else str(data_dir))
    with one_thread():
        contents = {
            "fig7.png": png(figures.figure_7(figures.curves(job))),
            "fig15.png": png(figures.figure_15(theorems.example_geometry(seed))),
            "theory.json": (as_text([s.as_dict() for s in found]) + "\n").encode(),
        }
    return [write_whole(out / file, content) for file, content in contents.items()]


def _print(found: list[Statement]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for column in ("statement", "measured", "predicted", "paper prints", "paper", "corrected"):
        table.add_column(column, no_wrap=column in ("paper", "corrected"))
    before = ""
    for s in found:
        if s.name != before:
            table.add_row(Text(s.name, style="bold"))
            before = s.name
        predicted = "" if s.predicted is None else f"{s.predicted:.4g}"
        table.add_row(
            Text("  " + s.quantity),
            Text(_measured(s)),
            Text(predicted),
            Text(s.printed),
            Text(s.paper or "–"),
            Text(s.corrected or "–"),
        )
    Console(highlight=False, width=None if sys.stdout.isatty() else FILE_WIDTH).print(table)
    notes = {s.note: s.quantity for s in found if s.note}
    typer.echo("\nnotes")
    for note, quantity in notes.items():
        typer.echo(f"  {quantity}: {note}")
    failed = sum(s.paper == "fails" for s in found)
    wrong = sum(s.corrected == "fails" for s in found)
    typer.echo(
        f"\n{len(found)} numbers in {sum(s.seconds for s in found):.0f} s: {failed} contradict what the paper prints, "
        f"{wrong} contradict what is predicted here. Derivations: docs/theory.md"
    )


def _measured(s: Statement) -> str:
    if s.measured.stderr == 0:
        return f"{s.measured.value:.4g}"
    if not math.isfinite(s.measured.value):
        return "too few members"
    return s.measured.with_error
