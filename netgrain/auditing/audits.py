"""What the grain of a network means for a data set: numbers with errors, and sentences made from them."""

from __future__ import annotations

import datetime
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from netgrain.auditing import pictures
from netgrain.auditing.checkpoint import trained_report
from netgrain.auditing.checks import check_options, checked_data
from netgrain.auditing.invisible import invisible_within
from netgrain.auditing.label_relevance import Axes, Relevance, axes_of, relevance
from netgrain.auditing.layer_gains import layer_profile
from netgrain.auditing.places import how, options_for, place_of, where
from netgrain.auditing.sentences import sentences
from netgrain.auditing.signals import word_for
from netgrain.complexity.estimators import geometric_complexity
from netgrain.families.members import Family, member
from netgrain.families.probes import Probe
from netgrain.geometry.average import average_geometry
from netgrain.geometry.estimate import Estimate
from netgrain.geometry.scores import prune, score
from netgrain.geometry.spectrum import NULL
from netgrain.geometry.value import Geometry
from netgrain.runtime.devices import best_device, checked_device
from netgrain.runtime.errors import NetgrainError
from netgrain.runtime.files import write_whole
from netgrain.runtime.progress import Bar
from netgrain.runtime.randomness import derived_seed
from netgrain.runtime.versions import __version__

CURVE_POINTS = 300
SHOWN = {"strongest": 16, "middle": 16, "weakest": 16}  # directions on the page
MOST_ZEROS = 1024  # zeros of G among which invisible directions are looked for
BINS = 20
SAMPLES_SHOWN = 6  # best and worst of each class
CLASSES_SHOWN = 20
COMPLEXITY_MEMBERS, COMPLEXITY_POINTS = 4, 64
LAYER_MEMBERS = 4
STEPS = ("geometry", "directions", "labels", "samples", "complexity", "layers", "pictures")


@dataclass(frozen=True, eq=False, repr=False)
class Audit:
    """Everything an audit found: `report` as plain values (docs/audit.md lists them), the geometry behind it."""

    report: dict[str, Any]
    G: Geometry
    options: dict[str, Any]  # of `average_geometry` that made it: the probe, the tolerance or the members
    kept: Tensor  # indices of the samples that stay when the lowest-scored are dropped

    def as_dict(self) -> dict[str, Any]:
        return self.report

    def html(self) -> str:
        from netgrain.auditing.pages import page

        return page(self.report)

    def save(self, path: str | Path) -> Path:
        """Write the page, or for a name that ends in .json the numbers alone."""
        path = Path(path)
        text = json.dumps(self.report, indent=2, allow_nan=False) if path.suffix == ".json" else self.html()
        return write_whole(path, text.encode())

    def __repr__(self) -> str:
        return "\n".join(f"- {s['text']}" for s in self.report["sentences"])


