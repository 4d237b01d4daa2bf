"""The command `netgrain reproduce`: every experiment, one scorecard."""

from __future__ import annotations

import sys
from contextlib import nullcontext, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from netgrain.cli import plan as plan_command
from netgrain.cli.parsing import BAD_INPUT, Json, as_text, check_folder, one_sentence_errors
from netgrain.cli.plan import DryRun

if TYPE_CHECKING:
    from netgrain.experiments.reproduction import Reproduction

FILE_WIDTH = 170  # columns of the table where the output is not a terminal

EXAMPLES = """  netgrain reproduce
  netgrain reproduce --only fig4 --only fig10
  netgrain reproduce --only geometry --data-dir data
  netgrain reproduce --resume
  netgrain reproduce --scale smoke --out out/try
  netgrain reproduce --engine ray --address 10.0.0.1:6379 --workers 64"""


def reproduce(
    scale: Annotated[
        str, typer.Option(metavar="SCALE", help="smoke (minutes), laptop (within 45 minutes), or paper (for a GPU).")
    ] = "laptop",
    only: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="An experiment of `netgrain list`, or geometry, complexity, equivariant; may be given again.",
            show_default=False,
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="The folder; default out/reproduction-SCALE.", show_default=False),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Finish what is in that folder; compute only what is missing.")
    ] = False,
    data_dir: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Where CIFAR-10 and MNIST are; digits stand in where not found.", show_default=False
        ),
    ] = None,
    dry_run: DryRun = False,
    as_json: Json = False,
) -> None:
    """Run every experiment on the three works, then print one scorecard: claim, paper, ours ± error, verdict.

    Writes reproduction.md and reproduction.json into the folder. Killed at any moment, it goes on with --resume to the
    same scorecard. An experiment whose data are missing is skipped and named, and the exit code is 2; with the data
    there, --resume runs it.
    """
    folder = out or Path("out") / f"reproduction-{scale}"
    kept = f"what was finished is in {folder}; go on with --resume"
    with one_sentence_errors(kept), redirect_stdout(sys.stderr) if as_json else nullcontext():
        from netgrain.data.images import looking_in
        from netgrain.experiments.reproduction import chosen
        from netgrain.experiments.reproduction import reproduce as run
        from netgrain.experiments.scorecard import scorecard
        from netgrain.runtime.engine_in_use import current
        from netgrain.runtime.files import write_whole
        from netgrain.runtime.processes import Processes

        names = chosen(only)  # names first, before a folder is made
        check_folder(folder)
        with looking_in(data_dir):
            if dry_run:
                planned = plan_command.of_experiments(names, scale, {name: folder / name for name in names})
            else:
                found = run(scale, folder, only=only, engine=current() or Processes(), resume=resume, say=_say)
                document = as_text(found.as_list())
                write_whole(folder / "reproduction.json", (document + "\n").encode())
                write_whole(folder / "reproduction.md", scorecard(found).encode())
    if dry_run:
        plan_command.show(planned, folder, as_json)
        return
    if as_json:
        typer.echo(document)
    elif found.claims:
        _print(found)
    if found.skipped:
        _say(_not_run(found))
        raise typer.Exit(BAD_INPUT)


def _say(line: str) -> None:
    typer.echo(line, err=True)


def _not_run(found: Reproduction) -> str:
    """One line about what is missing, each problem once, and how to go on."""
    names: dict[str, list[str]] = {}
    for part in found.skipped:
        names.setdefault(part.problem, []).append(part.name)
    why = " ".join(
        f"{', '.join(those)} {'was' if len(those) == 1 else 'were'} not run: {p}" for p, those in names.items()
    )
    return f"error: {why} Then run the same command with --resume."


def _print(found: Reproduction) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for column in ("experiment", "claim", "paper", "ours", "verdict"):
        table.add_column(column)
    for name, c in found.claims:
        ours = f"{c.value:.4g} ± {c.stderr:.2g}"
        table.add_row(Text(name), Text(c.name), Text(c.paper), Text(ours), Text(c.verdict))
    Console(highlight=False, width=None if sys.stdout.isatty() else FILE_WIDTH).print(table)
    claims = [c for _, c in found.claims]
    count = {v: sum(c.verdict == v for c in claims) for v in ("holds", "undecided", "fails")}
    typer.echo(
        f"\n{len(claims)} claims: {count['holds']} hold, {count['undecided']} are undecided, {count['fails']} fail. "
        f"{found.wall / 60:.1f} minutes.\nthe scorecard is in {found.folder / 'reproduction.md'}"
    )
