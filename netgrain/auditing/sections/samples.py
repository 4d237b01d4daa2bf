"""Scores of the samples: how strongly fresh networks react along each, and which of them pruning keeps."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from netgrain.auditing import pictures
from netgrain.auditing.sections.contract import Figure, Report, Section, Sentence, Subject, number, numbers, said
from netgrain.geometry.scores import prune, score

BINS = 20
SAMPLES_SHOWN = 6  # best and worst of each class
CLASSES_SHOWN = 20


def measure(subject: Subject) -> dict[str, Any]:
    """The key samples: a histogram for each class, its best and worst samples, and those that are kept."""
    X, y, G = subject.X, subject.groups, subject.G
    mean = X.mean(0, dtype=torch.float64).float()
    # relative to a random direction; about the mean: what all share would weigh most in faint ones
    scores = torch.nan_to_num(score(G, X, centre=mean)) / (G.trace.value / G.d)
    edges, counts = _histogram(scores, y, len(subject.classes))
    usable = ((X - mean).flatten(1).norm(dim=1) > 0).nonzero()[:, 0]  # the mean itself has no score and is dropped
    kept = usable[prune(G, X[usable], y[usable], keep=subject.keep, centre=mean)]
    return {
        "samples": {
            "edges": numbers(edges),
            "counts": counts,
            "classes": _best_and_worst(subject, scores),
            "keep": subject.keep,
            "centred": True,
            "kept": (kept if subject.rows is None else subject.rows[kept]).tolist(),
        }
    }


def _histogram(scores: Tensor, y: Tensor, classes: int) -> tuple[Tensor, list[list[int]]]:
    """Edges of the bins (BINS + 1,), and the number of samples of each class in each bin."""
    low, high = float(scores.min()), float(scores.max())
    edges = torch.linspace(low, high if high > low else low + 1, BINS + 1, dtype=torch.float64)
    place = (torch.bucketize(scores.double(), edges[1:-1], right=True)).clamp(0, BINS - 1)
    return edges, [torch.bincount(place[y == c], minlength=BINS).tolist() for c in range(classes)]


def _best_and_worst(subject: Subject, scores: Tensor) -> list[dict[str, Any]]:
    X, y, names = subject.X, subject.groups, subject.classes
    drawn = pictures.can_be_drawn(subject.shape)
    some = X.flatten()[:: max(1, X.numel() // 100_000)]
    dark, bright = (float(torch.quantile(some, q)) for q in (0.01, 0.99))

    def entry(i: int) -> dict[str, Any]:
        picture = pictures.sample(X[i], dark, bright) if drawn else None
        index = i if subject.rows is None else int(subject.rows[i])
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
    return [
        said(
            f"{len(samples['kept'])} of {report['data']['samples']} samples stay when the lowest-scored "
            f"{100 * (1 - samples['keep']):.0f} % of each class are dropped.",
            "A sample's score is xᵀGx / ‖x‖² relative to a random direction, x being the sample minus the mean "
            "of all samples: how strongly fresh networks react along it. What all samples share would otherwise weigh "
            "most in faint ones. The list of kept samples can be downloaded under Samples; whether pruning by scores "
            "helps was measured in docs/reproduction.md (tables 1 and 2, scores without subtracting the mean).",
        )
    ]


FIGURES = {"Samples": (Figure("Share of samples kept", "samples.keep", "share"),)}
SECTION = Section(order=40, measure=measure, sentences=sentences, figures=FIGURES, title="Samples")
