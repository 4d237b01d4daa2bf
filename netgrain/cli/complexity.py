"""The command `netgrain complexity`: how steep a network is on data, in all variants, with bounds."""

from __future__ import annotations

import math
import sys
from contextlib import nullcontext, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

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
    family_from_text,
    one_sentence_errors,
)
from netgrain.runtime.errors import NetgrainError

if TYPE_CHECKING:
    from netgrain.complexity.estimators import Estimator
    from netgrain.complexity.variants import Complexities
    from netgrain.data.dataset import Dataset
    from netgrain.families.members import Family

EXAMPLES = """  netgrain complexity mlp --data digits
  netgrain complexity resnet18:width=0.125,norm=batch --data cifar10 --data-dir data --limit 1000
  netgrain complexity my_models.py:Net --data my.npz --weights trained.safetensors --json"""

MEANINGS = {
    "logits": "mean squared slope of the outputs, GC = mean ‖∂f/∂x‖²",
    "softmax": "that of the probabilities; at most a quarter of GC, and falls again as the network gets sure",
    "centred": "that of the outputs without their mean; blind to a common shift of all of them",
    "fisher": "mean squared slope of log p(y|x), y drawn from the network's own p",
    "per_variance": "GC over the variance of the outputs: the mean squared frequency, free of their scale",
    "per_margin": "GC over the squared median margin: what to compare after training with cross-entropy",
    "lower_max": "largest slope at a point: the Lipschitz constant is not smaller",
    "mean_op": "mean over points of the slope along the steepest direction",
    "frob": "root of GC: the slope over all directions together",
    "upper_product": "the layers' constants multiplied: the Lipschitz constant is not larger",
    "effective_rank": "how many input directions share the slope",
}
MEMBERS = 5
BOUNDS = ("lower_max", "mean_op", "frob", "upper_product", "effective_rank")
LABELS = {
    "per_variance": "per variance",
    "per_margin": "per margin²",
    "lower_max": "Lipschitz, from below",
    "upper_product": "Lipschitz, from above",
    "mean_op": "steepest slope",
    "frob": "√GC",
    "effective_rank": "effective rank",
}
FILE_WIDTH = 140  # columns of the table where the output is not a terminal
Cell = dict[str, Any]  # value, stderr, n as in Estimate.as_dict, and a note


