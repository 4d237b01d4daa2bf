"""The command `netgrain what-if`: the score expected of a changed network, beside that of the network as it is."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

from netgrain.cli.options import DataOptions, Model, Numbers, Seed, option
from netgrain.cli.output import Answer
from netgrain.cli.parsing import family_from_text
from netgrain.cli.writing import write_numbers
from netgrain.models.specs import plain_value
from netgrain.runtime.errors import NetgrainError

if TYPE_CHECKING:
    from netgrain.auditing.advised import Row
    from netgrain.auditing.known_network import Change
    from netgrain.data.dataset import Dataset
    from netgrain.families.members import Family

EXAMPLES = """  netgrain what-if lenet --data mnist --swap "layers.2=MaxPool2d(2)" --swap "layers.5=MaxPool2d(2)"
  netgrain what-if mlp --data digits --set width=0.5 --set norm=batch
  netgrain what-if resnet18:width=0.125 --data digits --resize 16
  netgrain what-if my_model.py:Net --data my.npz --swap "pool1=AvgPool2d(2)" --json"""

MOST_DIRECTIONS = 256  # entries of an input whose directions are counted unasked


def what_if(
    model: Model,
    samples_from: DataOptions,
    swap: Annotated[
        list[str] | None,
        option("NAME=LAYER", 'A submodule and what replaces it, as "pool1=AvgPool2d(2)"; may be given again.'),
    ] = None,
    options: Annotated[
        list[str] | None,
        option("OPTION=VALUE", "An option of the model, as width=0.5; may be given again.", "--set"),
    ] = None,
    resize: Annotated[int | None, option("N", "Resize the images to N x N in the changed network.")] = None,
    samples: Annotated[
        int | None, option("N", "Number of random samples to use (default: by a fixed cost, at most 1000).")
    ] = None,
    seed: Seed = 0,
    out: Numbers = None,
) -> Answer:
    """Predict the accuracy of a changed network and of the network as it is, on the same samples."""
    if not swap and not options and resize is None:
        raise NetgrainError("what-if expects a change, found none; give --swap, --set or --resize.")
    from netgrain.auditing.advice import scores_of

    data = samples_from.load(seed)
    make = _family(model, data)
    change = _changed(make, data, swap or (), options or (), resize)
    found = scores_of(make, change, data.X, data.labels, samples=samples, seed=seed)
    counts = _directions(make, change, data, seed) if resize is None else None
    document = {"model": model, "data": data.name, "note": data.note, **found.as_dict(), "directions": counts}
    document["measure"] = "R²" if data.target == "numbers" else "accuracy"
    return Answer(document, _shown(document, found), written=write_numbers(out, document))


def _family(model: str, data: Dataset) -> Family:
    return family_from_text(model, data.shape, outputs=data.outputs)


def _changed(make: Family, data: Dataset, swaps: Sequence[str], options: Sequence[str], resize: int | None) -> Change:
    """All changes together: options first, then layers, then what stands before the input."""
    from netgrain.auditing.catalogue import resolution_change
    from netgrain.auditing.known_network import Change, Known
    from netgrain.auditing.model_options import with_options
    from netgrain.auditing.swapped import Swapped
    from netgrain.auditing.swaps import parsed_swaps

    family, says = make, []
    if values := _set(options):
        family = with_options(family, **values)
        says += [f"{name}={value}" for name, value in values.items()]
    if swaps:
        family = Swapped(family, parsed_swaps(swaps))
        family.check_fits(data.shape)
        says.append(family.changes)
    if resize is not None:
        found = resolution_change(Known(family, data.X), resize)
        if found is None:
            raise NetgrainError(f"the network does not take images of {resize} × {resize}; choose another size.")
        family, says = found.family, [*says, found.change]
    text = ", ".join(says)
    return Change(text, text, "what if", family)


def _set(options: Sequence[str]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for written in options:
        name, equals, value = (part.strip() for part in written.partition("="))
        if not name or not equals or not value:
            raise NetgrainError(f"--set expects OPTION=VALUE, as in width=0.5; found '{written}'.")
        values[name] = plain_value(value)
    return values


def _directions(make: Family, change: Change, data: Dataset, seed: int) -> dict[str, list[int | None]] | None:
    """Numbers of directions that carry 99 % of G at the origin, where both have a closed form."""
    if math.prod(data.shape) > MOST_DIRECTIONS:
        return None
    from netgrain.geometry.average import average_geometry

    try:
        pair = [
            average_geometry(f, data.shape, method="closed-form", seed=seed, progress=False)
            for f in (make, change.family)
        ]
    except NetgrainError:  # one of them would have to be sampled
        return None
    return {"for 99 %": [G.directions_for(0.99) for G in pair], "of": [G.d for G in pair]}


def _shown(document: dict[str, Any], found: Row) -> Iterator[Any]:
    gain, measure = found.gain, document["measure"]
    yield f"{document['data']}: {document['note']}\n"
    verdict = "predicted to help" if gain.clear else "no clear gain: the interval holds 0"
    if replace(gain, value=-gain.value).clear:
        verdict = "predicted to harm"
    rows = [
        ("change", found.change),
        ("verdict", verdict),
        (f"expected {measure}", f"{_percent(found.before)} as it is, {_percent(found.after)} with the change"),
        ("gain", f"{100 * gain.value:+.1f} ± {100 * gain.stderr:.1f} points, paired over {gain.n} samples"),
        (
            "its error",
            f"samples {100 * gain.samples:.1f}, random networks {100 * gain.members:.1f}, what training does "
            f"{100 * gain.model:.1f}",
        ),
    ]
    if not math.isnan(found.cost_ratio):
        rows.append(("cost", f"{found.cost_ratio:.2g} times the operations of a prediction"))
    if document["directions"] is not None:
        before, after = document["directions"]["for 99 %"]
        rows.append(
            ("directions", f"{before} → {after} of {document['directions']['of'][0]} carry 99 % of the reaction")
        )
    yield rows


def _percent(score: Any) -> str:
    return f"{100 * float(score):.1f} ± {100 * score.stderr:.1f} %"
