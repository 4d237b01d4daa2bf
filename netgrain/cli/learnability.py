"""The command `netgrain learnability`: the score that networks will reach on data, told before they are trained."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from netgrain.cli.options import DataOptions, Seed, WeightOptions, argument, known_model, option, out_file, switch
from netgrain.cli.output import Answer, plain_table
from netgrain.cli.parsing import family_from_text
from netgrain.cli.writing import write_figure_or_numbers
from netgrain.runtime.errors import NetgrainError

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.table import Table

    from netgrain.data.dataset import Dataset
    from netgrain.learning.outcome import Learnability
    from netgrain.learning.rankings import Place
    from netgrain.learning.targets import Target

EXAMPLES = """  netgrain learnability mlp --data digits
  netgrain learnability lenet resnet18:width=0.125 --data cifar10 --data-dir data --size 16 --out scores.png
  netgrain learnability my_models.py:Net --data my.npz --no-trial --json
  netgrain learnability my_models.py:Net --data my.npz --weights trained.safetensors"""


def learnability(
    models: Annotated[
        list[str],
        argument("MODEL [MODEL …]", "Families of networks; several give one ranking.", check=known_model),
    ],
    samples_from: DataOptions,
    trained: WeightOptions,
    samples: Annotated[int, option("N", "Largest number of random samples to use, at least 20.")] = 2000,
    members: Annotated[
        int | None, option("N", "Number of random networks behind each kernel (default: chosen by the kernel).")
    ] = None,
    trial: Annotated[
        bool | None,
        switch("--trial/--no-trial", "Run a short training, too (default: where its cost in steps allows it)."),
    ] = None,
    out: Annotated[Path | None, out_file("Write a picture, .png, or the numbers, .json.", ".png", ".json")] = None,
    seed: Seed = 0,
) -> Answer:
    """Predict the accuracy that networks will reach on data, before they are trained, and say when not to trust it."""
    if trained.weights is not None and (len(models) > 1 or members is not None):
        raise NetgrainError(
            "--weights names one network, so it cannot be combined with several models or --members; leave those out."
        )
    from netgrain.learning.rankings import ranking

    data = trained.load(samples_from, seed)
    if data.y is None:
        raise NetgrainError(
            f"learnability needs labels, and {data.name} has none; name their column with --label, save them as y, or "
            "leave --no-label out."
        )
    found = {
        model: _predicted(model, data, trained, samples=samples, members=members, trial=trial, seed=seed)
        for model in dict.fromkeys(models)
    }
    places = ranking(list(found.values()), list(found))
    document = {
        "data": data.name,
        "note": data.note,
        "models": {name: f.as_dict() for name, f in found.items()},
        "ranking": [{"model": p.name, "score": p.score.as_dict(), "like_best": p.like_best} for p in places],
        "picture": str(out) if out is not None and out.suffix.casefold() == ".png" else None,
    }
    written = write_figure_or_numbers(out, partial(_picture, found, places), document)
    return Answer(document, _shown(data, found, places), written=written)


def _predicted(model: str, data: Dataset, trained: WeightOptions, **chosen: Any) -> Learnability:
    from netgrain.families.members import trained_model
    from netgrain.learning.predictions import learnability as predicted
    from netgrain.models.checkpoints import read_weights

    make = family_from_text(model, data.shape, outputs=data.outputs)
    network = make if trained.weights is None else trained_model(make, read_weights(trained.weights))
    target: Target = "numbers" if data.target == "numbers" else "classes"
    return predicted(network, data.X, data.labels, classes=data.classes, target=target, **chosen)


def _picture(found: dict[str, Learnability], places: tuple[Place, ...]) -> Figure:
    from netgrain.learning.plots import picture, ranking_picture

    only = next(iter(found.values()))
    return picture(only) if len(found) == 1 else ranking_picture(places, only)


def _shown(data: Dataset, found: dict[str, Learnability], places: tuple[Place, ...]) -> Iterator[Any]:
    yield f"{data.name}: {len(data.X)} samples; {data.note}\n"
    if len(found) > 1:
        yield _ranking_table(places, next(iter(found.values())).measure)
        if all(f.combined is not None for f in found.values()):
            yield "The ranking combines the kernel and the trial training of each network."
    for name, f in found.items():
        yield f"\n{name}" if len(found) > 1 else name
        yield f.rows()
    for remark in dict.fromkeys(remark for f in found.values() for remark in f.remarks):
        yield f"· {remark}"


def _ranking_table(places: tuple[Place, ...], measure: str) -> Table:
    rows = [
        (
            p.name,
            f"{float(p.score):.3f} ± {p.score.stderr:.3f}",
            "best" if i == 0 else "cannot tell apart from the best" if p.like_best else "lower",
            "features must be learnt" if p.warning else "",
        )
        for i, p in enumerate(places)
    ]
    return plain_table(("model", f"expected {measure}", "verdict", "warning"), rows)
