"""The command `netgrain complexity`: how steep a network is on data, in all variants, with bounds."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

from netgrain.cli.options import DataOptions, Model, Numbers, Seed, WeightOptions, option
from netgrain.cli.output import Answer, plain_table
from netgrain.cli.parsing import family_from_text
from netgrain.cli.writing import write_numbers
from netgrain.runtime.errors import NetgrainError

if TYPE_CHECKING:
    from rich.table import Table
    from torch import nn

    from netgrain.complexity.estimators import Estimator
    from netgrain.complexity.lipschitz import LipschitzProfile
    from netgrain.complexity.variants import Complexities
    from netgrain.data.dataset import Dataset

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
Cell = dict[str, Any]  # value, stderr, n as in Estimate.as_dict, and a note


def complexity(
    model: Model,
    samples: DataOptions,
    trained: WeightOptions,
    members: Annotated[
        int | None,
        option("N", f"Number of random networks to average over, without --weights (default: {MEMBERS})."),
    ] = None,
    estimator: Annotated[str, option("NAME", "auto, exact, forward, vjp, jvp or outputs (random vectors).")] = "auto",
    rel_error: Annotated[float, option("E", "Relative standard error that random vectors aim at.")] = 0.02,
    seed: Seed = 0,
    out: Numbers = None,
) -> Answer:
    """Measure how steep a network is on data: geometric complexity GC = mean ‖∂f/∂x‖², its variants, and bounds.

    Without --weights the networks are freshly initialised, and the numbers are mean ± standard error over them.
    """
    if members is not None and members < 1:
        raise NetgrainError(f"--members must be at least 1, found {members}.")
    if members is not None and trained.weights is not None:
        raise NetgrainError(
            "--members and --weights cannot be combined: --weights already names the network to measure."
        )
    from netgrain.families.members import member, trained_model
    from netgrain.models.checkpoints import read_weights, warn_near_chance

    data = trained.load(samples, seed)
    make = family_from_text(model, data.shape, outputs=data.outputs)
    if trained.weights is None:
        networks: list[Callable[[], nn.Module]] = [partial(member, make, seed, i) for i in range(members or MEMBERS)]
    else:
        network = trained_model(make, read_weights(trained.weights))
        warn_near_chance(network, data.X, data.y)
        networks = [lambda: network]
    found = _measured(networks, data, estimator, rel_error, seed)
    report = _report(model, data, trained.weights, seed, found)
    return Answer(report, _shown(report), written=write_numbers(out, report))


def _measured(
    networks: Sequence[Callable[[], nn.Module]], data: Dataset, estimator: str, rel_error: float, seed: int
) -> list[tuple[Complexities, LipschitzProfile]]:
    from netgrain.complexity.lipschitz import lipschitz_profile
    from netgrain.complexity.variants import complexities
    from netgrain.runtime.devices import best_device
    from netgrain.runtime.progress import Bar

    found = []
    inner = None if len(networks) == 1 else False  # one bar, not two
    with Bar("networks", len(networks), None if len(networks) > 1 else False) as bar:
        for make in networks:
            network = make().to(best_device())
            variants = complexities(
                network,
                data.X,
                data.y if data.target == "classes" else None,
                classes=data.classes,
                estimator=cast("Estimator", estimator),
                rel_error=rel_error,
                seed=seed,
                progress=inner,
            )
            found.append((variants, lipschitz_profile(network, data.X, seed=seed, progress=inner)))
            bar.advance()
    return found


# --- what is printed --------------------------------------------------------------------------------------------------


def _report(
    model: str, samples: Dataset, weights: Path | None, seed: int, found: list[tuple[Complexities, LipschitzProfile]]
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


def _shown(report: dict[str, Any]) -> Iterator[str | Table]:
    which = f"weights of {report['weights']}" if report["weights"] else f"fresh, seed {report['seed']}"
    if report["networks"] > 1:
        which = f"mean ± standard error over {report['networks']} networks, {which}"
    rows: list[tuple[str, ...]] = []
    for title in ("variants", "bounds"):
        for name, cell in report[title].items():
            rows.append((LABELS.get(name, name), _text(cell), cell.get("note") or MEANINGS[name]))
        rows.append(("", "", ""))
    for position, (name, cell) in enumerate(report["per_class"].items()):
        rows.append((f"class {name}", _text(cell), "" if position else "GC on the points of a class"))
    yield f"{report['model']}: {which}\n{report['data']}: {report['inputs']}; {report['note']}"
    yield f"slopes are per unit of this input; estimator: {report['estimator']}\n"
    yield plain_table(None, rows)
