"""Commands: read what the user wrote, call the library, print. The work itself is done elsewhere."""

from __future__ import annotations

import math
import re
import sys
from contextlib import nullcontext, redirect_stdout
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from netgrain.cli import data as commands
from netgrain.cli import plan as plan_command
from netgrain.cli.options import with_engine_options
from netgrain.cli.parsing import (
    INTERRUPTED,
    as_text,
    check_folder,
    digest_of,
    family_from_text,
    known_model,
    one_sentence_errors,
    parse_input,
    print_rows,
    resumable,
    source_of,
)
from netgrain.cli.plan import DryRun
from netgrain.runtime.errors import NetgrainError

if TYPE_CHECKING:
    from netgrain.families.outputs import Output
    from netgrain.geometry.estimate import Estimate
    from netgrain.geometry.options import EndLayer, Method
    from netgrain.geometry.value import Geometry

app = typer.Typer(
    help="netgrain finds the directions of input space to which a network reacts at initialisation.",
    epilog="\b\nExamples:\n  netgrain geometry lenet --input 1x32x32\n  netgrain run fig9\n  netgrain geometry --help",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)

PLANNED = ("geometry", "run", "reproduce")  # commands with --dry-run

GEOMETRY_EXAMPLES = """\b
Examples:
  netgrain geometry lenet --input 1x32x32
  netgrain geometry my_models.py:Net --input 3x32x32 --check 2000
  netgrain geometry resnet18:activation=gelu,width=0.25 --input 3x32x32 --members 50 --out out/resnet
  netgrain geometry my_models.py:Net --input 3x64x64 --probe data:images.npy --json
  netgrain geometry my_package.models:build:hidden=32 --input 20 --output diff:0,1
  netgrain geometry my_models.py:Net --input 3x224x224 --members 1024 --engine ray --workers 2 --out out/net --resume

\b
MODEL is one of
  a built-in name      mlp, lenet, smalllenet, vgg11, resnet18, vit
  a file               path/file.py:NAME         a class or function that returns a fresh module
  a module             package.module:NAME
  each with options    lenet:activation=gelu,outputs=1
"""


def main() -> None:
    """Entry point of the `netgrain` script."""
    app()


def _print_version(asked: bool) -> None:
    if asked:
        import netgrain

        typer.echo(f"netgrain {netgrain.__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", is_eager=True, callback=_print_version)
    ] = False,
) -> None:
    pass


