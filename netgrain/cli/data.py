"""Commands about data and experiments: score, prune, list, run, claims; the others have their own files."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import nullcontext, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from netgrain.cli import audit as audit_command
from netgrain.cli import complexity as complexity_command
from netgrain.cli import groups as group_command
from netgrain.cli import limit as limit_command
from netgrain.cli import plan as plan_command
from netgrain.cli import reproduce as reproduce_command
from netgrain.cli import theory as theory_command
from netgrain.cli.audit import DataProbe, Members, audit, card, compare, visible
from netgrain.cli.complexity import complexity
from netgrain.cli.groups import group
from netgrain.cli.limit import limit as limit_of_training
from netgrain.cli.parsing import (
    DataDir,
    DataOption,
    Download,
    Json,
    Limit,
    Model,
    Seed,
    Size,
    as_text,
    check_file,
    check_folder,
    family_from_text,
    one_sentence_errors,
    print_rows,
)
from netgrain.cli.plan import DryRun
from netgrain.cli.reproduce import reproduce
from netgrain.cli.theory import theory
from netgrain.runtime.errors import NetgrainError

if TYPE_CHECKING:
    from netgrain.data.dataset import Dataset
    from netgrain.experiments.claims import Claim
    from netgrain.geometry.value import Geometry


def score(
    model: Model,
    data: DataOption,
    data_dir: DataDir = None,
    download: Download = False,
    size: Size = None,
    limit: Limit = None,
    probe: DataProbe = "data",
    members: Members = None,
    seed: Seed = 0,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write index, label and score of every sample.", show_default=False),
    ] = None,
    as_json: Json = False,
) -> None:
    """Score training samples by how strongly fresh networks react along them: x·Gx / x·x, x minus the mean sample."""
    with one_sentence_errors(), redirect_stdout(sys.stderr) if as_json else nullcontext():
        if out is not None:
            check_file(out, ".csv", ".txt", new_folder=True)
        samples, G = _scored(model, data, data_dir, download, size, limit, probe, members, seed)
        from netgrain.auditing.places import where
        from netgrain.geometry.scores import score as scores_of

        scores = scores_of(G, samples.X, centre=True)
        order = scores.argsort(descending=True)
        per_class = {
            samples.classes[c] if c < len(samples.classes) else str(c): float(scores[samples.y == c].mean())
            for c in samples.y.unique().tolist()
        }
        report: dict[str, Any] = {
            "model": model,
            "data": samples.name,
            "note": samples.note,
            "samples": len(samples),
            "probe": str(G.about.probe),
            "centred": True,
            "members": G.members,
            "corr_with_truth": G.fidelity,
            "mean": float(scores.mean()),
            "mean_of_a_random_direction": G.trace.value / G.d,
            "per_class": per_class,
            "highest": order[:10].tolist(),
            "lowest": order.flip(0)[:10].tolist(),
            "file": None if out is None else str(out),
        }
        if out is not None:
            rows = zip(range(len(samples)), samples.y.tolist(), scores.tolist(), strict=True)
            _write_csv(out, ("index", "label", "score"), [(i, y, float(f"{value:.9g}")) for i, y, value in rows])
    if as_json:
        typer.echo(as_text(report))
        return
    ratio = report["mean"] / report["mean_of_a_random_direction"]
    print_rows(
        [
            ("data", f"{samples.name}, {len(samples)} samples; {samples.note}"),
            ("geometry", f"G {where(G, len(samples))}; {G!r}"),
            ("scores", "of each sample minus the mean of all samples"),
            ("mean score", f"{report['mean']:.4g}, {ratio:.2f} times that of a random direction"),
            *((f"  {name}", f"{value:.4g}") for name, value in per_class.items()),
            ("highest", ", ".join(map(str, report["highest"]))),
            ("lowest", ", ".join(map(str, report["lowest"]))),
            *([("written", str(out))] if out is not None else []),
        ]
    )


def prune(
    model: Model,
    data: DataOption,
    out: Annotated[Path, typer.Option(metavar="FILE", help="Where to write the kept indices, one a line.")],
    keep: Annotated[float, typer.Option(metavar="SHARE", help="Share of the samples to keep, in (0, 1].")] = 0.7,
    any_class: Annotated[bool, typer.Option("--any-class", help="Do not keep the same share of every class.")] = False,
    data_dir: DataDir = None,
    download: Download = False,
    size: Size = None,
    limit: Limit = None,
    probe: DataProbe = "data",
    members: Members = None,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Keep the samples with the highest scores: those along which fresh networks react most."""
    with one_sentence_errors(), redirect_stdout(sys.stderr) if as_json else nullcontext():
        if not 0 < keep <= 1:
            raise NetgrainError(f"--keep expects a share in (0, 1], found {keep:g}.")
        check_file(out, ".csv", ".txt", new_folder=True)
        samples, G = _scored(model, data, data_dir, download, size, limit, probe, members, seed)
        from netgrain.auditing.places import where
        from netgrain.geometry.scores import prune as kept_by

        kept = kept_by(G, samples.X, samples.y, keep=keep, per_class=not any_class, centre=True)
        _write_csv(out, ("index",), [(i,) for i in kept.tolist()])
        report = {
            "kept": len(kept),
            "of": len(samples),
            "file": str(out),
            "model": model,
            "data": samples.name,
            "probe": str(G.about.probe),
            "centred": True,
        }
    if as_json:
        typer.echo(as_text(report))
    else:
        typer.echo(f"G {where(G, len(samples))}; scores of each sample minus the mean of all samples")
        typer.echo(f"kept {len(kept)} of {len(samples)} samples of {samples.name}, written to {out}")