def complexity(
    model: Model,
    data: DataOption,
    weights: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Trained weights of one network: .safetensors, or a state dict saved by torch.",
            show_default=False,
        ),
    ] = None,
    members: Annotated[
        int | None,
        typer.Option(
            metavar="N", help="Without --weights: average over N fresh networks; 5 if not given.", show_default=False
        ),
    ] = None,
    estimator: Annotated[
        str,
        typer.Option(metavar="NAME", help="auto, exact, forward, or from random vectors: vjp, jvp, outputs."),
    ] = "auto",
    rel_error: Annotated[
        float, typer.Option(metavar="E", help="Relative standard error that random vectors aim at.")
    ] = 0.02,
    data_dir: DataDir = None,
    download: Download = False,
    size: Size = None,
    limit: Limit = None,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Measure how steep a network is on data: geometric complexity GC = mean ‖∂f/∂x‖², its variants, and bounds.

    Without --weights: freshly initialised networks, and the numbers are mean ± standard error over them.
    """
    with one_sentence_errors(), redirect_stdout(sys.stderr) if as_json else nullcontext():
        if limit is not None and limit < 1:
            raise NetgrainError(f"--limit expects at least one sample, found {limit}.")
        if members is not None and members < 1:
            raise NetgrainError(f"--members expects at least one network, found {members}.")
        if members is not None and weights is not None:
            raise NetgrainError("--members is for fresh networks, and --weights is one network; give one of them.")
        from netgrain.data.sources import load

        samples = load(
            data,
            data_dir=data_dir,
            download=download,
            size=size,
            limit=limit,
            seed=seed,
            standardise=weights is None,
        )
        make = family_from_text(model, tuple(samples.X.shape[1:]))
        count = 1 if weights is not None else members or MEMBERS
        found = _measured(make, count, samples, weights, estimator, rel_error, seed)
        report = _report(model, samples, weights, seed, found)
    if as_json:
        typer.echo(as_text(report))
    else:
        _print(report)


def _measured(
    make: Family,
    count: int,
    samples: Dataset,
    weights: Path | None,
    estimator: str,
    rel_error: float,
    seed: int,
) -> list[tuple[Complexities, Any]]:
    from netgrain.complexity.lipschitz import lipschitz_profile
    from netgrain.complexity.variants import complexities
    from netgrain.families.members import member, trained_model
    from netgrain.models.checkpoints import read_weights
    from netgrain.runtime.progress import Bar

    trained = None if weights is None else trained_model(make, read_weights(weights))
    found = []
    several = count > 1
    with Bar("networks", count, None if several else False) as bar:
        for i in range(count):
            network = trained or member(make, seed, i)
            inner: dict[str, Any] = {"seed": seed, "progress": False if several else None}
            variants = complexities(
                network,
                samples.X,
                samples.y,
                classes=samples.classes,
                estimator=cast("Estimator", estimator),
                rel_error=rel_error,
                **inner,
            )
            found.append((variants, lipschitz_profile(network, samples.X, **inner)))
            bar.advance()
    return found


# --- what is printed --------------------------------------------------------------------------------------------------


def _report(
    model: str, samples: Dataset, weights: Path | None, seed: int, found: list[tuple[Complexities, Any]]
) -> dict[str, Any]:
    first = found[0][0]
    variants = {name: _cell([c.variants().get(name) for c, _ in found]) for name in first.variants()}
    margin = [c.per_margin for c, _ in found if c.per_margin is not None]
    if any(m.note for m in margin):
        wrong = sum(m.gamma <= 0 for m in margin)
        variants["per_margin"]["note"] = (
            margin[0].note
            if len(margin) == 1
            else f"the median margin is not above zero in {wrong} of {len(margin)} networks"
        )
    classes = [c.per_class for c, _ in found if c.per_class is not None]
    per_class = {name: _cell([c.parts[name] for c in classes]) for name in (classes[0].parts if classes else {})}
    bounds = {name: _cell([getattr(profile, name) for _, profile in found]) for name in BOUNDS}
    if bounds["upper_product"]["value"] is None:
        bounds["upper_product"]["note"] = f"not known: {next(p.reason for _, p in found if p.upper_product is None)}"
    return {
        "model": model,
        "weights": None if weights is None else str(weights),
        "networks": len(found),
        "data": samples.name,
        "note": samples.note,
        "inputs": first.inputs,
        "estimator": first.logits.estimator,
        "seed": seed,
        "variants": variants,
        "per_class": per_class,
        "bounds": bounds,
    }


def _cell(values: list[Any]) -> Cell:
    """One number with its own error, or the mean over networks with the error of that mean."""
    from netgrain.geometry.estimate import Estimate

    if any(v is None or not math.isfinite(v) for v in values):
        return {"value": None, "stderr": None, "n": len(values)}
    numbers = [float(v) for v in values]
    if len(numbers) == 1:
        one = values[0] if isinstance(values[0], Estimate) else Estimate(numbers[0])
        return {"value": one.value, "stderr": one.stderr, "n": one.n}
    mean = math.fsum(numbers) / len(numbers)
    variance = math.fsum((v - mean) ** 2 for v in numbers) / (len(numbers) - 1)
    return {"value": mean, "stderr": math.sqrt(variance / len(numbers)), "n": len(numbers)}


def _text(cell: Cell) -> str:
    from netgrain.geometry.estimate import Estimate

    if cell["value"] is None:
        return "none"
    if not cell["stderr"]:
        return f"{cell['value']:.4g}"
    return Estimate(cell["value"], cell["stderr"], cell["n"]).with_error


def _print(report: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    which = f"weights of {report['weights']}" if report["weights"] else f"fresh, seed {report['seed']}"
    if report["networks"] > 1:
        which = f"mean ± standard error over {report['networks']} networks, {which}"
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for title in ("variants", "bounds"):
        for name, cell in report[title].items():
            meaning = cell.get("note") or MEANINGS[name]
            table.add_row(Text(LABELS.get(name, name)), Text(_text(cell)), Text(meaning))
        table.add_row()
    for position, (name, cell) in enumerate(report["per_class"].items()):
        table.add_row(Text(f"class {name}"), Text(_text(cell)), Text("" if position else "GC on the points of a class"))
    typer.echo(f"{report['model']}: {which}\n{report['data']}: {report['inputs']}; {report['note']}")
    typer.echo(f"slopes are per unit of this input; estimator: {report['estimator']}\n")
    Console(highlight=False, width=None if sys.stdout.isatty() else FILE_WIDTH).print(table)
