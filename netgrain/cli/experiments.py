"""The commands about experiments: list, run, claims, reproduce."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from netgrain.cli import plan
from netgrain.cli.options import DataDir, DryRun, Resume, Scale, argument, option, out_folder
from netgrain.cli.output import Answer, on_interrupt, plain_table
from netgrain.cli.parsing import engine_of_the_run
from netgrain.cli.writing import check_folder, json_file, write_all

if TYPE_CHECKING:
    from rich.table import Table

    from netgrain.experiments.claims import Claim
    from netgrain.experiments.reproduction import Reproduction
    from netgrain.runtime.units import Engine

LIST_EXAMPLES = "  netgrain list"
RUN_EXAMPLES = """  netgrain run fig9
  netgrain run fig1 --scale smoke --out out/try
  netgrain run fig1 --resume
  netgrain run fig4 --variant code
  netgrain run fig10 --dry-run
  netgrain run validity --scale overnight --engine processes --resume
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
    return Answer(found, [list(found.items())])


def run(
    experiment: Annotated[str, argument("EXPERIMENT", "A name from `netgrain list`.")],
    scale: Scale = "laptop",
    out: Annotated[Path | None, out_folder("The run folder (default: out/EXPERIMENT-SCALE).")] = None,
    resume: Resume = False,
    data_dir: DataDir = None,
    variant: Annotated[
        str | None,
        option(
            "NAME",
            "Settings of the paper's text or of the authors' code, where they differ (default: the experiment's own).",
        ),
    ] = None,
    dry_run: DryRun = False,
) -> Answer:
    """Run an experiment of the paper into a folder, draw its figure and judge its claims."""
    folder = out or Path("out") / "-".join(filter(None, (experiment, scale, variant)))
    from netgrain.experiments.registry import in_variant, preset, run_experiment

    changes = in_variant(experiment, variant)
    preset(experiment, scale, changes)  # names first, before a folder is made
    with _running(folder, data_dir) as engine:
        if dry_run:
            return plan.of_experiments([experiment], scale, {experiment: folder}, folder, changes)
        finished = run_experiment(experiment, scale, folder, engine=engine, resume=resume, changes=changes)
    return _judged(finished.claims, folder)


def claims(
    folder: Annotated[Path, argument("DIR", "A folder written by `netgrain run`.")],
) -> Answer:
    """Judge the claims of a finished run again and redraw its figure, from its folder alone."""
    from netgrain.experiments.registry import conclude_again

    return _judged(conclude_again(folder).claims, folder)


def reproduce(
    scale: Annotated[
        str, option("SCALE", "smoke (minutes), laptop (an hour and a quarter on two cores), or paper (for a GPU).")
    ] = "laptop",
    only: Annotated[
        list[str] | None,
        option(
            "NAME",
            "An experiment of `netgrain list`, or a study: geometry, complexity, equivariant, learnability; may be "
            "given again (default: all but learnability).",
        ),
    ] = None,
    out: Annotated[Path | None, out_folder("The folder (default: out/reproduction-SCALE).")] = None,
    resume: Resume = False,
    data_dir: DataDir = None,
    dry_run: DryRun = False,
) -> Answer:
    """Run every experiment on the three works, then print one scorecard: claim, paper, ours ± error, verdict.

    Writes reproduction.md and reproduction.json into the folder. If it is killed, --resume continues it and ends in the
    same scorecard. If the data of an experiment are missing, the scorecard says so and the exit code is 2; add the data
    and run it again with --resume.
    """
    folder = out or Path("out") / f"reproduction-{scale}"
    from netgrain.experiments.reproduction import chosen
    from netgrain.experiments.reproduction import reproduce as run_all
    from netgrain.experiments.scorecard import scorecard

    names = chosen(only)  # names first, before a folder is made
    with _running(folder, data_dir) as engine:
        if dry_run:
            return plan.of_experiments(names, scale, {name: folder / name for name in names}, folder)
        say = partial(typer.echo, err=True)
        found = run_all(scale, folder, only=only, engine=engine, resume=resume, say=say)
        document = found.as_list()
        files = {"reproduction.json": json_file(document), "reproduction.md": scorecard(found).encode()}
        write_all(folder, lambda: files)
    return Answer(document, _shown(found), error=_not_run(found) if found.skipped else None)


@contextmanager
def _running(folder: Path, data_dir: Path | None) -> Iterator[Engine]:
    """Inside, experiments run into this folder, on the engine that is given."""
    from netgrain.data.images import looking_in

    check_folder(folder)
    with on_interrupt(f"what was finished is in {folder}; resume with --resume"), looking_in(data_dir):
        yield engine_of_the_run()


def _judged(found: list[Claim], folder: Path) -> Answer:
    rows = []
    for c in found:
        remarks = "; ".join(filter(None, (c.note, c.needs and f"to decide it: {c.needs}")))
        note = f" [{remarks}]" if remarks else ""
        rests = c.paper if c.basis == "paper" else "; ".join(filter(None, (f"({c.basis})", c.paper)))
        rows.append((c.verdict, f"{c.name}: {c.statement}{note}", rests, f"{_ours(c)} (n = {c.n})"))
    shown: list[str | Table] = [
        plain_table(("verdict", "claim", "paper", "ours"), rows),
        f"\nlook at {folder / 'figure.png'}; the numbers are in {folder / 'claims.json'}",
    ]
    return Answer({"folder": str(folder), "claims": [c.as_dict() for c in found]}, shown)


def _ours(claim: Claim) -> str:
    return f"{claim.value:.4g} ± {claim.stderr:.2g}"


def _not_run(found: Reproduction) -> str:
    """One line about what is missing, each problem once, and how to go on."""
    names: dict[str, list[str]] = {}
    for part in found.skipped:
        names.setdefault(part.problem, []).append(part.name)
    why = " ".join(
        f"{', '.join(those)} {'was' if len(those) == 1 else 'were'} not run: {p}" for p, those in names.items()
    )
    return f"{why} Then run the same command with --resume."


def _shown(found: Reproduction) -> Iterator[str | Table]:
    from netgrain.experiments.claims import FAILS, HOLDS, NOT_FITTED, UNDECIDED, counted

    if not found.claims:
        return
    rows = [(name, c.name, c.paper, _ours(c), c.verdict) for name, c in found.claims]
    yield plain_table(("experiment", "claim", "paper", "ours", "verdict"), rows)
    claims = [c for _, c in found.claims]
    for what, those in (
        ("Statements of the sources", [c for c in claims if c.basis == "paper"]),
        ("All claims", claims),
    ):
        count = counted(those)
        yield (
            f"{what}: {len(those)}, of which {count[HOLDS]} hold, {count[UNDECIDED]} are undecided, "
            f"{count[FAILS]} fail and {count[NOT_FITTED]} are not fitted."
        )
    yield f"{found.wall / 60:.1f} minutes.\nthe scorecard is in {found.folder / 'reproduction.md'}"
