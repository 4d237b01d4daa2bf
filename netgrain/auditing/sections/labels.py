"""Where the label lies among the directions: class means, a linear rule, dependence, and the reaction."""

from __future__ import annotations

import math
from typing import Any

from netgrain.auditing.sections.contract import (
    Figure,
    Report,
    Section,
    Sentence,
    Subject,
    estimate,
    has_target,
    number,
    percent,
    said,
    with_error,
)
from netgrain.geometry.estimate import Estimate

SURE = 2.0  # standard errors above guessing, from which on a linear rule is said to find something
NOTHING = Estimate(math.nan)


def measure(subject: Subject) -> dict[str, Any]:
    """The key labels; null for what was not measured, is within its error, or is no more than chance gives."""
    found, y = subject.relevance, subject.y
    if y is None:
        return {"labels": None}
    target = "numbers" if y.is_floating_point() else "classes"
    better = found.linear["all"].value - found.chance > SURE * found.linear["all"].stderr
    return {
        "labels": {
            "target": target,
            "samples": found.samples,
            "mean_difference": shown(found.means_leading),
            "linear": {
                **{k: estimate(v) for k, v in found.linear.items()},
                "chance": number(found.chance),
                "above_chance": better if target == "classes" else None,
            },
            "nonlinear": shown(found.dependence_leading if found.dependent else NOTHING),
            "reaction": shown(found.reaction if found.dependent else NOTHING),
            "reaction_below": _bound(found.reaction) if found.dependent else None,
        }
    }


def shown(value: Estimate) -> dict[str, Any]:
    """An estimate as plain values; null where its error exceeds it."""
    return estimate(NOTHING if value.stderr > abs(value.value) else value)


def _bound(value: Estimate) -> float | None:
    """What a number is below (two standard errors above it), where its error exceeds it."""
    return number(value.value + 2 * value.stderr) if value.stderr > abs(value.value) else None


def sentences(report: Report) -> list[Sentence]:
    """How strongly the network reacts where the label is, and what a linear rule finds where."""
    if report["labels"] is None or report["labels"].get("target", "classes") != "classes":
        return []
    return [s for s in (_said_of_reaction(report), _said_of_rule(report)) if s]


def _said_of_reaction(r: Report) -> Sentence | None:
    labels = r["labels"]
    inside, reaction = labels["nonlinear"], labels["reaction"]
    more = (
        "Along every direction the dependence between data and label is measured by distance correlation, which also "
        "sees what is not linear, and eigenvalues are averaged with it, relative to an average one. It is about fresh "
        "networks and single directions. On real images it does not tell which task or network reaches more: for that "
        "there is netgrain learnability."
    )
    if not r["geometry"].get("complete", True):
        return None  # single directions are not known
    below = labels.get("reaction_below")
    if reaction["value"] is None and below is None:
        return said(
            "No single direction tells more about the label than about a shuffled one.",
            f"The label may depend on many directions at once, or on what is not at a fixed place. {more}",
            "warn",
        )
    how = f"less than {below:.2g}" if below is not None else with_error(reaction["value"], reaction["stderr"])
    held = ""
    if inside["value"] is not None:
        held = f" The leading directions hold {percent(inside)} of what single directions reveal about the label."
    return said(
        f"Fresh networks react {how} times as strongly to the directions that carry the label as to an average one, "
        f"which is no prediction of accuracy.{held}",
        more,
    )


def _said_of_rule(r: Report) -> Sentence | None:
    linear = r["labels"]["linear"]
    everything, inside, weak = (linear[k] for k in ("all", "leading", "weak"))
    if everything["value"] is None or inside["value"] is None:
        return None
    more = (
        "A linear discriminant, learnt on one half of the samples and tested on the other, both ways round. No "
        "network is involved: it shows how much linear signal the data have in which directions."
    )
    chance = 100 * linear["chance"]
    if not linear.get("above_chance", True):
        return said(
            f"A linear rule finds nothing: no better than always guessing the largest class ({chance:.0f} %).",
            f"{more} It got {percent(everything)} right. That says nothing about rules that are not linear.",
        )
    outside = "" if weak["value"] is None else f", {percent(weak)} with the others alone"
    return said(
        f"A linear rule gets {percent(everything)} right with all directions, {percent(inside)} with the "
        f"leading ones{outside} (always guessing the largest class: {chance:.0f} %).",
        more,
    )


FIGURES = {
    "Labels": (
        Figure("Class-mean signal inside", "labels.mean_difference", "share",
               "Share of the differences between class means that lies in leading directions."),
        *(Figure(f"Linear rule, {which} directions", f"labels.linear.{which}", "share", "accuracy")
          for which in ("all", "leading", "weak")),
        Figure("Chance", "labels.linear.chance", "share"),
        Figure("Non-linear signal inside", "labels.nonlinear", "share",
               "By distance correlation with the class along each direction."),
        Figure("Reaction to the label's directions", "labels.reaction",
               meaning="Eigenvalue where the label is over an average one; no prediction of accuracy."),
    )
}  # fmt: skip
SECTION = Section(
    order=30, measure=measure, sentences=sentences, figures=FIGURES, title="Labels", shown=has_target("classes")
)
