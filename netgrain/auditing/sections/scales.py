"""By size of pattern: how strongly fresh networks react, how much the data vary, where the classes differ.

For tables by feature. The measures are in netgrain.auditing.scales; they need no directions, so they hold at any size.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from netgrain.auditing.bands import Bands, bands_of
from netgrain.auditing.scales import (
    Energies,
    class_energies,
    gradient_energies,
    number_energies,
    sample_energies,
    shown_share,
    variance_energies,
)
from netgrain.auditing.sections.contract import (
    Alert,
    Figure,
    Report,
    Section,
    Sentence,
    Subject,
    estimate,
    number,
    percent,
    said,
    with_error,
)
from netgrain.families.members import member, trained_model
from netgrain.families.reading import read
from netgrain.families.sizes import operations
from netgrain.geometry.estimate import Estimate
from netgrain.runtime.errors import NetgrainError

MEMBERS, FEWEST_MEMBERS = 8, 4
WORK = 2e11  # floating-point operations of all passes: about 5 s of one core
MOST_POINTS = 32  # samples for each network
LARGE = 2**17  # numbers in the samples of one network, from which on there are fewer of them
SAMPLES = 2000  # behind variance and labels
NAMED = 20  # features of a table that get a row of their own
WEAK = 0.1  # of an average pattern: below it a network hardly reacts
MUCH = 0.2  # of what tells classes apart: from here on an alert
NOTHING = {"value": None, "stderr": None, "n": 0}


# --- measured ---------------------------------------------------------------------------------------------------------


def measure(subject: Subject) -> dict[str, Any]:
    """The key scales; None for inputs that are no images, signals or tables, and where the gradient is zero."""
    bands = bands_of(subject.shape, subject.features)
    if bands is None:
        return {"scales": None}
    members = affordable(operations(read(subject.make, subject.shape, subject.seed)), points_for(subject.X))
    fresh = _reaction(subject, (member(subject.make, subject.seed, i, subject.device) for i in range(members)), bands)
    if fresh is None:
        return {"scales": None}
    trained = None
    if subject.weights is not None:
        trained = _reaction(subject, [trained_model(subject.make, subject.weights).to(subject.device)], bands)
    X, y = _some(subject)
    energies = sample_energies(X, bands)
    found = _Found(
        bands=bands,
        dims=bands.dims,
        fresh=fresh,
        trained=trained,
        variance=variance_energies(X, bands, energies=energies, seed=subject.seed),
        labels=_of_labels(X, y, bands, energies, subject.seed),
    )
    shown = found if bands.kind != "table" else found.largest()
    return {
        "scales": {
            "kind": bands.kind,
            "unit": bands.unit,
            "members": members,
            "points": points_for(subject.X),
            "samples": len(X),
            "target": target_of(subject.y),
            "threshold": WEAK,
            "bands": shown.rows(),
            "weak": shown.weak(),
        }
    }


def _reaction(subject: Subject, models: Iterable[nn.Module], bands: Bands) -> Energies | None:
    """How strongly networks react in each band; None where their gradient is zero at the samples."""
    try:
        return gradient_energies(models, subject.X, bands, points=points_for(subject.X), seed=subject.seed)
    except NetgrainError:
        return None


def affordable(operations: float, points: int) -> int:
    """Networks that the budget allows: a pass forward and one back at each point.

    >>> affordable(1e8, 32), affordable(8e9, 4)
    (8, 4)
    """
    return max(FEWEST_MEMBERS, min(MEMBERS, int(WORK / (2 * operations * points))))


def points_for(X: Tensor) -> int:
    """Samples at which a network is taken: fewer of large ones, at least four; a count, whatever the machine."""
    return min(len(X), max(4, min(MOST_POINTS, LARGE // X[0].numel())))


def target_of(y: Tensor | None) -> str:
    """What labels are: "classes", "numbers" or "none"."""
    return "none" if y is None else "numbers" if y.is_floating_point() else "classes"


def _some(subject: Subject) -> tuple[Tensor, Tensor | None]:
    """At most SAMPLES samples with their labels, chosen by the seed."""
    chosen = subject.some_rows(SAMPLES, "audit scales")
    return subject.X[chosen], None if subject.y is None else subject.y[chosen]


def _of_labels(X: Tensor, y: Tensor | None, bands: Bands, energies: Tensor, seed: int) -> Energies | None:
    target = target_of(y)
    if y is None:
        return None
    if target == "classes":
        return class_energies(X, y, bands, energies=energies, seed=seed)
    return number_energies(X, y, bands, seed=seed)


class _Found:
    """Everything that was measured, in the parts that are shown."""

    def __init__(
        self,
        *,
        bands: Bands,
        dims: Tensor,
        fresh: Energies,
        trained: Energies | None,
        variance: Energies,
        labels: Energies | None,
        names: Sequence[str] | None = None,
    ) -> None:
        self.bands, self.dims, self.fresh, self.trained = bands, dims, fresh, trained
        self.variance, self.labels = variance, labels
        self.names = bands.names if names is None else tuple(names)

    def largest(self) -> _Found:
        """Features of a table, those that move the network most first; all but the first few together."""
        moved = self.fresh.value * self.variance.value
        order = moved.argsort(descending=True, stable=True).tolist()
        first, rest = order[:NAMED], order[NAMED:]
        groups = [[i] for i in first] + ([rest] if rest else [])
        names = [self.names[i] for i in first] + ([f"{len(rest)} others"] if rest else [])
        return _Found(
            bands=self.bands,
            dims=torch.stack([self.dims[g].sum() for g in groups]),
            fresh=self.fresh.joined(groups),
            trained=None if self.trained is None else self.trained.joined(groups),
            variance=self.variance.joined(groups),
            labels=None if self.labels is None else self.labels.joined(groups),
            names=names,
        )

    def rows(self) -> list[dict[str, Any]]:
        ends = self.bands.ends or [(None, None)] * len(self.names)
        return [
            {
                "name": name,
                "from": low,
                "to": high,
                "dimensions": number(self.dims[b] / self.dims.sum()),
                "gain": estimate(self.fresh.gain(self.dims, b)),
                "trained": None if self.trained is None else estimate(self.trained.gain(self.dims, b)),
                "variance": estimate(self.variance.share(b)),
                "labels": _shown(shown_share(self.labels, b)),
            }
            for b, (name, (low, high)) in enumerate(zip(self.names, ends, strict=True))
        ]

    def weak(self) -> dict[str, Any]:
        """The parts to which fresh networks hardly react (two standard errors below WEAK), and what lies in them."""
        gains = [self.fresh.gain(self.dims, b) for b in range(len(self.names))]
        weak = [b for b, gain in enumerate(gains) if gain.value + 2 * gain.stderr < WEAK]
        # from the finest on without a gap: then one size says it
        finest = next((b for b in range(len(gains)) if b not in weak), len(gains)) if self.bands.ends else 0
        return {
            "bands": [self.names[b] for b in weak],
            "finer_than": self.bands.ends[finest - 1][1] if finest and self.bands.ends else None,
            "gain": estimate(self.fresh.gain(self.dims, *weak)) if weak else NOTHING,
            "variance": estimate(self.variance.share(*weak)) if weak else NOTHING,
            "labels": _shown(shown_share(self.labels, *weak)) if weak else None,
            "labels_found": self.labels is not None and shown_share(self.labels, *range(len(gains))) is not None,
        }


def _shown(share: Estimate | None) -> dict[str, Any] | None:
    return None if share is None else estimate(share)


# --- said -------------------------------------------------------------------------------------------------------------


MORE = (
    "A pattern has the size of its finest wave: a chessboard of single pixels has 2. The gain compares the squared "
    "gradient of fresh networks along patterns of a size with that along an average direction, at your samples; 1 is "
    "average. Variance and class differences are split in the same way. A small gain is about fresh networks; it does "
    "not mean that training cannot reach such patterns."
)
MORE_TABLE = (
    "The gain compares the squared gradient of fresh networks along one feature with that along an average one, at "
    "your samples; 1 is average. Variance and class differences are split by feature in the same way."
)


def sentences(report: Report) -> list[Sentence]:
    """Which sizes of pattern fresh networks hardly react to, and how much of data and labels lies there."""
    found = report.get("scales")
    if not found:
        return []
    more = MORE_TABLE if found["kind"] == "table" else MORE
    if not found["weak"]["bands"]:
        least, most = (f(found["bands"], key=lambda b: b["gain"]["value"]) for f in (min, max))
        what = "every feature" if found["kind"] == "table" else "patterns of every size"
        return [
            said(
                f"Fresh networks react to {what}: from {_times(least)} ({least['name']}) to {_times(most)} times an "
                f"average one ({most['name']}).",
                more,
            )
        ]
    weak = found["weak"]
    gain, variance, labels = (weak[k] for k in ("gain", "variance", "labels"))
    there = "" if labels is None else f" and {percent(labels)} of what tells {_labels(found)} apart"
    return [
        said(
            f"Fresh networks hardly react to {_where(found)}: {with_error(gain['value'], gain['stderr'])} times an "
            f"average pattern. {percent(variance)} of the variance{there} lies there.",
            more,
        )
    ]


def alerts(report: Report) -> list[Alert]:
    """A warning where much of what tells classes apart lies where fresh networks hardly react."""
    found = report.get("scales")
    labels = found["weak"]["labels"] if found else None
    if not found or labels is None or labels["value"] - labels["stderr"] < MUCH:
        return []
    gain = found["weak"]["gain"]
    action = (
        "Scale these features up (whitening or standardising each one), or let the first layer take them by itself."
        if found["kind"] == "table"
        else "Keep more resolution early on: a smaller stride, patch or pool in the first layers, larger images, or a "
        "high-pass of the data; then compare."
    )
    return [
        {
            "level": "warning",
            "title": f"{percent(labels)} of what tells {_labels(found)} apart is where fresh networks hardly react",
            "evidence": f"To {_where(found)} they react {with_error(gain['value'], gain['stderr'])} times as strongly "
            "as to an average pattern.",
            "action": action,
            "panel": "scales",
            "weight": 10 * labels["value"],
        }
    ]


def _labels(found: Report) -> str:
    return "the labels" if found["target"] == "numbers" else "the class means"


def _times(band: Report) -> str:
    return with_error(band["gain"]["value"], band["gain"]["stderr"])


def _where(found: Report) -> str:
    weak = found["weak"]
    if found["kind"] == "table":
        names = weak["bands"]
        return ", ".join(names[:3]) + (f" and {len(names) - 3} more features" if len(names) > 3 else "")
    unit = "pixels" if found["kind"] == "image" else "steps"
    count = sum(1 for b in found["bands"] if weak["finer_than"] and b["to"] and b["to"] <= weak["finer_than"])
    if weak["finer_than"] and count == len(weak["bands"]):
        return f"patterns finer than {weak['finer_than']:g} {unit}"
    return f"patterns of {', '.join(weak['bands'])}"


FIGURES = {
    "Size of pattern": (
        Figure("Hardly reacts to patterns finer than", "scales.weak.finer_than", meaning="Pixels or time steps."),
        Figure("Gain there", "scales.weak.gain", meaning="1 is an average direction."),
        Figure("Share of the variance there", "scales.weak.variance", "share"),
        Figure("Share of the class differences there", "scales.weak.labels", "share"),
    )
}
SECTION = Section(
    order=25, measure=measure, sentences=sentences, alerts=alerts, figures=FIGURES, title="Size of pattern"
)
