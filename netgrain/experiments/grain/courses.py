"""One network on its way through training: correlations of its geometry, where it changes, what labels do to it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from netgrain.experiments.grain import following
from netgrain.experiments.grain.change_by_index import Change, Directions, change_along, looks
from netgrain.experiments.grain.following import Products, Rise
from netgrain.experiments.grain.trials import Trials, curve_of
from netgrain.experiments.theory.inclusion import Inside, change_inside
from netgrain.geometry.estimate import Estimate, mean
from netgrain.geometry.forms import Dense, Form
from netgrain.geometry.structured_forms import Kronecker
from netgrain.geometry.value import Geometry
from netgrain.runtime.units import Outcome

EARLY = 20  # steps within which the correlation is to rise
STYLES = {"GSG": "#d55e00", "S": "#0072b2", "I": "#999999"}  # what Gᵗ is compared with


@dataclass(frozen=True)
class Labels:
    """True labels minus random ones, on the same members with the same optimiser."""

    curve: list[Estimate]  # of Corr(Gᵗ, GSG), at every snapshot
    early: Estimate  # its mean over the early steps
    random: list[float]  # Corr(Gᵗ, GSG) with random labels
    rise: Estimate  # of that above its start, mean over the early steps


@dataclass(frozen=True, eq=False, kw_only=True)
class Course:
    """One network on its way."""

    steps: list[int]
    corr: dict[str, list[Estimate]]  # "GSG", "S", "I" → at every snapshot, over different members, plug-in beside
    train: list[Estimate]  # per cent
    test: list[Estimate]
    since: list[Estimate]  # Corr(Gᵗ, GSG) minus its start, on the same members
    rise: Rise
    inside: Inside
    dimension: int  # of the leading eigenspace of G S G
    slope: Estimate  # of Corr(Gᵗ, GSG) at t = 0, per step
    members: int
    left_out: int
    apart: Estimate  # Corr(Gᵗ, GSG) − Corr(Gᵗ, S), mean over all snapshots
    twins: list[float]  # Corr(S, GSG) for independent samples of G, where G is sampled though it is known
    labels: Labels | None  # where members were trained with both
    change: Change  # along the eigenvectors of G
    beside: Change | None = None  # that of the MLP along the same directions


def course_of(steps: Sequence[int], trials: Trials, target: Outcome, slope: Estimate) -> Course:
    good = [row[0] for row in trials.kept.values()]
    arrays, times = target.arrays, list(range(len(steps)))
    directions = Directions.of(Geometry.from_matrix(arrays["G"]))
    shared: dict[str, Any] = {
        "steps": list(steps),
        "dimension": target.numbers["dimension"],
        "twins": target.numbers["twins"],
        "slope": slope,
        "members": len(good),
        "left_out": trials.left_out,
    }
    if len(good) < 2:
        none = Estimate(math.nan, math.nan, len(good), math.nan)
        gone = [none] * len(steps)
        return Course(
            corr=dict.fromkeys(STYLES, gone), train=gone, test=gone, since=gone, rise=Rise(none, none, (0, 0)),
            inside=Inside(none, math.nan, none), apart=none, labels=None, change=Change.nothing(directions), **shared,
        )  # fmt: skip
    rows = rows_of(trials)
    early = [t for t in times if 1 <= steps[t] <= EARLY]
    forms: dict[str, Form] = {n: Dense(arrays[n]) for n in ("GSG", "S")}
    forms["I"] = Kronecker(Dense(torch.eye(1, dtype=torch.float64)), len(arrays["S"]), torch.arange(len(arrays["S"])))
    products = Products.of(rows, forms)
    return Course(
        corr={n: [products.estimate(t, n) for t in times] for n in forms},
        train=curve_of(o.numbers["train"] for o in good),
        test=curve_of(o.numbers["test"] for o in good),
        since=[products.since(t, "GSG") for t in times],
        rise=following.highest(products, early, "GSG", "S"),
        inside=change_inside(rows, [0, *early], arrays["top"]),
        apart=following.estimate(following.average([products.between(t, "GSG", "S") for t in times])),
        labels=_labels(trials, early, forms["GSG"]),
        change=change_along(rows, looks(len(steps)), directions),
        **shared,
    )


def rows_of(trials: Trials, k: int = 0) -> Tensor:
    """Gradients (members, snapshots, probes, d) of the members that went well, those of the k-th training of each."""
    return torch.stack([row[k].arrays["rows"] for row in trials.kept.values() if len(row) > k])


def _labels(trials: Trials, early: Sequence[int], GSG: Form) -> Labels | None:
    pairs = [row for row in trials.kept.values() if len(row) > 1]
    if len(pairs) < 3:
        return None
    true, random = (Products.of(torch.stack([row[k].arrays["rows"] for row in pairs]), {"GSG": GSG}) for k in (0, 1))
    apart = [following.combined(torch.sub, true.corr(t, "GSG"), random.corr(t, "GSG")) for t in range(len(true.own))]
    return Labels(
        [following.estimate(a) for a in apart],
        following.estimate(following.average([apart[t] for t in early])),
        [random.estimate(t, "GSG").value for t in range(len(apart))],
        following.estimate(
            following.average(
                [following.combined(torch.sub, random.corr(t, "GSG"), random.corr(0, "GSG")) for t in early]
            )
        ),
    )


def beside_mlp(courses: Mapping[str, Course], rows: Tensor) -> dict[str, Course]:
    """The same courses, each with the change of the MLP along the eigenvectors of its own G."""
    found = {}
    for network, c in courses.items():
        alone = network == "MLP" or not c.change.directions.ordered
        found[network] = c if alone else replace(c, beside=change_along(rows, looks(len(c.steps)), c.change.directions))
    return found


def mean_slope(outcomes: Sequence[Outcome]) -> Estimate:
    return mean([s for o in outcomes for s in o.numbers["slopes"] if s is not None])
