"""The commands about a model and a data set: audit, compare; about a model alone: visible, card."""

from __future__ import annotations

import sys
from contextlib import nullcontext, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

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
    check_file,
    check_folder,
    family_from_text,
    known_model,
    one_sentence_errors,
    parse_input,
    print_rows,
)
from netgrain.runtime.errors import NetgrainError

if TYPE_CHECKING:
    from netgrain.auditing.audits import Audit
    from netgrain.data.dataset import Dataset

AUDIT_EXAMPLES = """  netgrain audit resnet18 --data digits --out report.html
  netgrain audit lenet --data cifar10 --data-dir data --size 16 --out report.html
  netgrain audit my_model.py:Net --data my.npz --weights trained.safetensors
  netgrain audit timm:resnet18 --data photos/ --size 32
  netgrain audit lenet --data mnist --what-if "layers.2=MaxPool2d(2)"
  netgrain audit resnet18 --data digits --probe origin
"""
COMPARE_EXAMPLES = """  netgrain compare mlp resnet18 vit:patch=4 --data digits --out compare.html
  netgrain compare mlp my_model.py:Net --data my.npz --json"""

Strict = Annotated[bool, typer.Option("--strict", help="Stop at an image that cannot be read, instead of skipping it.")]
Members = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        help="Number of random networks to average over (default: chosen by the method).",
        show_default=False,
    ),
]
DataProbe = Annotated[
    str, typer.Option(metavar="PROBE", help="Where to take G: data (some of the samples), origin or gaussian:SIGMA.")
]
AnyProbe = Annotated[
    str, typer.Option(metavar="PROBE", help="Where to take G: auto (the origin), origin, gaussian:SIGMA or data:FILE.")
]


def audit(
    model: Model,
    data: DataOption,
    out: Annotated[Path, typer.Option(metavar="FILE", help="The page, .html; or .json for numbers alone.")] = Path(
        "report.html"
    ),
    weights: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="A trained checkpoint: .safetensors or a state dict.", show_default=False),
    ] = None,
    what_if: Annotated[
        list[str] | None,
        typer.Option(
            "--what-if",
            metavar="NAME=LAYER",
            help='A change to try, as "pool1=AvgPool2d(2)"; may be given again.',
            show_default=False,
        ),
    ] = None,
    keep: Annotated[float, typer.Option(metavar="SHARE", help="Share of the samples in the pruned list.")] = 0.7,
    probe: DataProbe = "data",
    data_dir: DataDir = None,
    download: Download = False,
    size: Size = None,
    limit: Limit = None,
    strict: Strict = False,
    members: Members = None,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Write a page about how strongly fresh networks react to the directions of a data set and its labels."""
    with one_sentence_errors(), redirect_stdout(sys.stderr) if as_json else nullcontext():
        check_file(out, ".html", ".json")
        if not 0 < keep <= 1:
            raise NetgrainError(f"--keep expects a share in (0, 1], found {keep:g}.")
        from netgrain.data.sources import load
        from netgrain.models.checkpoints import read_weights

        state = None if weights is None else read_weights(weights)
        samples = load(data, data_dir=data_dir, download=download, size=size, limit=limit, strict=strict, seed=seed)
        found = _audited(model, samples, state, keep, probe, members, seed, what_if or ())
        if not as_json or out != Path("report.html"):
            found.save(out)
    if as_json:
        typer.echo(as_text(found.report))
        return
    print_rows([(MARKS[s["level"]], s["text"]) for s in found.report["sentences"]])
    typer.echo(f"\nthe page is {out}")


def compare(
    models: Annotated[
        list[str],
        typer.Argument(metavar="MODEL MODEL …", help="Two or more families of networks.", callback=known_model),
    ],
    data: DataOption,
    out: Annotated[Path, typer.Option(metavar="FILE", help="The page, .html.")] = Path("compare.html"),
    probe: DataProbe = "data",
    data_dir: DataDir = None,
    download: Download = False,
    size: Size = None,
    limit: Limit = None,
    strict: Strict = False,
    members: Members = None,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Audit several networks on one data set, side by side on one page, with a verdict for each pair."""
    with one_sentence_errors(), redirect_stdout(sys.stderr) if as_json else nullcontext():
        check_file(out, ".html", ".json")
        if len(models) < 2:
            raise NetgrainError(f"compare expects two or more models, found {len(models)}; for one use netgrain audit.")
        from netgrain.auditing.comparisons import compare as side_by_side
        from netgrain.data.sources import load

        samples = load(data, data_dir=data_dir, download=download, size=size, limit=limit, strict=strict, seed=seed)
        found = side_by_side([_audited(m, samples, None, 0.7, probe, members, seed, ()) for m in models])
        if not as_json or out != Path("compare.html"):
            found.save(out)
    if as_json:
        typer.echo(as_text(found.report))
        return
    print_rows([(" and ".join(v["between"]), v["text"]) for v in found.verdicts])
    typer.echo(f"\nthe page is {out}")


