"""The commands about experiments: list, run, claims, reproduce."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from netgrain.cli import plan
from netgrain.cli.options import DataDir, DryRun, Resume, Scale
from netgrain.cli.output import Answer, console, json_file, on_interrupt, plain_table, print_rows, write_all
from netgrain.cli.parsing import check_folder

if TYPE_CHECKING:
    from netgrain.experiments.claims import Claim
    from netgrain.experiments.reproduction import Reproduction

LIST_EXAMPLES = "  netgrain list"
RUN_EXAMPLES = """  netgrain run fig9
  netgrain run fig1 --scale smoke --out out/try
  netgrain run fig1 --resume
  netgrain run fig10 --dry-run
  netgrain run fig10 --engine ray --address 10.0.0.1:6379 --workers 64"""
CLAIMS_EXAMPLES = "  netgrain claims out/fig1-laptop"
REPRODUCE_EXAMPLES = """  netgrain reproduce
  netgrain reproduce --only fig4 --only fig10
  netgrain reproduce --only geometry --data-dir data
  netgrain reproduce --only complexity --only equivariant
  netgrain reproduce --resume
  netgrain reproduce --scale smoke --out out/try
  netgrain reproduce --engine ray --address 10.0.0.1:6379 --workers 64"""


def list_experiments() -> Answer:
    """Show the experiments that can be run."""
    from netgrain.experiments import registry

    found = {name: registry.title(name) for name in registry.names()}
    return Answer(found, lambda: print_rows(list(found.items())))


def run(
    experiment: Annotated[str, typer.Argument(metavar="EXPERIMENT", help="A name from `netgrain list`.")],
    scale: Scale = "laptop",
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="The run folder (default: out/EXPERIMENT-SCALE).", show_default=False),
    ] = None,
    resume: Resume = False,
    data_dir: DataDir = None,
    dry_run: DryRun = False,
) -> Answer:
    """Run an experiment of the paper into a folder, draw its figure and judge its claims."""
    folder = out or Path("out") / f"{experiment}-{scale}"
    from netgrain.data.images import looking_in
    from netgrain.experiments.registry import preset, run_experiment
    from netgrain.runtime.engine_in_use import current
    from netgrain.runtime.processes import Processes

    preset(experiment, scale)  # names first, before a folder is made
    check_folder(folder)
    with on_interrupt(_kept(folder)), looking_in(data_dir):
        if dry_run:
            return plan.of_experiments([experiment], scale, {experiment: folder}, folder)
        finished = run_experiment(experiment, scale, folder, engine=current() or Processes(), resume=resume)
    return _judged(finished.claims, folder)


def claims(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A folder written by `netgrain run`.")],
) -> Answer:
    """Judge the claims of a finished run again and redraw its figure, from its folder alone."""
    from netgrain.experiments.registry import conclude_again

    return _judged(conclude_again(folder).claims, folder)


def reproduce(
    scale: Annotated[
        str, typer.Option(metavar="SCALE", help="smoke (minutes), laptop (within 45 minutes), or paper (for a GPU).")
    ] = "laptop",
    only: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="An experiment of `netgrain list`, or a study: geometry, complexity, equivariant; may be given again.",
            show_default=False,
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="The folder (default: out/reproduction-SCALE).", show_default=False),
    ] = None,
    resume: Resume = False,
    data_dir: DataDir = None,
    dry_run: DryRun = False,
) -> Answer:
    """Run every experiment on the three works, then print one scorecard: claim, paper, ours ± error, verdict.

    Writes reproduction.md and reproduction.json into the folder. Killed at any moment, it continues with --resume and
    ends in the same scorecard. An experiment whose data are missing is skipped and named, and the exit code is 2;
    with the data there, --resume runs it.
    """
    folder = out or Path("out") / f"reproduction-{scale}"
    from netgrain.data.images import looking_in
    from netgrain.experiments.reproduction import chosen
    from netgrain.experiments.reproduction import reproduce as run_all
    from netgrain.experiments.scorecard import scorecard
    from netgrain.runtime.engine_in_use import current
    from netgrain.runtime.processes import Processes

    names = chosen(only)  # names first, before a folder is made
    check_folder(folder)
    with on_interrupt(_kept(folder)), looking_in(data_dir):
        if dry_run:
            return plan.of_experiments(names, scale, {name: folder / name for name in names}, folder)
        say = partial(typer.echo, err=True)
        found = run_all(scale, folder, only=only, engine=current() or Processes(), resume=resume, say=say)
        document = found.as_list()
        files = {"reproduction.json": json_file(document), "reproduction.md": scorecard(found).encode()}
        write_all(files, folder)
    return Answer(document, partial(_print, found), error=_not_run(found) if found.skipped else None)


def _kept(folder: Path) -> str:
    return f"what was finished is in {folder}; resume with --resume"


def _judged(found: list[Claim], folder: Path) -> Answer:
    def show() -> None:
        rows = []
        for c in found:
            remarks = "; ".join(filter(None, (c.note, c.needs and f"to decide it: {c.needs}")))
            note = f" [{remarks}]" if remarks else ""
            ours = f"{c.value:.4g} ± {c.stderr:.2g} (n = {c.n})"
            rows.append((c.verdict, f"{c.name}: {c.statement}{note}", c.paper, ours))
        console().print(plain_table(("verdict", "claim", "paper", "ours"), rows))
        typer.echo(f"\nlook at {folder / 'figure.png'}; the numbers are in {folder / 'claims.json'}")

    return Answer({"folder": str(folder), "claims": [c.as_dict() for c in found]}, show)


def _not_run(found: Reproduction) -> str:
    """One line about what is missing, each problem once, and how to go on."""
    names: dict[str, list[str]] = {}
    for part in found.skipped:
        names.setdefault(part.problem, []).append(part.name)
    why = " ".join(
        f"{', '.join(those)} {'was' if len(those) == 1 else 'were'} not run: {p}" for p, those in names.items()
    )
    return f"{why} Then run the same command with --resume."


def _print(found: Reproduction) -> None:
    if not found.claims:
        return
    rows = [(name, c.name, c.paper, f"{c.value:.4g} ± {c.stderr:.2g}", c.verdict) for name, c in found.claims]
    console().print(plain_table(("experiment", "claim", "paper", "ours", "verdict"), rows))
    claims = [c for _, c in found.claims]
    count = {v: sum(c.verdict == v for c in claims) for v in ("holds", "undecided", "fails")}
    typer.echo(
        f"\n{len(claims)} claims: {count['holds']} hold, {count['undecided']} are undecided, {count['fails']} fail. "
        f"{found.wall / 60:.1f} minutes.\nthe scorecard is in {found.folder / 'reproduction.md'}"
    )
