"""Layers by type, name and shape: what each makes of the differences between your samples, fresh and trained."""

from __future__ import annotations

from typing import Any

from netgrain.auditing.layer_responses import TOGETHER, LayerResponse, layer_responses, loser
from netgrain.auditing.sections.contract import (
    Alert,
    Report,
    Section,
    Sentence,
    Subject,
    estimate,
    number,
    said,
    with_error,
)
from netgrain.families.members import member, trained_model
from netgrain.families.reading import read
from netgrain.families.sizes import operations
from netgrain.runtime.errors import NetgrainError

MEMBERS, FEWEST_MEMBERS = 4, 2
SAMPLES = 64
WORK = 4e11  # floating-point operations of all passes: 10 to 20 s of one core
STRONG = 3.0  # by which factor training must have changed a gain to be named
CONSTANT = 0.01  # share of the last layer's energy that differs between samples below which an alert is raised
SILENT = 0.5  # share of units that say the same of every sample, from which a note is raised


def measure(subject: Subject) -> dict[str, Any]:
    """The key layers: its rows, and the layers that lose most; no rows where there is nothing to look into."""
    reading = read(subject.make, subject.shape, subject.seed)
    members, count = affordable(operations(reading), trained=subject.weights is not None)
    X = subject.some_samples(count, "audit layers")
    try:
        calls = reading.calls()
        fresh = layer_responses(
            [member(subject.make, subject.seed, i, subject.device) for i in range(members)], calls, X, seed=subject.seed
        )
        after = None
        if subject.weights is not None:
            model = trained_model(subject.make, subject.weights).to(subject.device)
            after = layer_responses([model], calls, X, seed=subject.seed, over="samples")
    except NetgrainError as e:  # members that call different layers, or one sample
        return {"layers": {"rows": [], "why": str(e)}}
    by_name = {r.name: r for r in after or ()}
    return {
        "layers": {
            "rows": [_row(r, by_name.get(r.name)) for r in fresh],
            "loses": _loses(loser(fresh)),
            "trained_loses": None if after is None else _loses(loser(after)),
            "members": members,
            "samples": len(X),
            "why": "",
        }
    }


def affordable(operations: float, *, trained: bool) -> tuple[int, int]:
    """Networks and samples that the budget allows for a network of so many operations.

    >>> affordable(1e6, trained=False), affordable(5e9, trained=True), affordable(1e12, trained=True)
    ((4, 64), (2, 8), (2, 8))
    """
    passes = WORK / operations
    members = MEMBERS if passes >= 2 * TOGETHER * (MEMBERS + trained) * 2 else FEWEST_MEMBERS
    count = passes / (2 * (members + trained))
    return members, min(SAMPLES, max(TOGETHER, int(count) // TOGETHER * TOGETHER))


def _row(fresh: LayerResponse, trained: LayerResponse | None) -> dict[str, Any]:
    return {
        "name": fresh.name,
        "type": fresh.kind,
        "shape": list(fresh.shape),
        **_numbers(fresh),
        "trained": None if trained is None else _numbers(trained),
    }


def _numbers(r: LayerResponse) -> dict[str, Any]:
    named = {"gain": r.gain, "factor": r.factor, "response": r.response, "differs": r.differs}
    return {**{name: estimate(value) for name, value in named.items()}, "silent": number(r.silent)}


def _loses(row: LayerResponse | None) -> dict[str, Any] | None:
    return None if row is None else {"name": row.name, "type": row.kind, "factor": estimate(row.factor)}


def sentences(report: Report) -> list[Sentence]:
    """Where the differences between samples are lost, and where training changed that most."""
    layers = report["layers"]
    if not layers["rows"]:
        return []
    found = [said(f"Fresh networks: {_lost(layers['loses'])}", MEANING)]
    if layers["rows"][0]["trained"] is not None:
        changed = changed_most(layers["rows"])
        more = "" if changed is None else f" {changed}"
        found.append(said(f"Your checkpoint: {_lost(layers['trained_loses'])}{more}", MEANING))
    return found


MEANING = (
    "The gain of a layer is how far its output moves between two of your samples, over how far it moves when a sample "
    "gets white noise of the same size (both squared). It is 1 before the first layer. A layer whose gain is lower "
    "than that of the layer before it loses more of what differs between your samples than of noise."
)


def _lost(loses: Report | None) -> str:
    if loses is None:
        return "no layer loses more of what differs between your samples than of white noise."
    factor = with_error(loses["factor"]["value"], loses["factor"]["stderr"])
    return (
        f"most of what differs between your samples is lost at {where(loses)}, whose gain over noise is {factor} times "
        "that of what enters it."
    )


def where(row: Report) -> str:
    """A layer in words: its name, and its type where it has one.

    >>> where({"name": "stem.conv", "type": "Conv2d"}), where({"name": "output", "type": ""})
    ("'stem.conv' (Conv2d)", "'output' (outside of layers)")
    """
    return f"'{row['name']}' ({row['type'] or 'outside of layers'})"


def changed_most(rows: list[dict[str, Any]]) -> str | None:
    """The layer whose gain training changed most, in words; None where none changed by a factor of STRONG."""

    def change(row: Report) -> float:
        before, after = row["gain"]["value"], row["trained"]["gain"]["value"]
        return after / before if before and after else 1.0

    measured = [row for row in rows if row["trained"] is not None]
    most = max(measured, key=lambda row: max(change(row), 1 / change(row)), default=None)
    if most is None or max(change(most), 1 / change(most)) < STRONG:
        return None
    times, verb = (change(most), "raised") if change(most) > 1 else (1 / change(most), "lowered")
    return f"Training {verb} the gain most at {where(most)}, by a factor of {times:.2g}."


def alerts(report: Report) -> list[Alert]:
    """A checkpoint, or fresh networks, whose outputs hardly depend on the sample, or whose units are mostly silent."""
    rows = report["layers"]["rows"]
    if not rows:
        return []
    whose, key = ("your checkpoint", "trained") if rows[0]["trained"] is not None else ("fresh networks", None)
    numbers = [(row, row[key] if key else row) for row in rows]
    found: list[Alert] = []
    if numbers[-1][1]["response"]["value"] == 0:
        first = next(row for row, n in numbers if n["response"]["value"] == 0)
        found.append(
            {
                "level": "error",
                "title": "The output is the same for every sample",
                "evidence": f"In {whose}, {where(first)} is the first layer whose output does not differ between "
                f"{report['layers']['samples']} samples.",
                "action": "Look at the input's scale and at the biases of the layer before it; load another checkpoint "
                "if training has diverged.",
                "panel": "layers",
                "weight": 50.0,
            }
        )
    activations = [(row, n["silent"]) for row, n in numbers if n["silent"] is not None]
    row, share = max(activations, key=lambda pair: pair[1], default=(None, 0.0))
    if row is not None and share >= SILENT and not found:
        found.append(
            {
                "level": "note",
                "title": f"{share:.0%} of the units of {where(row)} are silent",
                "evidence": f"In {whose}, they give the same output for all of {report['layers']['samples']} samples.",
                "action": "Make this layer narrower, or lower the learning rate if units died in training.",
                "panel": "layers",
                "weight": 1.0,
            }
        )
    return found


SECTION = Section(order=80, measure=measure, sentences=sentences, alerts=alerts, title="Layers / what-if")