@app.command(epilog=GEOMETRY_EXAMPLES, no_args_is_help=True)
@with_engine_options
def geometry(
    model: Annotated[
        str, typer.Argument(metavar="MODEL", help="The family of networks, see below.", callback=known_model)
    ],
    shape: Annotated[
        str,
        typer.Option(
            "--input", metavar="SIZES", help="Shape of one input without the batch: 1x32x32, or 20.", show_default=False
        ),
    ],
    probe: Annotated[
        str,
        typer.Option(
            metavar="PROBE",
            help="Where gradients are taken: auto (the origin, or its limit at a kink), origin, gaussian:SIGMA, "
            "or data:FILE (.npy, or .npz with an array X).",
        ),
    ] = "auto",
    method: Annotated[
        str,
        typer.Option(
            metavar="METHOD",
            help="closed-form (second moments propagated through the layers, no network is sampled), sampled, "
            "or auto (the closed form where every layer has one and --members is not given).",
        ),
    ] = "auto",
    members: Annotated[
        int | None, typer.Option(metavar="N", help="How many random networks to average over.", show_default=False)
    ] = None,
    tolerance: Annotated[
        float | None,
        typer.Option(
            metavar="T",
            help="Instead of --members: stop when the expected Corr with the true G is 1 - T. "
            "Without either, T is 0.01.",
            show_default=False,
        ),
    ] = None,
    seed: Annotated[int, typer.Option(metavar="SEED", help="The same seed gives the same result.")] = 0,
    output: Annotated[
        str,
        typer.Option(
            metavar="OUTPUT",
            help="Which outputs count: all (their sum of squares), mean, an index as in 3, "
            "or a difference as in diff:0,1.",
        ),
    ] = "all",
    first_layer: Annotated[
        str,
        typer.Option(
            metavar="WHEN",
            help="Integrate the first layer exactly instead of sampling it: auto (where that is exact), never, "
            "or always (also where it is nearly exact).",
        ),
    ] = "auto",
    check: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Compare the closed form with N sampled networks (2000 is a good number), band by band of the "
            "spectrum, in standard errors; the exit code is 1 if they differ.",
            show_default=False,
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Write geometry.safetensors, geometry.png, directions.png and summary.json there; "
            "existing ones are replaced. Sampled members are kept in DIR/members until all are there.",
            show_default=False,
        ),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the members in DIR/members, if a run was stopped.")
    ] = False,
    dry_run: DryRun = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")] = False,
) -> None:
    """The average geometry G = E[JᵀJ] of a family of networks: which input directions it reacts to, and how strongly.

    Prints a table; with --out also writes pictures, numbers and a file that netgrain.Geometry.load reads.
    """

    def kept() -> str:
        if out is None or not (out / "members").is_dir():
            return "nothing was written"
        return f"finished members are in {out / 'members'}; go on with --resume"

    with one_sentence_errors(kept), redirect_stdout(sys.stderr) if as_json else nullcontext():
        sizes = parse_input(shape)
        chosen = _parse_output(output)
        if out is not None:
            check_folder(out)
        if resume and out is None:
            raise NetgrainError("--resume goes on with the members in a folder; say which with --out DIR.")

        from netgrain.cli.parsing import parse_probe
        from netgrain.geometry.agreement import check as compare
        from netgrain.geometry.agreement import check_error_bars
        from netgrain.geometry.average import average_geometry
        from netgrain.runtime.threads import one_thread

        place = parse_probe(probe)
        make = family_from_text(model, sizes)
        sample = partial(
            average_geometry,
            make,
            sizes,
            method=cast("Method", method if check is None else "closed-form"),
            probe=place,
            members=members,
            tolerance=tolerance,
            seed=seed,
            output=chosen,
            first_layer=cast("EndLayer", first_layer),
        )
        if dry_run:
            planned = plan_command.of_geometry(sample, sizes, members, kept=out is not None)
        else:
            about = {
                "model": model, "source": source_of(make), "input": list(sizes), "probe": probe,
                "data": digest_of(probe.removeprefix("data:")), "members": members, "tolerance": tolerance,
                "seed": seed, "output": output, "first_layer": first_layer,
            }  # fmt: skip
            if check is not None:
                check_error_bars(make, sizes, members=check, probe=place, output=chosen, seed=seed)
            with resumable(None if out is None else out / "members", about, resume) as keeping:
                G = sample()
                compared = None
                if check is not None:
                    compared = compare(make, sizes, members=check, probe=place, output=chosen, seed=seed, closed=G)
                with one_thread():  # several threads on a busy machine can be ten times slower
                    report = {**G.summary(), "files": {} if out is None else _file_names(out)}
                    if compared is not None:
                        report["check"] = compared.as_dict()
                    if out is not None:
                        _write(G, report, out)
                        keeping.done()
    if dry_run:
        plan_command.show(planned, out or Path(), as_json)
        return
    if as_json:
        typer.echo(as_text(report))
    else:
        _print_geometry(G, report)
        if compared is not None:
            typer.echo(f"\nclosed form against {compared.sampled.members} sampled networks:\n{compared}")
    if compared is not None and not compared.agrees:
        raise typer.Exit(1)


@app.command(epilog="\b\nExamples:\n  netgrain doctor\n  netgrain doctor --json")
def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")] = False,
) -> None:
    """Check the installation: versions, the machine, and two results that are known by hand.

    The exit code is 1 if a check fails.
    """
    with one_sentence_errors():
        from dataclasses import asdict

        from netgrain.cli.doctor import WORDS, conclusion, examine

        checks = examine()
    sound = all(check.status != "fail" for check in checks)
    if as_json:
        typer.echo(as_text({"ok": sound, "checks": [asdict(check) for check in checks]}))
    else:
        rows = []
        for check in checks:
            advice = f"; {check.advice}" if check.advice else ""
            rows.append((check.name, f"{WORDS[check.status]:5}" + check.found + advice))
        print_rows(rows)
        typer.echo(f"\n{conclusion(checks)}")
    if not sound:
        raise typer.Exit(1)


for _name, (_command, _examples) in commands.COMMANDS.items():
    if _name in commands.INDEPENDENT:
        _command = with_engine_options(_command)
    app.command(
        _name, epilog=f"\b\nExamples:\n{_examples}", no_args_is_help=_name not in ("list", "theory", "reproduce")
    )(_command)


@app.command(
    epilog=plan_command.EXAMPLES,
    no_args_is_help=True,
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
)
def plan(context: typer.Context) -> None:
    """What a command would cost: its units, memory and time, from a few units that are run and measured.

    The same as the command with --dry-run.
    """
    with one_sentence_errors():
        if not context.args or context.args[0] not in PLANNED:
            found = context.args[0] if context.args else "nothing"
            raise NetgrainError(f"plan expects a command of {', '.join(PLANNED)} with its arguments; found '{found}'.")
    app([*context.args, "--dry-run"], prog_name="netgrain")


