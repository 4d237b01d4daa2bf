"""The Typer app and its table of commands. A new command is a function in a file of this room and one row here."""

from __future__ import annotations

import platform
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

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
from netgrain.cli.options import DeviceOptions, EngineOptions, as_command
from netgrain.cli.output import Answer, one_sentence_errors
from netgrain.runtime.errors import NetgrainError
from netgrain.runtime.progress import lines_in_pipes

DATA, NETWORKS, STUDIES, GROUPS, TOOLS = (
    "A model and your data",
    "A model alone",
    "Experiments on the three papers",
    "Groups and equivariant networks",
    "This installation",
)


@dataclass(frozen=True)
class Command:
    """A row of the table: the function, its examples, and how it is called."""

    work: Callable[..., Answer]
    examples: str
    group: str
    short: str  # its line in `netgrain --help`, which is 80 columns wide
    where: type[DeviceOptions] | None = None  # takes --device, or also --engine, --workers and --address
    bare: bool = False  # means something without any argument
    planned: bool = False  # takes --dry-run, and so stands behind `netgrain plan`


COMMANDS = {
    "audit": Command(
        audit.audit,
        audit.AUDIT_EXAMPLES,
        DATA,
        "What to expect of a model on your data, as a page.",
        where=EngineOptions,
    ),
    "compare": Command(
        audit.compare,
        audit.COMPARE_EXAMPLES,
        DATA,
        "Several models on the same data, side by side.",
        where=EngineOptions,
    ),
    "what-if": Command(
        what_if.what_if, what_if.EXAMPLES, DATA, "Predict what a change of the model would bring.", where=EngineOptions
    ),
    "learnability": Command(
        learnability.learnability,
        learnability.EXAMPLES,
        DATA,
        "Predict accuracy before training, with an error.",
        where=EngineOptions,
    ),
    "score": Command(
        data.score, data.SCORE_EXAMPLES, DATA, "How strongly a model reacts along each sample.", where=EngineOptions
    ),
    "prune": Command(
        data.prune, data.PRUNE_EXAMPLES, DATA, "Keep the samples with the highest scores.", where=EngineOptions
    ),
    "complexity": Command(
        complexity.complexity,
        complexity.EXAMPLES,
        DATA,
        "How steep a trained model is on data.",
        where=DeviceOptions,
    ),
    "geometry": Command(
        geometry.geometry,
        geometry.EXAMPLES,
        NETWORKS,
        "Which input directions a model reacts to.",
        where=EngineOptions,
        planned=True,
    ),
    "visible": Command(
        audit.visible, audit.VISIBLE_EXAMPLES, NETWORKS, "How strongly it reacts to one pattern.", where=EngineOptions
    ),
    "card": Command(
        audit.card, audit.CARD_EXAMPLES, NETWORKS, "A picture and a few lines for a model card.", where=EngineOptions
    ),
    "list": Command(
        experiments.list_experiments, experiments.LIST_EXAMPLES, STUDIES, "List the experiments.", bare=True
    ),
    "run": Command(
        experiments.run, experiments.RUN_EXAMPLES, STUDIES, "Run one experiment.", where=EngineOptions, planned=True
    ),
    "reproduce": Command(
        experiments.reproduce,
        experiments.REPRODUCE_EXAMPLES,
        STUDIES,
        "Run them all and print a scorecard.",
        where=EngineOptions,
        bare=True,
        planned=True,
    ),
    "claims": Command(experiments.claims, experiments.CLAIMS_EXAMPLES, STUDIES, "Judge a finished run again."),
    "theory": Command(
        theory.theory,
        theory.EXAMPLES,
        STUDIES,
        "Check the theorems of the first paper.",
        where=EngineOptions,
        bare=True,
    ),
    "group": Command(groups.group, groups.GROUP_EXAMPLES, GROUPS, "Classes, characters and irreps of a finite group."),
    "limit": Command(groups.limit, groups.LIMIT_EXAMPLES, GROUPS, "Where training of a linear network over it ends."),
    "doctor": Command(doctor.doctor, doctor.EXAMPLES, TOOLS, "Check versions, the machine and two results.", bare=True),
}
PLAN = "Estimate the cost of a command."
PLANNED = tuple(name for name, row in COMMANDS.items() if row.planned)


class Grouped(TyperGroup):
    """Commands under the heading of their group, in the order of the table."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        lines = {name: (row.group, row.short) for name, row in COMMANDS.items()} | {"plan": (TOOLS, PLAN)}
        for group in dict.fromkeys(group for group, _ in lines.values()):
            with formatter.section(group):
                formatter.write_dl([(f"{name:12s}", short) for name, (g, short) in lines.items() if g == group])


app = typer.Typer(
    cls=Grouped,
    help="Predict how well a network will do on your data, and see which patterns it reacts to, before training.",
    epilog="\b\nExamples:\n  netgrain audit resnet18:width=0.25 --data digits\n"
    "  netgrain learnability mlp --data digits\n"
    "  netgrain audit --help",
    no_args_is_help=True,
    add_completion=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


def main() -> None:
    """Entry point of the `netgrain` script."""
    with lines_in_pipes():
        app()


def _print_version(asked: bool) -> None:
    if asked:
        from netgrain.runtime.versions import __version__

        typer.echo(f"netgrain {__version__}, torch {version('torch')}, Python {platform.python_version()}")
        raise typer.Exit


@app.callback()
def _root(
    show_version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", is_eager=True, callback=_print_version)
    ] = False,
) -> None:
    pass


def _epilog(examples: str) -> str:
    return f"\b\nExamples:\n{examples}"


for _name, _row in COMMANDS.items():
    app.command(_name, epilog=_epilog(_row.examples), no_args_is_help=not _row.bare)(
        as_command(_row.work, where=_row.where)
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
