"""The Typer app and its table of commands. A new command is a function in a file of this room and one row here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

import typer

from netgrain.cli import (
    audit,
    complexity,
    data,
    doctor,
    experiments,
    geometry,
    groups,
    learnability,
    plan,
    theory,
    what_if,
)
from netgrain.cli.options import as_command
from netgrain.cli.output import Answer, one_sentence_errors
from netgrain.runtime.errors import NetgrainError


@dataclass(frozen=True)
class Command:
    """A row of the table: the function, its examples, and how it is called."""

    work: Callable[..., Answer]
    examples: str
    engine: bool = False  # takes --engine, --workers, --address and --device
    bare: bool = False  # means something without any argument
    planned: bool = False  # takes --dry-run, and so stands behind `netgrain plan`


COMMANDS = {
    "geometry": Command(geometry.geometry, geometry.EXAMPLES, engine=True, planned=True),
    "audit": Command(audit.audit, audit.AUDIT_EXAMPLES, engine=True),
    "compare": Command(audit.compare, audit.COMPARE_EXAMPLES, engine=True),
    "what-if": Command(what_if.what_if, what_if.EXAMPLES, engine=True),
    "visible": Command(audit.visible, audit.VISIBLE_EXAMPLES, engine=True),
    "card": Command(audit.card, audit.CARD_EXAMPLES, engine=True),
    "score": Command(data.score, data.SCORE_EXAMPLES, engine=True),
    "prune": Command(data.prune, data.PRUNE_EXAMPLES, engine=True),
    "complexity": Command(complexity.complexity, complexity.EXAMPLES),
    "learnability": Command(learnability.learnability, learnability.EXAMPLES),
    "list": Command(experiments.list_experiments, experiments.LIST_EXAMPLES, bare=True),
    "run": Command(experiments.run, experiments.RUN_EXAMPLES, engine=True, planned=True),
    "reproduce": Command(experiments.reproduce, experiments.REPRODUCE_EXAMPLES, engine=True, bare=True, planned=True),
    "claims": Command(experiments.claims, experiments.CLAIMS_EXAMPLES),
    "theory": Command(theory.theory, theory.EXAMPLES, engine=True, bare=True),
    "group": Command(groups.group, groups.GROUP_EXAMPLES),
    "limit": Command(groups.limit, groups.LIMIT_EXAMPLES),
    "doctor": Command(doctor.doctor, doctor.EXAMPLES, bare=True),
}
PLANNED = tuple(name for name, row in COMMANDS.items() if row.planned)

app = typer.Typer(
    help="netgrain finds the directions of input space to which a network reacts at initialisation.",
    epilog="\b\nExamples:\n  netgrain geometry lenet --input 1x32x32\n  netgrain run fig9\n  netgrain geometry --help",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


def main() -> None:
    """Entry point of the `netgrain` script."""
    app()


def _print_version(asked: bool) -> None:
    if asked:
        from netgrain.runtime.versions import __version__

        typer.echo(f"netgrain {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", is_eager=True, callback=_print_version)
    ] = False,
) -> None:
    pass


def _epilog(examples: str) -> str:
    return f"\b\nExamples:\n{examples}"


for _name, _row in COMMANDS.items():
    app.command(_name, epilog=_epilog(_row.examples), no_args_is_help=not _row.bare)(
        as_command(_row.work, engine=_row.engine)
    )


@app.command(
    "plan",
    epilog=_epilog(plan.EXAMPLES),
    no_args_is_help=True,
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
)
def _plan(context: typer.Context) -> None:
    """Estimate what a command would cost: its units, memory and time, from a few units that are run and measured.

    The same as the command with --dry-run.
    """
    with one_sentence_errors():
        if not context.args or context.args[0] not in PLANNED:
            found = context.args[0] if context.args else "nothing"
            raise NetgrainError(f"plan expects a command of {', '.join(PLANNED)} with its arguments; found '{found}'.")
    app([*context.args, "--dry-run"], prog_name="netgrain")
