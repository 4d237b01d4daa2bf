"""Changes: those of a catalogue, ranked by the gain that is predicted, and those that the user wants to try."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from netgrain.auditing.advice import BUDGET, advise, settled, tried_change
from netgrain.auditing.advised import Advice
from netgrain.auditing.axes import axes_of
from netgrain.auditing.known_network import Change
from netgrain.auditing.label_relevance import relevance
from netgrain.auditing.paired_gains import Judged, Paired, judged, paired
from netgrain.auditing.sections.contract import Alert, Report, Section, Sentence, Subject, said
from netgrain.auditing.sections.grain import spectrum_of
from netgrain.auditing.swapped import Swapped
from netgrain.data.resizing import area_resized
from netgrain.families.members import forward, member, model_dtype
from netgrain.learning.outcome import Learnability
from netgrain.learning.predictions import learnability
from netgrain.learning.targets import FEWEST_SAMPLES, Target
from netgrain.runtime.errors import NetgrainError

WHEN = ("before", "after")
LARGEST_SIDE = 64  # images are reduced to it before the catalogue is tried, unless all of it is asked for
SHOWN = 3  # alerts at most
TRIED = True  # whether the catalogue is tried unless the user says


def measure(subject: Subject) -> dict[str, Any]:
    """The key what_if: a row for each change of the user; the key advice: the catalogue, None where it is not tried."""
    tried = (TRIED if subject.advice is None else subject.advice) and _labels(subject) is not None
    expected = _expected(subject) if subject.swaps or tried else None
    found: dict[str, Any] = {"what_if": _what_if(subject, expected), "advice": None}
    if tried and (advice := _advice(subject, expected)) is not None:
        found["advice"] = advice.as_dict()
    return found


def _labels(subject: Subject) -> Tensor | None:
    """Classes or numbers, as learnability takes them; None where there are none, or too few samples."""
    return subject.y if len(subject.X) >= FEWEST_SAMPLES else None


def _target(subject: Subject) -> Target:
    return "numbers" if subject.y is not None and subject.y.is_floating_point() else "classes"


def _expected(subject: Subject) -> Learnability | None:
    y = _labels(subject)
    if subject.expected is not None or y is None:
        return subject.expected
    try:
        n = settled(subject.make, subject.X, BUDGET, seed=subject.seed)[0]
        chosen: dict[str, Any] = {"target": _target(subject), "samples": n, "seed": subject.seed}
        return learnability(
            subject.make, subject.X, y, kinds=("layers",), trial=False, grain=False, progress=False, **chosen
        )
    except NetgrainError:  # one class, or features that are the same for all samples
        return None


# --- the catalogue ----------------------------------------------------------------------------------------------------


def _advice(subject: Subject, expected: Learnability | None) -> Advice | None:
    y, X, G = _labels(subject), subject.X, subject.G
    assert y is not None
    if X.dim() == 4 and max(X.shape[2:]) > LARGEST_SIDE and not subject.advice:
        X = area_resized(X, LARGEST_SIDE)
        try:
            model = member(subject.make, subject.seed, 0)
            with torch.no_grad():
                forward(model, X[:2].to(model_dtype(model)))
        except NetgrainError:  # this network takes no smaller images
            return None
    try:
        return advise(
            subject.make,
            X,
            y,
            target=_target(subject),
            expected=expected,
            G=G if G.d == X[0].numel() else None,
            budget=None if subject.advice else BUDGET,
            seed=subject.seed,
            progress=False,
        )
    except NetgrainError:  # nothing can be predicted: one class, or features that are the same for all samples
        return None


def sentences(report: Report) -> list[Sentence]:
    """What the catalogue found, in one sentence."""
    advice = report.get("advice")
    if not advice:
        return []
    counts = f"{advice['tried']} changes were tried"
    if advice["left"]:
        counts += f"; {advice['left']} more cost too much for the budget (--advice tries all)"
    clear = [row for row in advice["rows"] if row["clear"]]
    if not clear:
        return [said("No change that was tried is predicted to help beyond its error.", f"{counts}.")]
    first = clear[0]
    text = f"Predicted to help most: {first['change']} ({_points(first['gain'])} points of {advice['measure']})."
    return [said(text, f"{_sentence(first['action'])} {counts}.")]


def alerts(report: Report) -> list[Alert]:
    """Changes whose interval lies above 0, in the order in which they were chosen."""
    advice = report.get("advice") or {"rows": [], "measure": ""}
    clear = [row for row in advice["rows"] if row["clear"]][:SHOWN]
    return [_alert(row, advice["measure"]) for row in clear]


def _alert(row: Mapping[str, Any], measure: str) -> Alert:
    ratio = row["cost_ratio"]
    cost = "" if ratio is None else f"; a prediction then costs {ratio:.2g} times as much"
    if row["kind"] == "samples" or (ratio is not None and 0.95 < ratio < 1.05):
        cost = ""
    return {
        "level": "warning" if row["gain"]["value"] >= 0.1 else "note",
        "title": f"{_capital(row['change'])} would help",
        "evidence": f"Predicted {measure} {_percent(row['before'])} as it is, {_percent(row['after'])} with this "
        f"change: {_points(row['gain'])} points more{cost}.",
        "action": _sentence(row["action"]),
        "panel": "layers",
        "weight": 100 * row["gain"]["value"],
    }


def _points(gain: Mapping[str, Any]) -> str:
    return f"{100 * gain['value']:+.1f} ± {100 * gain['stderr']:.1f}".replace("-", "−")


def _percent(score: Mapping[str, Any]) -> str:
    return f"{100 * score['value']:.0f} ± {100 * score['stderr']:.0f} %"


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _sentence(action: str) -> str:
    return f"{_capital(action).rstrip('.')}."


# --- changes of the user ----------------------------------------------------------------------------------------------


def _what_if(subject: Subject, expected: Learnability | None) -> list[dict[str, Any]]:
    if not subject.swaps:
        return []
    y, over, plain = _labels(subject), None, None
    if y is not None:
        n, members = settled(subject.make, subject.X, BUDGET, seed=subject.seed)
        try:
            over = paired(subject.X, y, target=_target(subject), samples=n, members=members, seed=subject.seed)
            plain = judged(subject.make, over)
        except NetgrainError:  # nothing can be predicted
            over = None
    return [_row(subject, name, layer, expected, over, plain) for name, layer in subject.swaps.items()]


def _row(
    subject: Subject,
    name: str,
    layer: nn.Module,
    expected: Learnability | None,
    over: Paired | None,
    plain: Judged | None,
) -> dict[str, Any]:
    family = Swapped(subject.make, {name: layer})
    family.check_fits(subject.shape)
    after = subject.place.geometry(family, subject.shape, seed=subject.seed, device=subject.device, progress=False)
    axes = axes_of(after)
    found = relevance(axes, subject.X, subject.y, seed=subject.seed).dependence_leading.value
    labels = [None if math.isnan(v) else v for v in (subject.relevance.dependence_leading.value, found)]
    change, counts = f"{name} → {layer}", (subject.axes.leading, axes.leading)
    share = "" if None in labels else f"; label in them {labels[0]:.0%} → {labels[1]:.0%}"
    scores: dict[str, Any] = {"gain": None, "before": None, "after": None, "cost_ratio": None}
    predicted = ""
    if over is not None:
        row = tried_change(subject.make, Change(change, change, "swap", family), over, plain=plain, expected=expected)
        scores = {key: value for key, value in row.as_dict().items() if key in scores}
        predicted = f"; predicted change {_points(scores['gain'])} points of {over.targets.measure}"
    return {
        "change": change,
        "sentence": f"{change}: leading directions {counts[0]} → {counts[1]} of {after.d}{share}{predicted}.",
        "leading": dict(zip(WHEN, counts, strict=True)),
        "labels": dict(zip(WHEN, labels, strict=True)),
        "spectrum": spectrum_of(axes),
        **scores,
    }


SECTION = Section(order=90, measure=measure, sentences=sentences, alerts=alerts, panel="layers")