def audit(
    make: Family,
    X: Tensor,  # (samples, *input_shape)
    y: Tensor,  # (samples,) labels 0 … classes − 1
    *,
    name: str = "",
    data: str = "data",
    note: str = "as given",
    classes: Sequence[str] = (),
    features: Sequence[str] | None = None,
    G: Geometry | None = None,
    weights: Mapping[str, Tensor] | None = None,
    probe: Probe | str | None = None,
    keep: float = 0.7,
    members: int | None = None,
    seed: int = 0,
    device: torch.device | str | None = None,
    progress: bool | None = None,
) -> Audit:
    """How strongly fresh networks of a family react to the directions in which a data set and its labels vary.

    That is a statement about initialisation, not about what training reaches. make: any callable that returns a fresh
    module; X as the network will get it (normalise first); y integer labels. probe: where G is taken: "data" (512 of
    the samples, the default), "origin", "gaussian:0.1", or a probe; G: a geometry of the family that is known already.
    weights: a trained state dict, whose complexity and geometry are compared with the fresh ones. keep: share of the
    samples kept in the pruned list. device: where networks run, a GPU by default; everything about the data is computed
    on the CPU.

    >>> from netgrain.models import MLP
    >>> from functools import partial
    >>> X = torch.randn(200, 1, 4, 4, generator=torch.Generator().manual_seed(0))
    >>> make = partial(MLP, channels=1, image_size=4, outputs=2)
    >>> found = audit(make, X, (X[:, 0, 0, 0] > 0).long(), probe="origin")
    >>> found.report["leading"]["count"]  # a multilayer perceptron has no grain there
    16
    """
    X, y, first = checked_data(make, X, y, classes, seed=seed)
    shape, on = tuple(X.shape[1:]), best_device() if device is None else checked_device(device)
    check_options(shape, features=features, G=G, weights=weights, keep=keep, members=members)
    name = name or type(first).__name__
    place = place_of(probe, X, seed) if G is None else None
    options = options_for(place, members) if G is None else {}
    labels = tuple(classes) or tuple(map(str, range(int(y.max()) + 1)))
    with Bar("audit", len(STEPS), progress) as bar:
        bar.advance(0, note="geometry")
        if G is None:
            G = average_geometry(make, shape, seed=seed, device=on, progress=False, **options)
        elif probe is not None:
            raise NetgrainError("probe= belongs to making G, and a G was given; leave one of them out.")
        bar.advance(note="directions")
        axes = axes_of(G)
        bar.advance(note="labels")
        found = relevance(axes, X, y, seed=seed)
        bar.advance(note="samples")
        samples, kept = _samples(G, X, y, labels, keep)
        bar.advance(note="complexity")
        complexity = _complexity(make, X, seed, on)
        if weights is not None:
            complexity |= trained_report(make, weights, X, G, seed=seed, device=on)
        bar.advance(note="layers")
        shown = _shown(axes)
        layers = _layers(make, axes, shape, place, seed)
        bar.advance(note="pictures")
        report = {
            "netgrain": __version__,
            "date": str(datetime.date.today()),
            "model": name,
            "seed": seed,
            "data": {
                "name": data,
                "note": note,
                "samples": len(X),
                "classes": list(labels),
                "per_class": torch.bincount(y, minlength=len(labels)).tolist(),
                "input_shape": list(shape),
                "features": list(features) if features else None,
            },
            "geometry": _geometry(G, axes, len(X)),
            "spectrum": _spectrum(axes, found),
            "leading": {
                "count": axes.leading,
                "definition": LEADING_MEANS,
                "data_variance": _plain(found.variance_leading),
                "weak_variance": _plain(_rest(found.variance_leading)),
            },
            "zero": _zeros(make, G, axes, shape, seed),
            "labels": _labels(found),
            "directions": [_direction(axes, found, i, group, shape) for group, i in shown],
            "samples": samples,
            "features": _features(axes, found, G, X, features),
            "complexity": complexity,
            "layers": layers,
            "what_if": [],
        }
        report["sentences"] = sentences(report)
        bar.advance()
    return Audit(report, G, options, kept)


LEADING_MEANS = (
    "The leading directions are the strongest ones that together carry 99 % of the network's average geometry "
    "(directions of equal strength are never separated). To the others, the weak ones, the output of a fresh network "
    "reacts little. That says nothing about what training reaches: networks do learn from weak directions."
)


def _geometry(G: Geometry, axes: Axes, samples: int) -> dict[str, Any]:
    return {
        "method": G.method,
        "how": how(G),
        "probe": G.about.probe or None,
        "where": where(G, samples),
        "exact": G.exact,
        "members": G.members,
        "corr_with_truth": None if math.isnan(G.fidelity) else G.fidelity,
        "trace": _plain(G.trace),
        "effective_rank": _plain(G.effective_rank),
        "d": G.d,
        "known": axes.known,
        "largest": _number(float(axes.values[0] / axes.values.mean())),
        **{f"directions_{round(100 * s)}": G.directions_for(s) for s in (0.5, 0.9, 0.99)},
        "notes": list(G.about.notes),
        "zero": False,
    }


def _zeros(make: Family, G: Geometry, axes: Axes, shape: tuple[int, ...], seed: int) -> dict[str, Any]:
    """Directions to which no network reacts at the probe, and those among them that are invisible at any input."""
    if axes.known < len(axes.values):
        return {"at_probe": None, "invisible": None}  # too few gradients to tell zero from small
    first = int((axes.values > NULL * axes.values[0]).sum())
    count = len(axes.values) - first
    if count > MOST_ZEROS:
        return {"at_probe": count, "invisible": None}
    found = invisible_within(make, axes.vectors[first:].reshape(-1, *shape), seed=seed) if count else ()
    return {"at_probe": count, "invisible": len(found)}