# --- what the user wrote ----------------------------------------------------------------------------------------------


def _parse_output(text: str) -> Output:
    """
    >>> _parse_output("mean"), _parse_output("3"), _parse_output("diff:0,1")
    ('mean', 3, ('diff', 0, 1))
    """
    if text in ("all", "mean"):
        return text
    if re.fullmatch(r"\d{1,9}", text):
        return int(text)
    if match := re.fullmatch(r"diff:(\d{1,9}),(\d{1,9})", text):
        return "diff", int(match[1]), int(match[2])
    raise NetgrainError(f"--output expects all, mean, an index as in 3, or diff:0,1; found '{text}'.")


# --- files ------------------------------------------------------------------------------------------------------------


def _file_names(out: Path) -> dict[str, str]:
    names = {
        "geometry": "geometry.safetensors",
        "picture": "geometry.png",
        "directions": "directions.png",
        "summary": "summary.json",
    }
    return {what: str(out / name) for what, name in names.items()}


def _write(G: Geometry, report: dict[str, Any], out: Path) -> None:
    """Everything is made first and written last."""
    from netgrain.geometry import plots
    from netgrain.runtime.files import write_whole

    files: dict[str, str] = report["files"]
    contents = {
        "picture": plots.png(plots.overview({G.about.model: G})),
        "directions": plots.png(plots.directions(G)),
        "summary": (as_text(report) + "\n").encode(),
    }
    done = 0
    try:
        G.save(files["geometry"])
        for what, content in contents.items():
            done += 1
            write_whole(files[what], content)
    except KeyboardInterrupt as e:
        number = f"{done} {'was' if done == 1 else 'were'}"
        typer.echo(
            f"interrupted; of {len(files)} files in {out}, {number} written (whole); go on with --resume", err=True
        )
        raise typer.Exit(INTERRUPTED) from e


# --- tables -----------------------------------------------------------------------------------------------------------


def _print_geometry(G: Geometry, report: dict[str, Any]) -> None:
    sizes = "x".join(map(str, report["input_shape"]))
    counts = [("?" if n is None else str(n)) for n in report["directions_for"].values()]
    rows = [
        ("model", report["model"]),
        ("input", f"{sizes}, d = {report['d']}"),
        ("output", report["output"]),
        ("method", _method(report)),
        ("probe", report["probe"]),
        ("trace", _number(G.trace, G.exact)),
        ("effective rank", _number(G.effective_rank, G.exact)),
        ("directions", f"{', '.join(counts)} carry {', '.join(report['directions_for'])} of the trace"),
        ("blocks", _blocks(G)),
        (
            f"Corr with {G.fidelity_with}",
            "unknown" if report["fidelity"] is None else f"about {report['fidelity']:.4f}",
        ),
    ]
    if report["method"] == "sampled":
        rows[4:4] = [
            ("members", f"{report['members']} (seed {report['seed']})"),
            ("first layer", report["integration"].removeprefix("first layer ")),
        ]
    if report["method"] == "closed-form" and not G.form.parts:
        rows.pop()  # nothing was sampled
    if report["zero_share"]:
        rows.append(("zero gradient", f"{report['zero_share']:.1%} of the members"))
    rows += [("note", note) for note in report["notes"]]
    print_rows(rows)
    if report["files"]:
        typer.echo("\nwritten:")
        for path in report["files"].values():
            typer.echo(f"  {path}")


def _method(report: dict[str, Any]) -> str:
    if report["method"] != "closed-form":
        return str(report["method"])
    return "closed form, " + ("exact at any width" if report["exact"] else "wide limit")


def _number(estimate: Estimate, exact: bool) -> str:
    if estimate.stderr == 0 and not exact:
        return f"{estimate.value:.6g}"
    if math.isnan(estimate.stderr):
        return f"{estimate.value:.4g} (no error bar)"
    return estimate.with_error


def _blocks(G: Geometry) -> str:
    sizes = [block.size for block in G.blocks()]
    known = "" if sum(sizes) == G.d else f" among the {sum(sizes)} leading directions"
    if not sizes:
        return "none known"
    if max(sizes) == 1:
        return f"{len(sizes)}, no two eigenvalues are equal{known}"
    spread = f"{min(sizes)}" if min(sizes) == max(sizes) else f"{min(sizes)} to {max(sizes)}"
    return f"{len(sizes)}, of {spread} equal eigenvalues{known}"
