"""Several families on one data set, and for each pair a verdict with its uncertainty."""

from __future__ import annotations

import datetime
import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

from netgrain.auditing.audits import Audit
from netgrain.auditing.checks import comparable
from netgrain.runtime.versions import __version__

CLEAR = 1.96  # standard errors that a difference of difficulties must have


def compare(audits: Sequence[Audit]) -> dict[str, Any]:
    """The reports side by side, and who reacts more strongly to the directions of the labels."""
    reports = comparable(audits)
    return {
        "netgrain": __version__,
        "date": str(datetime.date.today()),
        "audits": reports,
        "verdicts": [verdict(a, b) for a, b in itertools.combinations(reports, 2)],
    }


def verdict(a: Mapping[str, Any], b: Mapping[str, Any]) -> dict[str, Any]:
    """Which of two families has the label more in its grain: the difference of the difficulties and its error."""
    one, two = a["labels"]["difficulty"], b["labels"]["difficulty"]
    names = [a["model"], b["model"]]
    if one["value"] is None or two["value"] is None:
        return {"between": names, "level": "note", "text": "no direction tells the label, so they cannot be compared."}
    gap = two["value"] - one["value"]
    error = math.hypot(one["stderr"] or 0.0, two["stderr"] or 0.0)
    places = {r["geometry"]["where"] for r in (a, b)}
    said = (
        f"G {' and '.join(sorted(places))}, difficulty {one['value']:+.2f} against {two['value']:+.2f}, "
        f"{abs(gap):.2f} ± {error:.2f} apart"
    )
    shares = [r["labels"]["nonlinear"]["value"] for r in (a, b)]
    inside = "" if None in shares else f"; {shares[0]:.0%} and {shares[1]:.0%} of it in their leading directions"
    if abs(gap) <= CLEAR * error:
        return {
            "between": names,
            "level": "note",
            "text": f"{names[0]} and {names[1]} cannot be told apart: {said}{inside}.",
        }
    better, worse = names if gap > 0 else names[::-1]
    return {
        "between": names,
        "level": "good",
        "text": f"{better} has these labels more in its grain than {worse}: {said}{inside}.",
    }