def _spectrum(axes: Axes, found: Relevance) -> dict[str, Any]:
    d = len(axes.values)
    index = sorted({min(d - 1, round(d ** (j / (CURVE_POINTS - 1))) - 1) for j in range(CURVE_POINTS)})
    at = torch.tensor(index)
    data = found.spectrum / found.spectrum.mean()
    along = found.variance / found.variance.mean()
    network = _rounded(axes.values[at] / axes.values.mean())
    return {
        "index": index,
        "network": [v if i < axes.known else None for i, v in zip(index, network, strict=True)],
        "flat": [1.0] * len(index),
        "data": _rounded(data[at]),
        "data_along": _rounded(along[at]),
    }


def _labels(found: Relevance) -> dict[str, Any]:
    return {
        "mean_difference": _plain(found.means_leading),
        "linear": {**{k: _plain(v) for k, v in found.linear.items()}, "chance": found.chance},
        "nonlinear": _plain(found.dependence_leading),
        "difficulty": _plain(found.difficulty),
        "words": words(found.difficulty),
    }


def words(difficulty: float) -> str:
    """A difficulty in the words of `netgrain visible`.

    >>> words(-1.2), words(0.0), words(1.5), words(math.nan)
    ('strong', 'average', 'weak', 'unknown')
    """
    return "unknown" if math.isnan(difficulty) else word_for(10**-difficulty)


def _shown(axes: Axes) -> list[tuple[str, int]]:
    """Directions for the page: the first ones, some around the edge of the leading ones, the last ones."""
    d, edge = len(axes.values), axes.leading
    top = list(range(min(SHOWN["strongest"], d)))
    last = list(range(max(d - SHOWN["weakest"], len(top)), d))
    between = range(len(top), last[0] if last else d)
    want = SHOWN["middle"]
    middle = sorted(between, key=lambda i: abs(i - edge))[:want] if len(between) else []
    return [("strongest", i) for i in top] + [("middle", i) for i in sorted(middle)] + [("weakest", i) for i in last]


def _direction(axes: Axes, found: Relevance, i: int, group: str, shape: tuple[int, ...]) -> dict[str, Any]:
    u = axes.vectors[i].reshape(shape)
    drawn = pictures.can_be_drawn(shape)
    where = (found.probed == i).nonzero()
    mean_variance = float(found.variance.mean())
    return {
        "index": i,
        "group": group,
        "eigenvalue": _number(float(axes.values[i] / axes.values.mean())) if i < axes.known else None,
        "cumulative": _number(float(axes.values[: i + 1].sum() / axes.values.sum())),
        "block": list(next(b for b in axes.blocks if b[0] <= i < b[1])),
        "data_variance": _number(float(found.variance[i]) / mean_variance if mean_variance else 0.0),
        "label_relevance": _number(float(found.explained[i])),
        "nonlinear": _number(math.sqrt(float(found.dependence[where[0, 0]]))) if len(where) else None,
        "picture": pictures.direction(u) if drawn else None,
        "fourier": pictures.fourier(u) if drawn else None,
        "bars": None if drawn else _rounded(u.flatten()[:512]),
    }


