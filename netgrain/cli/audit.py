"""The commands about a model and a data set: audit, compare; about a model alone: visible, card."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from netgrain.cli.options import (
    AnyProbe,
    DataOptions,
    DataProbe,
    Input,
    Keep,
    Members,
    Memory,
    Model,
    Numbers,
    Seed,
    SwitchedOn,
    WeightOptions,
    argument,
    known_model,
    option,
    out_file,
    out_folder,
    switch,
)
from netgrain.cli.output import FAILED, Answer
from netgrain.cli.parsing import family_from_text, parse_input, parse_probe
from netgrain.cli.writing import is_one_file, write_all, write_numbers
from netgrain.runtime.errors import NetgrainError

if TYPE_CHECKING:
    from netgrain.auditing.audits import Audit
    from netgrain.auditing.cards import Card
    from netgrain.data.dataset import Dataset
    from netgrain.families.members import Family

AUDIT_EXAMPLES = """  netgrain audit resnet18:width=0.25 --data digits --out report.html
  netgrain audit lenet --data cifar10 --data-dir data --size 16 --out report.html
  netgrain audit my_model.py:Net --data my.npz --weights trained.safetensors
  netgrain audit timm:resnet18 --data photos/ --size 32
  netgrain audit lenet --data mnist --what-if "layers.2=MaxPool2d(2)"
  netgrain audit mlp --data digits --quick --fail-if "accuracy < 0.8" --fail-if "network.parameters > 1e6"
