"""Commands: read what the user wrote, call the library, print. The work itself is done elsewhere."""

from __future__ import annotations

import json
import math
import os
import re
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer

from netgrain.errors import GrainWarning, NetgrainError

if TYPE_CHECKING:
    from netgrain.ensemble import Make, Output
    from netgrain.estimate import Estimate
    from netgrain.geometry import Geometry

MOST_INPUTS = 10**8  # one input of more numbers than this does not fit a computer together with its gradients
BAD_INPUT, INTERRUPTED = 2, 130  # exit codes; 1: a check of the doctor failed

app = typer.Typer(
    help="netgrain finds the directions of input space along which a network can learn.",
    epilog="\b\nExamples:\n  netgrain geometry lenet --input 1x32x32\n  netgrain doctor\n  netgrain geometry --help",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)

GEOMETRY_EXAMPLES = """\b
Examples:
  netgrain geometry lenet --input 1x32x32
  netgrain geometry resnet18:activation=gelu,width=0.25 --input 3x32x32 --members 50 --out out/resnet
  netgrain geometry my_models.py:Net --input 3x64x64 --probe data:images.npy --json
  netgrain geometry my_package.models:build:hidden=32 --input 20 --output diff:0,1

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
def geometry(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="The family of networks, see below.")],
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
    method: Annotated[str, typer.Option(metavar="METHOD", help="auto or sampled.")] = "auto",
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
    workers: Annotated[
        int | None,
        typer.Option(metavar="N", help="Processes to use; decided by the work if not given.", show_default=False),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Write geometry.safetensors, geometry.png, directions.png and summary.json there; "
            "existing ones are replaced.",
            show_default=False,
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")] = False,
) -> None:
    """The average geometry G = E[JᵀJ] of a family of networks: which input directions it reacts to, and how strongly.

    Prints a table; with --out also writes pictures, numbers and a file that netgrain.Geometry.load reads.
    """
    with _plain_words(), redirect_stdout(sys.stderr) if as_json else nullcontext():
        sizes = _parse_input(shape)
        chosen = _parse_output(output)
        if out is not None:
            _check_folder(out)

        from netgrain.average import average_geometry
        from netgrain.probes import parse_probe
        from netgrain.threads import one_thread

        place = parse_probe(probe)
        family = _family(model, sizes)
        G = average_geometry(
            family,
            sizes,
            method=method,
            probe=place,
            members=members,
            tolerance=tolerance,
            seed=seed,
            output=chosen,
            first_layer=first_layer,
            workers=workers,
        )
        with one_thread():  # several threads on a busy machine can be ten times slower
            report = {**G.summary(), "files": {} if out is None else _file_names(out)}
            if out is not None:
                _write(G, report, out)
    if as_json:
        typer.echo(_as_text(report))
    else:
        _print_geometry(G, report)


@app.command(epilog="\b\nExamples:\n  netgrain doctor\n  netgrain doctor --json")
def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")] = False,
) -> None:
    """Check the installation: versions, the machine, and two results that are known by hand.

    The exit code is 1 if a check fails.
    """
    with _plain_words():
        from dataclasses import asdict

        from netgrain.doctor import examine

        checks = examine()
    sound = all(check.status != "fail" for check in checks)
    if as_json:
        typer.echo(_as_text({"ok": sound, "checks": [asdict(check) for check in checks]}))
    else:
        words = {"info": "", "ok": "ok", "warning": "look", "fail": "FAIL"}
        rows = []
        for check in checks:
            advice = f"; {check.advice}" if check.advice else ""
            rows.append((check.name, f"{words[check.status]:5}" + check.found + advice))
        _print_rows(rows)
        typer.echo("\nEverything works." if sound else "\nSomething is wrong: see the lines with FAIL.")
    if not sound:
        raise typer.Exit(1)


# --- what the user wrote ----------------------------------------------------------------------------------------------


def _parse_input(text: str) -> tuple[int, ...]:
    """1x32x32 → (1, 32, 32).

    >>> _parse_input("1x32x32"), _parse_input("20")
    ((1, 32, 32), (20,))
    """
    if not re.fullmatch(r"[1-9]\d*([x×][1-9]\d*)*", text.strip().casefold()):
        raise NetgrainError(f"--input expects positive sizes joined by x, as in 1x32x32 or 20; found '{text}'.")
    sizes = tuple(int(size) for size in re.split("[x×]", text.strip().casefold()))
    if math.prod(sizes) > MOST_INPUTS:
        raise NetgrainError(f"--input {text} has {math.prod(sizes):.2g} values; expected at most {MOST_INPUTS:.0e}.")
    return sizes


def _parse_output(text: str) -> Output:
    """
    >>> _parse_output("mean"), _parse_output("3"), _parse_output("diff:0,1")
    ('mean', 3, ('diff', 0, 1))
    """
    if text in ("all", "mean"):
        return text
    if re.fullmatch(r"-?\d+", text):
        return int(text)
    if match := re.fullmatch(r"diff:(\d+),(\d+)", text):
        return "diff", int(match[1]), int(match[2])
    raise NetgrainError(f"--output expects all, mean, an index as in 3, or diff:0,1; found '{text}'.")


def _family(spec: str, sizes: tuple[int, ...]) -> Make:
    """The model with the sizes of the input filled in, built once so that what is wrong with it is said first."""
    from netgrain.models.loading import BUILTIN_NAMES, load_model

    square = len(sizes) == 3 and sizes[1] == sizes[2]
    if not square and spec.partition(":")[0].strip().casefold() in BUILTIN_NAMES:
        raise NetgrainError(
            f"'{spec}' expects square images, as in --input 1x32x32; found {'x'.join(map(str, sizes))}. "
            "For other inputs give a model of your own, as path/file.py:name."
        )
    defaults: dict[str, object] = {}
    if len(sizes) == 3:
        defaults["channels"] = sizes[0]
    if square:
        defaults["image_size"] = sizes[1]
    family = load_model(spec, **defaults)
    try:
        family()
    except NetgrainError:
        raise
    except (Exception, SystemExit) as e:  # the user's own code may raise anything
        raise NetgrainError(
            f"'{spec}' could not be built ({type(e).__name__}: {e}); check its options and its code."
        ) from e
    return family


# --- errors and warnings ----------------------------------------------------------------------------------------------


@contextmanager
def _plain_words() -> Iterator[None]:
    """Errors made on purpose become a sentence and an exit code, warnings one line each; bugs keep their traceback."""
    with warnings.catch_warnings():
        warnings.simplefilter("always", GrainWarning)
        others = warnings.showwarning

        def show(
            message: Warning | str,
            category: type[Warning],
            filename: str,
            lineno: int,
            file: TextIO | None = None,
            line: str | None = None,
        ) -> None:
            if issubclass(category, GrainWarning):
                typer.echo(f"warning: {_one_line(str(message))}", err=True)
            else:
                others(message, category, filename, lineno, file, line)

        warnings.showwarning = show
        try:
            yield
        except NetgrainError as e:
            typer.echo(f"error: {_one_line(str(e))}", err=True)
            raise typer.Exit(BAD_INPUT) from e
        except KeyboardInterrupt as e:
            typer.echo("interrupted; nothing was written", err=True)
            raise typer.Exit(INTERRUPTED) from e


def _one_line(text: str) -> str:
    return " ".join(text.split())


# --- files ------------------------------------------------------------------------------------------------------------


def _check_folder(out: Path) -> None:
    """Refuse a folder that cannot be written to before anything is computed."""
    if out.exists() and not out.is_dir():
        raise NetgrainError(f"--out expects a folder, {out} is a file; choose another name.")
    there = next((p for p in (out.absolute(), *out.absolute().parents) if p.exists()), Path("/"))
    if not there.is_dir():
        raise NetgrainError(f"--out expects a folder, but {there} is a file; choose another name.")
    if not os.access(there, os.W_OK | os.X_OK):
        raise NetgrainError(f"--out: {there} cannot be written to; choose another folder.")


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
    from netgrain import plots
    from netgrain.files import write_whole

    files: dict[str, str] = report["files"]
    contents = {
        "picture": plots.png(plots.overview({G.about.model: G})),
        "directions": plots.png(plots.directions(G)),
        "summary": (_as_text(report) + "\n").encode(),
    }
    done = 0
    try:
        G.save(files["geometry"])
        for what, content in contents.items():
            done += 1
            write_whole(files[what], content)
    except KeyboardInterrupt as e:
        number = f"{done} {'was' if done == 1 else 'were'}"
        typer.echo(f"interrupted; of {len(files)} files in {out}, {number} written (whole)", err=True)
        raise typer.Exit(INTERRUPTED) from e


def _as_text(report: dict[str, Any]) -> str:
    return json.dumps(report, indent=2, ensure_ascii=False, allow_nan=False)


# --- tables -----------------------------------------------------------------------------------------------------------


def _print_geometry(G: Geometry, report: dict[str, Any]) -> None:
    sizes = "x".join(map(str, report["input_shape"]))
    counts = [("?" if n is None else str(n)) for n in report["directions_for"].values()]
    rows = [
        ("model", report["model"]),
        ("input", f"{sizes}, d = {report['d']}"),
        ("output", report["output"]),
        ("method", report["method"] + (", exact" if report["exact"] else "")),
        ("members", f"{report['members']} (seed {report['seed']})"),
        ("probe", report["probe"]),
        ("first layer", report["integration"].removeprefix("first layer ")),
        ("trace", _number(G.trace)),
        ("effective rank", _number(G.effective_rank)),
        ("directions", f"{', '.join(counts)} carry {', '.join(report['directions_for'])} of the trace"),
        ("blocks", _blocks(G)),
        ("Corr with the truth", "cannot be said" if report["fidelity"] is None else f"about {report['fidelity']:.4f}"),
    ]
    if report["zero_share"]:
        rows.append(("zero gradient", f"{report['zero_share']:.1%} of the members"))
    rows += [("note", note) for note in report["notes"]]
    _print_rows(rows)
    if report["files"]:
        typer.echo("\nwritten:")
        for path in report["files"].values():
            typer.echo(f"  {path}")


def _number(estimate: Estimate) -> str:
    if math.isnan(estimate.stderr):
        return f"{estimate.value:.4g} (no error bar)"
    return str(estimate).partition(" (n =")[0]


def _blocks(G: Geometry) -> str:
    sizes = [block.size for block in G.blocks()]
    known = "" if sum(sizes) == G.d else f" among the {sum(sizes)} leading directions"
    if not sizes:
        return "none known"
    if max(sizes) == 1:
        return f"{len(sizes)}, no two eigenvalues are equal{known}"
    spread = f"{min(sizes)}" if min(sizes) == max(sizes) else f"{min(sizes)} to {max(sizes)}"
    return f"{len(sizes)}, of {spread} equal eigenvalues{known}"


def _print_rows(rows: list[tuple[str, str]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in rows:
        table.add_row(Text(name), Text(value))
    Console(highlight=False).print(table)