MARKS = {"good": "+", "note": "·", "warn": "!", "bad": "!!"}


def _audited(
    model: str,
    samples: Dataset,
    state: Any,
    keep: float,
    probe: str,
    members: int | None,
    seed: int,
    changes: list[str] | tuple[str, ...],
) -> Audit:
    from netgrain.auditing.audits import audit as audited
    from netgrain.auditing.swaps import parsed_swaps

    shape = tuple(samples.X.shape[1:])
    make = family_from_text(model, shape, outputs=max(len(samples.classes), 2))
    return audited(
        make,
        samples.X,
        samples.y,
        name=model,
        data=samples.name,
        note=samples.note,
        classes=samples.classes,
        features=samples.features or None,
        weights=state,
        swaps=parsed_swaps(changes),
        probe=probe,
        keep=keep,
        members=members,
        seed=seed,
    )


# --- about a model alone ----------------------------------------------------------------------------------------------

VISIBLE_EXAMPLES = """  netgrain visible resnet18 --signal defect.npy
  netgrain visible my_model.py:Net --signal pattern.npy --probe data:images.npy --json"""
CARD_EXAMPLES = """  netgrain card lenet --input 1x32x32 --out card
  netgrain card my_model.py:Net --input 3x64x64"""


def visible(
    model: Model,
    signal: Annotated[Path, typer.Option(metavar="FILE.npy", help="The pattern, an array of the input's shape.")],
    probe: AnyProbe = "auto",
    members: Members = None,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """How strongly do fresh networks react to this pattern? Its gain, its rank, and the layer that loses it."""
    with one_sentence_errors(), redirect_stdout(sys.stderr) if as_json else nullcontext():
        from netgrain.auditing.signals import visible as seen
        from netgrain.cli.parsing import parse_probe
        from netgrain.data.arrays import read_tensors

        (pattern,) = read_tensors(signal, "signal")
        shape = tuple(pattern.shape)
        make = family_from_text(model, shape)
        found = seen(make, pattern, input_shape=shape, probe=parse_probe(probe), members=members, seed=seed)
    typer.echo(as_text(found.as_dict()) if as_json else repr(found))


def card(
    model: Model,
    input_shape: Annotated[str, typer.Option("--input", metavar="SHAPE", help="As in 1x32x32.")],
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where grain.png and grain.md go.")] = Path("card"),
    probe: AnyProbe = "auto",
    members: Members = None,
    seed: Seed = 0,
) -> None:
    """One picture and a few lines of Markdown about a network's grain, for a README or a model card."""
    with one_sentence_errors():
        from netgrain.auditing.cards import card as made
        from netgrain.cli.parsing import parse_probe
        from netgrain.geometry.average import average_geometry

        check_folder(out)
        shape = parse_input(input_shape)
        G = average_geometry(
            family_from_text(model, shape), shape, probe=parse_probe(probe), members=members, seed=seed
        )
        written = made(model, G).save(out)
    typer.echo(written.read_text())
    typer.echo(f"written: {written} and {written.with_suffix('.png')}")
