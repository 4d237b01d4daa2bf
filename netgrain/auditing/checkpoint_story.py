"""What a trained network has become, in a few rows under the verdict: label, finding, what it is compared with.

The verdict says what it reaches. Rows are made from the report alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from netgrain.auditing.sections.checkpoint_words import hardly, part_words, times
from netgrain.auditing.sections.contract import Report, with_error


class Row(NamedTuple):
    """One finding."""

    label: str
    value: str
    beside: str  # what it is compared with, or where it was measured


def story(report: Report) -> list[Row]:
    """Rows about the checkpoint of a report; none without one.

    >>> story({"checkpoint": None})
    []
    """
    c = report.get("checkpoint") or {}
    made = (_changed, _ignored, _moved, _slope, _steepest)
    found = [row for make in made if c and (row := make(c)) is not None]
    lost = _lost(report) if c else None
    return found if lost is None else [*found, lost]


def _changed(c: Report) -> Row | None:
    """The part whose share of the reaction grew most."""
    known = [p for p in c["parts"] if p["trained"]["value"] is not None and p["fresh"]["value"] is not None]
    if not known:
        return None
    most = max(known, key=lambda p: p["trained"]["value"] - p["fresh"]["value"])
    return Row(
        "Learnt to react to",
        part_words(most["name"]),
        f"{100 * most['trained']['value']:.0f} % of its reaction; {100 * most['fresh']['value']:.0f} % when fresh",
    )


def _ignored(c: Report) -> Row | None:
    little = hardly(c["parts"])
    if not c["parts"]:
        return None
    if not little:
        return Row("Hardly reacts to", "nothing large", "each size of pattern has its part of the reaction")
    worst = max(little, key=lambda p: p["data"]["value"])
    return Row(
        "Hardly reacts to",
        part_words(worst["name"]),
        f"{100 * worst['data']['value']:.0f} % of your data's variance, {_small(worst['trained'])} of its reaction",
    )


def _small(share: Mapping[str, float]) -> str:
    return f"{100 * share['value']:.2g} %"


def _moved(c: Report) -> Row | None:
    weights = c["moved"]["weights"]
    if weights is None or weights["value"] is None:
        return None
    value = with_error(weights["value"], weights["stderr"])
    return Row("Weights moved", f"{value} times", "the distance of two fresh networks")


def _slope(c: Report) -> Row | None:
    trained, fresh = c["complexity"]["trained"], c["complexity"]["fresh"]
    if trained["value"] is None or not fresh or not fresh["value"]:
        return None
    return Row("Steepness", times(trained["value"] / fresh["value"]), "that of fresh networks (mean squared slope)")


def _steepest(c: Report) -> Row | None:
    if not c["steepest"] or c["steepest"][0]["value"] is None:
        return None
    listed = ", ".join(f"#{s['index']}" for s in c["steepest"][:3])
    return Row("Steepest samples", listed, f"up to {c['steepest'][0]['value']:.2g} times as steep as the median")


def _lost(report: Report) -> Row | None:
    """The layer that loses most of what differs between samples, in the checkpoint and in fresh networks."""
    layers = report.get("layers")
    if not isinstance(layers, Mapping) or "trained_loses" not in layers or not layers.get("rows"):
        return None
    after, before = layers["trained_loses"], layers.get("loses")
    if after is None:
        return Row("Loses most at", "no layer", "more of your data than of noise")
    same = "as in fresh networks" if before and before["name"] == after["name"] else "not so in fresh networks"
    factor = after["factor"]["value"]
    return Row("Loses most at", str(after["name"]), f"{factor:.2g} of what tells samples apart, over noise; {same}")
