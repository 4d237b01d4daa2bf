"""A trained network: how well it answers, what it reacts to beside fresh ones, where it is steep, how far it moved."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from netgrain.auditing import pictures
from netgrain.auditing.answers import Answers, explained, outputs_at
from netgrain.auditing.checkpoints import (
    Effort,
    over_members,
    parts_of,
    random_samples,
    slopes_beside,
    steepest,
    weight_distance,
)
from netgrain.auditing.places import SHARES
from netgrain.auditing.reaction_maps import as_it_answers, reaction_maps
from netgrain.auditing.sections.checkpoint_words import alerts, sentences
from netgrain.auditing.sections.contract import Figure, Section, Subject, estimate, number
from netgrain.auditing.sections.expected import of_new
from netgrain.auditing.slopes import Slopes, slopes_of
from netgrain.families.members import frozen, member, trained_model
from netgrain.families.reading import read
from netgrain.families.sizes import operations
from netgrain.geometry.estimate import Estimate
from netgrain.runtime.errors import NetgrainError

STEEPEST = 6  # samples that are shown
CLASSES = 10  # that have an image of their own


def measure(subject: Subject) -> dict[str, Any]:
    """The key checkpoint, None without one; and its complexity in the key complexity."""
    model = trained_network(subject)
    if model is None:
        return {"checkpoint": None, "complexity": {"trained": None, "moved": None}}
    given = subject.weights is None
    count = operations(read(subject.make, subject.shape, subject.seed))
    outputs = outputs_at(frozen(model), _on(model, subject.X[:1])).shape[1]
    effort = Effort.for_network(count, outputs)
    fresh = []
    if not given:
        fresh = [member(subject.make, subject.seed, i, subject.device) for i in range(effort.members)]
    some = random_samples(subject.X, effort.samples, subject.seed)
    trained, others = slopes_beside(model, fresh, subject.X[some], effort, seed=subject.seed)
    answers = _answers(subject, model, effort)
    steep = _steepest(subject, model, trained, others, some, effort)
    found = {
        "given": "network" if given else "weights",
        **answers,
        "samples": len(some),
        "members": len(fresh),
        "complexity": {
            "trained": estimate(trained.complexity),
            "fresh": _over_fresh([float(s.complexity) for s in others]),
        },
        "leading": _leading(subject, trained, others),
        "parts": _parts(subject, trained, others, some),
        "moved": _moved(subject, model, fresh, trained, others),
        **steep,
    }
    found["pictures"] = _pictures(subject, model, [row["place"] for row in steep["steepest"]], effort.maps)
    complexity = {"trained": found["complexity"]["trained"], "moved": {"corr": found["moved"]["corr"]}}
    return {"checkpoint": found, "complexity": complexity}


def trained_network(subject: Subject) -> nn.Module | None:
    """The network that the checkpoint is, in eval mode and without gradients."""
    if subject.weights is not None:
        return trained_model(subject.make, subject.weights).to(subject.device)
    network: nn.Module | None = getattr(subject, "network", None)  # given in place of a family
    return None if network is None else as_it_answers(network).to(subject.device)


def _on(model: nn.Module, X: Tensor) -> Tensor:
    first = next(model.parameters())
    return X.to(first.device, first.dtype if first.is_floating_point() else X.dtype)


def _over_fresh(values: list[float]) -> dict[str, Any] | None:
    return estimate(over_members(values)) if values else None


# --- answers ----------------------------------------------------------------------------------------------------------


def _answers(subject: Subject, model: nn.Module, effort: Effort) -> dict[str, Any]:
    """How it answers the samples of the audit, and those that it has not seen; mistakes are those on the latter."""
    found = _answered(subject, model, subject.X, subject.y, effort)
    test: tuple[Tensor, Tensor] | None = getattr(subject, "test", None)
    if test is None or found["accuracy"] is None:
        return {**found, "test": None, "tested": 0}
    new = _answered(subject, model, *test, effort)
    if new["accuracy"] is None:
        return {**found, "test": None, "tested": 0}
    kept = {key: found[key] for key in ("accuracy", "answered", "chance")}
    return {**new, **kept, "test": new["accuracy"], "tested": new["answered"]}


def _answered(subject: Subject, model: nn.Module, X: Tensor, y: Tensor | None, effort: Effort) -> dict[str, Any]:
    """Accuracy or R², mistakes and calibration, with what was expected beside them; Nones without labels."""
    found: dict[str, Any] = {
        **dict.fromkeys(("measure", "accuracy", "chance", "expected", "overconfidence", "calibration_error")),
        "answered": 0,
        "mistakes": [],
    }
    if y is None:
        return found
    rows = random_samples(X, effort.answers, subject.seed)
    outputs = outputs_at(frozen(model), _on(model, X[rows]), 64 if X[0].numel() < 2**14 else 8)
    found |= {"answered": len(rows), "expected": _expected(subject)}
    if y.is_floating_point():
        if y.dim() > 1 and y[0].numel() > 1:
            return found  # several numbers for each sample
        return found | {"measure": "R²", "accuracy": estimate(explained(outputs, y[rows])), "chance": 0.0}
    if int(y.max()) >= max(outputs.shape[1], 2):
        return found  # outputs are no classes
    told = Answers(outputs, y[rows])
    return found | {
        "measure": "accuracy",
        "accuracy": estimate(told.accuracy),
        "chance": number(told.chance),
        "mistakes": [
            {
                "true": _class(subject, m.true),
                "said": _class(subject, m.said),
                "count": m.count,
                "share": estimate(m.share),
            }
            for m in told.mistakes()
        ],
        "overconfidence": estimate(told.overconfidence),
        "calibration_error": number(told.calibration_error),
    }


def _expected(subject: Subject) -> dict[str, Any] | None:
    """The score that was expected on new samples, its whole error, what it was expected of, and with how many samples.

    A network that was trained saw all samples that were given, where only some of them are measured.
    """
    found = subject.expected
    if found is None:
        return None
    of = "a readout of its own features" if subject.weights is None else "fresh networks of this kind, once trained"
    samples = max(found.about.samples, subject.given or 0)
    return {**estimate(of_new(found, samples)), "of": of, "samples": samples}


def _class(subject: Subject, label: int) -> str:
    return subject.classes[label] if label < len(subject.classes) else str(label)


# --- slopes -----------------------------------------------------------------------------------------------------------


def _leading(subject: Subject, trained: Slopes, others: list[Slopes]) -> list[dict[str, Any]]:
    """How much of its reaction lies in the leading directions of the family, and of a fresh network's."""
    rows = []
    for share in SHARES:
        try:
            k = subject.G.directions_for(share)
            V = None if k is None else subject.G.directions(k).flatten(1)
        except NetgrainError:  # of a large input, only some directions are kept
            V = None
        if V is not None:
            fresh = _over_fresh([float(s.share_inside(V)) for s in others])
            rows.append({"share": share, "directions": k, "trained": estimate(trained.share_inside(V)), "fresh": fresh})
    return rows


