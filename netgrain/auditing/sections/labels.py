"""Where the label lies among the directions: class means, a linear rule, dependence, and the reaction."""

from __future__ import annotations

from typing import Any

from netgrain.auditing.sections.contract import (
    Figure,
    Report,
    Section,
    Sentence,
    Subject,
    estimate,
    has_target,
    percent,
    said,
    with_error,
)


def measure(subject: Subject) -> dict[str, Any]:
    """The key labels; None unless labels are classes."""
    if subject.y is None or subject.y.is_floating_point():
        return {"labels": None}
    found = subject.relevance
    return {
        "labels": {
            "mean_difference": estimate(found.means_leading),
            "linear": {**{k: estimate(v) for k, v in found.linear.items()}, "chance": found.chance},
            "nonlinear": estimate(found.dependence_leading),
            "reaction": estimate(found.reaction),
        }
    }


def sentences(report: Report) -> list[Sentence]:
    """How strongly the network reacts where the label is, and what a linear rule finds where."""
    if report["labels"] is None:
        return []
    return [s for s in (_said_of_reaction(report), _said_of_rule(report)) if s]


def _said_of_reaction(r: Report) -> Sentence:
    labels = r["labels"]
    inside, reaction = labels["nonlinear"], labels["reaction"]
    more = (
        "Along every direction the dependence between data and label is measured by distance correlation, which also "
        "sees what is not linear, and eigenvalues are averaged with it, relative to an average one. It is about fresh "
        "networks and single directions. On real images it does not tell which task or network reaches more: for that "
        "there is netgrain learnability."
    )
    if inside["value"] is None:
        return said("No single direction carries the label. It may depend on many at once.", more, "warn")
    return said(
        f"Fresh networks react {with_error(reaction['value'], reaction['stderr'])} times as strongly to the directions "
        "that carry the label as to an average one, which is no prediction of accuracy. The leading directions hold "
        f"{percent(inside)} of what single directions reveal about the label.",
        more,
    )


def _said_of_rule(r: Report) -> Sentence | None:
    linear = r["labels"]["linear"]
    everything, inside, weak = (linear[k] for k in ("all", "leading", "weak"))
    if everything["value"] is None or inside["value"] is None:
        return None
    outside = "" if weak["value"] is None else f", {percent(weak)} with the others alone"
    return said(
        f"A linear rule gets {percent(everything)} right with all directions, {percent(inside)} with the "
        f"leading ones{outside} (always guessing the largest class: {100 * linear['chance']:.0f} %).",
        "A linear discriminant, learnt on one half of the samples and tested on the other, both ways round. No "
        "network is involved: it shows how much linear signal the data have in which directions.",
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