def _samples(G: Geometry, X: Tensor, y: Tensor, labels: Sequence[str], keep: float) -> tuple[dict[str, Any], Tensor]:
    mean = X.mean(0, dtype=torch.float64).float()
    # relative to a random direction; about the mean: what all share would weigh most in faint ones
    scores = torch.nan_to_num(score(G, X, centre=mean)) / (G.trace.value / G.d)
    low, high = float(scores.min()), float(scores.max())
    edges = torch.linspace(low, high if high > low else low + 1, BINS + 1, dtype=torch.float64)
    place = (torch.bucketize(scores.double(), edges[1:-1], right=True)).clamp(0, BINS - 1)
    counts = [torch.bincount(place[y == c], minlength=BINS).tolist() for c in range(len(labels))]
    drawn = pictures.can_be_drawn(tuple(X.shape[1:]))
    dark, bright = (float(torch.quantile(X.flatten()[:: max(1, X.numel() // 100_000)], q)) for q in (0.01, 0.99))

    def entry(i: int) -> dict[str, Any]:
        picture = pictures.sample(X[i], dark, bright) if drawn else None
        return {"index": i, "score": _number(float(scores[i])), "picture": picture}

    per_class = []
    for c in range(min(len(labels), CLASSES_SHOWN)):
        mine = (y == c).nonzero()[:, 0]
        order = mine[scores[mine].argsort(descending=True)].tolist()
        best, worst = order[:SAMPLES_SHOWN], order[::-1][:SAMPLES_SHOWN]
        per_class.append({"name": labels[c], "best": [entry(i) for i in best], "worst": [entry(i) for i in worst]})
    usable = ((X - mean).flatten(1).norm(dim=1) > 0).nonzero()[:, 0]  # the mean itself has no score and is dropped
    kept = usable[prune(G, X[usable], y[usable], keep=keep, centre=mean)]
    return {
        "edges": _rounded(edges),
        "counts": counts,
        "classes": per_class,
        "keep": keep,
        "centred": True,
        "kept": kept.tolist(),
    }, kept


def _features(axes: Axes, found: Relevance, G: Geometry, X: Tensor, features: Sequence[str] | None) -> dict[str, Any]:
    """What the linear rule loses when weak directions are dropped, and for tables how much each feature moves."""
    total = found.variance.sum()
    rows = [
        {
            "directions": len(axes.values) - k,
            "variance": _number(float(1 - found.variance[:k].sum() / total)),
            "accuracy": _plain(accuracy),
        }
        for k, accuracy in sorted(found.by_count.items(), reverse=True)
    ]
    named = None
    if features or X.dim() == 2:
        names = list(features) if features else [f"feature {i}" for i in range(X.shape[1])]
        share = G.matrix().diagonal() * X.flatten(1).double().var(0)
        share = share / share.sum()
        order = share.argsort(descending=True).tolist()
        named = [{"name": names[i], "share": _number(float(share[i]))} for i in order]
    return {"dropped": rows, "named": named}


def _complexity(make: Family, X: Tensor, seed: int, device: torch.device) -> dict[str, Any]:
    """Geometric complexity of fresh members on some samples: mean over members."""
    generator = torch.Generator().manual_seed(derived_seed(seed, "audit complexity"))
    points = X[torch.randperm(len(X), generator=generator)[:COMPLEXITY_POINTS]]
    models = (member(make, seed, i, device) for i in range(COMPLEXITY_MEMBERS))
    values = [geometric_complexity(model, points, seed=seed).value for model in models]
    t = torch.tensor(values, dtype=torch.float64)
    n = len(values)
    return {
        "initial": _plain(Estimate(float(t.mean()), float(t.std()) / math.sqrt(n), n)),
        "trained": None,
        "moved": None,
    }


def _layers(make: Family, axes: Axes, shape: tuple[int, ...], place: Probe | None, seed: int) -> list[dict[str, Any]]:
    """Gains after every layer of one direction of each group: the first, the one at the edge, the last."""
    d, edge = len(axes.values), axes.leading
    chosen = {"strongest": 0, "middle": min(edge, d - 1), "weakest": d - 1}
    directions = torch.stack([axes.vectors[i].reshape(shape) for i in chosen.values()])
    try:
        profile = layer_profile(make, directions, probe=place, members=LAYER_MEMBERS, seed=seed)
    except NetgrainError:
        return []  # modules without layers of their own to look into
    return [
        {"name": name, **{g: _number(float(profile.gains[j, l])) for j, g in enumerate(chosen)}}
        for l, name in enumerate(profile.names)
    ]


def _plain(value: Estimate) -> dict[str, Any]:
    found = value.as_dict()
    return {k: found[k] for k in ("value", "stderr", "n")}


def _rest(share: Estimate) -> Estimate:
    return Estimate(1 - share.value, share.stderr, share.n)


def _number(value: float) -> float | None:
    return float(f"{value:.6g}") if math.isfinite(value) else None


def _rounded(values: Tensor) -> list[float | None]:
    return [_number(v) for v in values.double().tolist()]