def _parts(subject: Subject, trained: Slopes, others: list[Slopes], some: Tensor) -> list[dict[str, Any]]:
    found = parts_of(trained, others, subject.X[some], subject.features)
    kinds = ("trained", "fresh", "data")
    return [{"name": p.name, **{kind: estimate(getattr(p, kind)) for kind in kinds}} for p in found]


def _moved(
    subject: Subject, model: nn.Module, fresh: list[nn.Module], trained: Slopes, others: list[Slopes]
) -> dict[str, Any]:
    """Correlation of its geometry with the family's, what fresh networks have, and the distance of the weights."""
    corr: Estimate | None = None
    usual: dict[str, Any] | None = None
    if fresh and not subject.G.truncated:
        corr = trained.corr(subject.G.form)
        usual = _over_fresh([float(s.corr(subject.G.form)) for s in others])
    return {
        "corr": None if corr is None else estimate(corr),
        "fresh_corr": usual,
        "weights": estimate(weight_distance(model, fresh)) if len(fresh) > 1 else None,
    }


def _steepest(
    subject: Subject, model: nn.Module, trained: Slopes, others: list[Slopes], some: Tensor, effort: Effort
) -> dict[str, Any]:
    """The steepest samples; where rows are random, they are measured again, since the largest were lucky, too."""
    found = steepest(trained.steepness, STEEPEST)
    order, values = found.order, found.values
    if effort.vectors is not None:
        again = slopes_of(model, subject.X[some[order]], vectors=effort.vectors, seed=subject.seed + 1).steepness
        values = again / (float(trained.steepness.median()) or 1.0)
        best = values.argsort(descending=True, stable=True)
        order, values = order[best], values[best]
    places = some[order].tolist()
    return {
        "steepest": [
            {"index": _index(subject, place), "place": place, "value": number(value)}
            for place, value in zip(places, values.tolist(), strict=True)
        ],
        "top_share": {
            "trained": estimate(found.top_share),
            "fresh": _over_fresh([float(steepest(s.steepness, 1).top_share) for s in others]),
        },
    }