def list_experiments(as_json: Json = False) -> None:
    """Show the experiments that can be run."""
    with one_sentence_errors():
        from netgrain.experiments import registry as experiments

        found = {name: experiments.title(name) for name in experiments.names()}
    if as_json:
        typer.echo(as_text(found))
    else:
        print_rows(list(found.items()))


def run(
    experiment: Annotated[str, typer.Argument(metavar="EXPERIMENT", help="A name from `netgrain list`.")],
    scale: Annotated[
        str, typer.Option(metavar="SCALE", help="smoke (seconds), laptop, or paper (for a GPU).")
    ] = "laptop",
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="The run folder; default out/EXPERIMENT-SCALE.", show_default=False),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Finish the run in that folder; compute only what is missing.")
    ] = False,
    data_dir: DataDir = None,
    dry_run: DryRun = False,
    as_json: Json = False,
) -> None:
    """Run an experiment of the paper into a folder, draw its figure and judge its claims."""
    folder = out or Path("out") / f"{experiment}-{scale}"
    kept = f"what was finished is in {folder}; go on with --resume"
    with one_sentence_errors(kept), redirect_stdout(sys.stderr) if as_json else nullcontext():
        from netgrain.data.images import looking_in
        from netgrain.experiments.registry import preset, run_experiment
        from netgrain.runtime.engine_in_use import current
        from netgrain.runtime.processes import Processes

        preset(experiment, scale)  # names first, before a folder is made
        check_folder(folder)
        with looking_in(data_dir):
            if dry_run:
                planned = plan_command.of_experiments([experiment], scale, {experiment: folder})
            else:
                finished = run_experiment(experiment, scale, folder, engine=current() or Processes(), resume=resume)
    if dry_run:
        plan_command.show(planned, folder, as_json)
        return
    _show(finished.claims, folder, as_json)


def claims(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A folder written by `netgrain run`.")],
    as_json: Json = False,
) -> None:
    """Judge the claims of a finished run again and redraw its figure, from its folder alone."""
    with one_sentence_errors():
        from netgrain.experiments.registry import conclude_again

        finished = conclude_again(folder)
    _show(finished.claims, folder, as_json)


COMMANDS: dict[str, tuple[Callable[..., None], str]] = {
    "audit": (audit, audit_command.AUDIT_EXAMPLES),
    "compare": (compare, audit_command.COMPARE_EXAMPLES),
    "visible": (visible, audit_command.VISIBLE_EXAMPLES),
    "card": (card, audit_command.CARD_EXAMPLES),
    "score": (
        score,
        "  netgrain score resnet18:activation=gelu,width=0.25 --data digits --out scores.csv\n"
        "  netgrain score lenet --data my.npz",
    ),
    "prune": (prune, "  netgrain prune lenet --data cifar10 --data-dir data --keep 0.5 --out kept.csv"),
    "list": (list_experiments, "  netgrain list"),
    "run": (
        run,
        "  netgrain run fig9\n  netgrain run fig1 --scale smoke --out out/try\n  netgrain run fig1 --resume\n"
        "  netgrain run fig10 --dry-run\n  netgrain run fig10 --engine ray --address 10.0.0.1:6379 --workers 64",
    ),
    "reproduce": (reproduce, reproduce_command.EXAMPLES),
    "claims": (claims, "  netgrain claims out/fig1-laptop"),
    "complexity": (complexity, complexity_command.EXAMPLES),
    "theory": (theory, theory_command.EXAMPLES),
    "group": (group, group_command.EXAMPLES),
    "limit": (limit_of_training, limit_command.EXAMPLES),
}


# those that take --engine, --workers, --address and --device
INDEPENDENT = ("audit", "compare", "visible", "card", "score", "prune", "run", "reproduce", "theory")


def _scored(
    model: str,
    data: str,
    data_dir: Path | None,
    download: bool,
    size: int | None,
    limit: int | None,
    probe: str,
    members: int | None,
    seed: int,
) -> tuple[Dataset, Geometry]:
    from netgrain.auditing.places import place_of
    from netgrain.data.sources import load

    samples = load(data, data_dir=data_dir, download=download, size=size, limit=limit, seed=seed)
    shape = tuple(samples.X.shape[1:])
    make = family_from_text(model, shape)
    return samples, place_of(probe, samples.X, members=members, seed=seed).geometry(make, shape, seed=seed)


def _write_csv(out: Path, header: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    from netgrain.runtime.files import csv_cell, write_whole

    lines = (",".join(map(csv_cell, row)) for row in (header, *rows))
    write_whole(out, ("\n".join(lines) + "\n").encode())


def _show(found: list[Claim], folder: Path, as_json: bool) -> None:
    if as_json:
        typer.echo(as_text({"folder": str(folder), "claims": [c.as_dict() for c in found]}))
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for column in ("verdict", "claim", "paper", "ours"):
        table.add_column(column)
    for c in found:
        ours = f"{c.value:.4g} ± {c.stderr:.2g} (n = {c.n})"
        remarks = "; ".join(filter(None, (c.note, c.needs and f"to decide it: {c.needs}")))
        note = f" [{remarks}]" if remarks else ""
        table.add_row(Text(c.verdict), Text(f"{c.name}: {c.statement}{note}"), Text(c.paper), Text(ours))
    Console(highlight=False).print(table)
    typer.echo(f"\nlook at {folder / 'figure.png'}; the numbers are in {folder / 'claims.json'}")