"""
COMPARE_EXAMPLES = """  netgrain compare mlp resnet18:width=0.25 --data digits --out compare.html
  netgrain compare mlp my_model.py:Net --data my.npz --json
  netgrain compare mlp vit:patch=4 --data digits --quick"""
VISIBLE_EXAMPLES = """  netgrain visible resnet18 --signal defect.npy
  netgrain visible my_model.py:Net --signal pattern.npy --probe data:images.npy --json"""
CARD_EXAMPLES = """  netgrain card lenet --input 1x32x32 --out card
  netgrain card my_model.py:Net --input 3x64x64"""

REPORT, COMPARISON = Path("report.html"), Path("compare.html")  # written by default, unless --json was asked for


def _condition(text: str) -> None:
    from netgrain.auditing.conditions import condition

    condition(text)


Page = Annotated[
    Path, out_file("The page, .html; or .json for numbers alone. Replaces a file of that name.", ".html", ".json")
]
Quick = Annotated[bool, switch("--quick", "Spend less: at most 500 samples, no short training, fewer sections.")]
Trial = Annotated[
    bool | None,
    switch("--trial/--no-trial", "Run a short training, too (default: where its cost in steps allows it)."),
]
Advice = Annotated[
    bool | None,
    switch("--advice/--no-advice", "Try all changes of the catalogue, or none (default: what a fixed cost allows)."),
]
Measured = Annotated[int, option("N", "Number of random samples to measure, at least 32.")]
FailIf = Annotated[
    list[str] | None,
    option(
        "CONDITION",
        'End with exit code 1 if this holds, as in "accuracy < 0.8"; any number of the JSON by its path, as in '
        '"expected.curve.twice >= 0.9"; may be given again.',
        check=_condition,
    ),
]


def audit(
    model: Model,
    samples_from: DataOptions,
    trained: WeightOptions,
    out: Page = REPORT,
    samples: Measured = 2000,
    trial: Trial = None,
    advice: Advice = None,
    quick: Quick = False,
    fail_if: FailIf = None,
    what_if: Annotated[
        list[str] | None,
        option("NAME=LAYER", 'A change to try, as "pool1=AvgPool2d(2)"; may be given again.'),
    ] = None,
    keep: Keep = 0.7,
    probe: DataProbe = "data",
    members: Members = None,
    seed: Seed = 0,
    as_json: bool = False,
) -> Answer:
    """Say what to expect from a network on your data, what limits it and what to do, and write a page about it.

    Exit codes: 0 done, 1 a condition of --fail-if holds, 2 bad input.
    """
    from netgrain.auditing.conditions import condition
    from netgrain.auditing.swaps import parsed_swaps
    from netgrain.auditing.verdicts import few_lines
    from netgrain.families.members import trained_model
    from netgrain.models.checkpoints import read_weights, warn_near_chance

    state = None if trained.weights is None else read_weights(trained.weights)
    data, new = trained.load_with_test(samples_from, seed)
    test = None if new is None or new.y is None else (new.X, new.y)
    if state is not None:
        warn_near_chance(trained_model(_family(model, data), state), data.X, data.y)
    chosen = {"probe": probe, "keep": keep, "members": members, "seed": seed}
    effort = {"samples": samples, "trial": trial, "quick": quick, "advice": advice}
    found = _audited(model, data, weights=state, test=test, swaps=parsed_swaps(what_if or ()), **chosen, **effort)
    if not as_json or out != REPORT:
        found.save(out)
    failed = [f"{c}: {c.value(found.report):.4g}" for c in map(condition, fail_if or ()) if c.holds(found.report)]
    shown: list[str | list[tuple[str, str]]] = [
        few_lines(found.report),
        f"\nthe page is {out}",
        *(f"condition holds: {text}" for text in failed),
    ]
    return Answer(found.report, shown, code=FAILED if failed else 0)


def compare(
    models: Annotated[
        list[str],
        argument("MODEL MODEL …", "Two or more families of networks.", check=known_model),
    ],
    samples_from: DataOptions,
    out: Page = COMPARISON,
    samples: Measured = 2000,
    trial: Trial = None,
    quick: Quick = False,
    probe: DataProbe = "data",
    members: Members = None,
    seed: Seed = 0,
    as_json: bool = False,
) -> Answer:
    """Rank several networks by the accuracy to expect on one data set, with what each costs, and write a page."""
    if len(models) < 2:
        raise NetgrainError(f"compare expects two or more models, found {len(models)}; for one use netgrain audit.")
    from netgrain.auditing.comparisons import compare as side_by_side

    data = samples_from.load(seed)
    chosen = {"probe": probe, "members": members, "seed": seed, "samples": samples, "trial": trial, "quick": quick}
    found = side_by_side([_audited(m, data, **chosen) for m in models])
    if not as_json or out != COMPARISON:
        found.save(out)
    return Answer(found.report, [found.lines(), f"\nthe page is {out}"])


def _family(model: str, data: Dataset) -> Family:
    return family_from_text(model, data.shape, outputs=data.outputs)


def _audited(model: str, data: Dataset, **chosen: Any) -> Audit:
    from netgrain.auditing.audits import audit as audited

    return audited(
        _family(model, data),
        data.X,
        data.y,
        target=None if data.target == "none" else data.target,
        name=model,
        data=data.name,
        note=data.note,
        classes=data.classes,
        features=data.features or None,
        **chosen,
    )


def visible(
    model: Model,
    signal: Annotated[Path, option("FILE.npy", "The pattern, an array of the input's shape.")],
    probe: AnyProbe = "auto",
    members: Members = None,
    seed: Seed = 0,
    out: Numbers = None,
) -> Answer:
    """Measure how strongly random networks react to a pattern: its gain, its rank, and the layer that loses it."""
    from netgrain.auditing.signals import visible as seen
    from netgrain.data.arrays import read_tensors

    (pattern,) = read_tensors(signal, "signal")
    shape = tuple(pattern.shape)
    make = family_from_text(model, shape)
    found = seen(make, pattern, input_shape=shape, probe=parse_probe(probe), members=members, seed=seed)
    document = found.as_dict()
    return Answer(document, [repr(found)], written=write_numbers(out, document))


def card(
    model: Model,
    shape: Input,
    out: Annotated[Path, out_folder("Folder for grain.png and grain.md.", ".md", ".png")] = Path("card"),
    probe: AnyProbe = "auto",
    members: Members = None,
    switched_on: SwitchedOn = False,
    seed: Seed = 0,
    memory: Memory = None,
) -> Answer:
    """Make one picture and a few lines of Markdown about a network's grain, for a README or a model card."""
    from netgrain.auditing.cards import card as made
    from netgrain.geometry.average import average_geometry

    sizes = parse_input(shape)
    G = average_geometry(
        family_from_text(model, sizes),
        sizes,
        probe=parse_probe(probe),
        members=members,
        switched_on=switched_on,
        seed=seed,
        memory=memory,
    )
    page = made(model, G)
    picture = out.with_suffix(".png").name if is_one_file(out) else "grain.png"
    text = page.markdown(picture)
    place = out.parent if out.suffix.casefold() == ".md" and is_one_file(out) else out  # its picture stands beside it
    files = write_all(place, partial(_card, page, picture))
    return Answer({"text": text, "files": [str(file) for file in files]}, [text], written=files)


def _card(page: Card, picture: str) -> dict[str, bytes]:
    """The picture and the text that names it."""
    from netgrain.geometry.plots import png

    return {picture: png(page.figure()), Path(picture).with_suffix(".md").name: page.markdown(picture).encode()}
