"""Scores of the samples: how strongly fresh networks react along each, and which of them pruning keeps."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from netgrain.auditing import pictures
from netgrain.auditing.sections.contract import Figure, Report, Section, Sentence, Subject, number, numbers, said
from netgrain.geometry.form_costs import multiplications
from netgrain.geometry.scores import best, centred
from netgrain.geometry.spectrum import FULL_LIMIT
from netgrain.geometry.value import Geometry

BINS = 20
SAMPLES_SHOWN = 6  # best and worst of each class
CLASSES_SHOWN = 20
SAMPLES = 2000  # that are scored at least
FEW = 40  # the same of inputs of more than FULL_LIMIT entries
PRODUCTS = 25 * 10**10  # multiplications, as many as more samples may take: 10 to 20 s of one core
ALL = "all"  # the name of the one group of samples without classes


def measure(subject: Subject) -> dict[str, Any]:
    """The key samples: a histogram for each group, its best and worst samples, and those that are kept.

    Of many samples some are scored, chosen by the seed.
    """
    rows = subject.some_rows(scored(subject.X, subject.G), "audit scores").sort().values
    X, y, G, names = subject.X[rows], subject.groups[rows], subject.G, subject.classes
    places = rows if subject.rows is None else subject.rows[rows]  # among the samples that were given
    mean = X.mean(0, dtype=torch.float64).float()
    # relative to a random direction; about the mean: what all share would weigh most in faint ones
    raw = G.score(centred(X, mean))
    scores = torch.nan_to_num(raw) / (G.trace.value / G.d)
    edges, counts = _histogram(scores, y, len(names))
    usable = (~raw.isnan()).nonzero()[:, 0]  # the mean itself has no score and is dropped
    kept = usable[best(raw[usable], y[usable], keep=subject.keep)]
    return {
        "samples": {
            "edges": numbers(edges),
            "counts": counts,
            "classes": _best_and_worst(subject, scores, y, rows, places),
            "keep": subject.keep,
            "centred": True,
            "scored": len(X),
            "directions": len(G.eigenvalues) if G.truncated else None,  # None: all of them count
            "kept": places[kept].tolist(),
        }
    }


def scored(X: Tensor, G: Geometry) -> int:
    """How many samples are scored: all of them where that takes few multiplications, and a stated number at least."""
    few = SAMPLES if G.d <= FULL_LIMIT else FEW
    return min(len(X), max(few, PRODUCTS // multiplications(G.form)))


def _histogram(scores: Tensor, y: Tensor, classes: int) -> tuple[Tensor, list[list[int]]]:
    """Edges of the bins (BINS + 1,), and the number of samples of each class in each bin."""
    low, high = float(scores.min()), float(scores.max())
    edges = torch.linspace(low, high if high > low else low + 1, BINS + 1, dtype=torch.float64)
    place = (torch.bucketize(scores.double(), edges[1:-1], right=True)).clamp(0, BINS - 1)
    return edges, [torch.bincount(place[y == c], minlength=BINS).tolist() for c in range(classes)]


def _best_and_worst(subject: Subject, scores: Tensor, y: Tensor, rows: Tensor, places: Tensor) -> list[dict[str, Any]]:
    X, names = subject.X, subject.classes
    drawn = pictures.can_be_drawn(subject.shape)
    some = X.flatten()[:: max(1, X.numel() // 100_000)]
    dark, bright = (float(torch.quantile(some, q)) for q in (0.01, 0.99))

    def entry(i: int) -> dict[str, Any]:
        picture = pictures.sample(X[rows[i]], dark, bright) if drawn else None
        index = int(places[i])
        return {"index": index, "score": number(scores[i]), "picture": picture}

    found = []
    for c in range(min(len(names), CLASSES_SHOWN)):
        mine = (y == c).nonzero()[:, 0]
        order = mine[scores[mine].argsort(descending=True)].tolist()
        best, worst = order[:SAMPLES_SHOWN], order[::-1][:SAMPLES_SHOWN]
        found.append({"name": names[c], "best": [entry(i) for i in best], "worst": [entry(i) for i in worst]})
    return found


def sentences(report: Report) -> list[Sentence]:
    """How many samples are kept."""
    samples = report["samples"]
    total = report["data"]["samples"]
    some = samples.get("scored", total)
    who = f"{some} samples" if some == total else f"{some} samples (of {total}, chosen by the seed)"
    known = samples.get("directions")
    few = f" Only its part along the {known} leading directions is known here, and counted." if known else ""
    each = " of each class" if len(samples["classes"]) > 1 else ""
    return [
        said(
            f"{len(samples['kept'])} of {who} stay when the lowest-scored "
            f"{100 * (1 - samples['keep']):.0f} %{each} are dropped.",
            "A sample's score is xᵀGx / ‖x‖² relative to a random direction, x being the sample minus the mean "
            "of all samples: how strongly fresh networks react along it. What all samples share would otherwise weigh "
            "most in faint ones. The list of kept samples can be downloaded under Samples; whether pruning by scores "
            f"helps was measured in docs/reproduction.md (tables 1 and 2, scores without subtracting the mean).{few}",
        )
    ]


FIGURES = {"Samples": (Figure("Share of samples kept", "samples.keep", "share"),)}
SECTION = Section(order=40, measure=measure, sentences=sentences, figures=FIGURES, title="Samples")
