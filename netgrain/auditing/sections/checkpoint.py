"""A trained checkpoint beside its family: its complexity, how far its geometry moved and where to."""

from __future__ import annotations

from typing import Any

from netgrain.auditing.places import SHARES
from netgrain.auditing.sections.contract import Figure, Section, Subject, estimate
from netgrain.complexity.estimators import geometric_complexity
from netgrain.families.members import member, trained_model
from netgrain.families.probes import Data
from netgrain.geometry.of_models import geometry_of
from netgrain.geometry.value import Geometry

POINTS = 200  # samples at which a trained network is looked at


def measure(subject: Subject) -> dict[str, Any]:
    """In the key complexity: trained and moved, both None without a checkpoint."""
    if subject.weights is None:
        return {"complexity": {"trained": None, "moved": None}}
    model = trained_model(subject.make, subject.weights).to(subject.device)
    points = subject.some_samples(POINTS, "audit trained")
    fresh = member(subject.make, subject.seed, 0, subject.device)
    after, before = (
        geometry_of([m], Data(points), input_shape=subject.shape, probes=len(points), progress=False)
        for m in (model, fresh)
    )
    return {
        "complexity": {
            "trained": estimate(geometric_complexity(model, points, seed=subject.seed)),
            "moved": {"corr": estimate(after.corr(subject.G)), "rows": _shares(subject.G, before, after)},
        }
    }


def _shares(G: Geometry, before: Geometry, after: Geometry) -> list[list[str]]:
    """How much of a fresh and of the trained network's geometry lies in the leading directions of the family."""
    rows = []
    for share in SHARES:
        k = G.directions_for(share)
        if k is not None:
            V = G.directions(k).flatten(1)
            inside = [float((V * g.form.matvec(V)).sum()) / max(g.trace.value, 1e-300) for g in (before, after)]
            rows.append(
                [
                    f"of its geometry in the {k} directions that carry {share:.0%} of the family's",
                    f"{inside[0]:.0%} fresh, {inside[1]:.0%} trained",
                ]
            )
    return rows


FIGURES = {
    "Complexity": (
        Figure("Geometric complexity, trained", "complexity.trained"),
        Figure("Correlation of trained and initial geometry", "complexity.moved.corr"),
    )
}
SECTION = Section(order=70, measure=measure, figures=FIGURES, panel="numbers")