def _index(subject: Subject, place: int) -> int:
    """The place of a sample among those that the user gave."""
    rows: Tensor | None = getattr(subject, "rows", None)
    return place if rows is None else int(rows[place])


# --- pictures ---------------------------------------------------------------------------------------------------------


def _pictures(subject: Subject, model: nn.Module, steep: list[int], most: int) -> list[dict[str, Any]]:
    """Images with the reaction over them: the steepest, and one of each class, half of the budget for either."""
    if not pictures.can_be_drawn(subject.shape):
        return []
    y: Tensor | None = subject.y
    chosen = [(place, "steep") for place in steep[: max(1, most // 2)]]
    if y is not None and not y.is_floating_point():
        for c in range(min(len(subject.classes), CLASSES, most - len(chosen))):
            mine = [i for i in (y == c).nonzero()[:1, 0].tolist() if i not in steep]
            chosen += [(i, "class") for i in mine]
    X = subject.X[[place for place, _ in chosen]]
    some = subject.X.flatten()[:: max(1, subject.X.numel() // 100_000)]
    dark, bright = (float(torch.quantile(some, q)) for q in (0.01, 0.99))
    try:
        maps = [r for part in X.split(4) for r in reaction_maps(model, part)]
    except NetgrainError:  # a network that cannot take blurred images together, or answers with no scores
        return []
    rows = []
    for (place, kind), x, found in zip(chosen, X, maps, strict=True):
        total = found.strength
        values = found.map / total if total > 0 else found.map
        rows.append(
            {
                "index": _index(subject, place),
                "kind": kind,
                "true": None if y is None or y.is_floating_point() else _class(subject, int(y[place])),
                "said": None if y is None or y.is_floating_point() else _class(subject, found.output),
                "picture": pictures.small_sample(x, dark, bright),
                "overlay": pictures.overlay(x, values, dark, bright) if total > 0 else None,
            }
        )
    return rows


FIGURES = {
    "Checkpoint": (
        Figure("Accuracy on these samples (R² for numbers)", "checkpoint.accuracy", "share"),
        Figure(
            "Accuracy on samples that it has not seen", "checkpoint.test", "share", "The test part, or test=(X, y)."
        ),
        Figure("Mean confidence minus accuracy", "checkpoint.overconfidence", "share"),
        Figure("Calibration error (ECE, ten bins)", "checkpoint.calibration_error", "share"),
        Figure(
            "Distance of the weights from fresh ones, relative to that of two fresh ones", "checkpoint.moved.weights"
        ),
        Figure("Share of the steepness in the steepest tenth of the samples", "checkpoint.top_share.trained", "share"),
    ),
    "Complexity": (
        Figure("Geometric complexity, trained", "complexity.trained"),
        Figure("Correlation of trained and initial geometry", "complexity.moved.corr"),
    ),
}
SECTION = Section(
    order=70, measure=measure, sentences=sentences, alerts=alerts, figures=FIGURES, title="Your checkpoint"
)
