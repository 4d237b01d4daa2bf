"""Where the label lies among the directions: class means, a linear rule, dependence, and the difficulty."""

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
    percent,
    said,
    with_error,
)
from netgrain.auditing.signals import word_for


def measure(subject: Subject) -> dict[str, Any]:
    """The key labels."""
    found = subject.relevance
    return {
        "labels": {
            "mean_difference": estimate(found.means_leading),
            "linear": {**{k: estimate(v) for k, v in found.linear.items()}, "chance": found.chance},
            "nonlinear": estimate(found.dependence_leading),
            "difficulty": estimate(found.difficulty),
            "words": words(found.difficulty),
        }
    }


def words(difficulty: float) -> str:
    """A difficulty in the words of `netgrain visible`.

    >>> words(-1.2), words(0.0), words(1.5), words(math.nan)
    ('strong', 'average', 'weak', 'unknown')
    """
    return "unknown" if math.isnan(difficulty) else word_for(10**-difficulty)


def sentences(report: Report) -> list[Sentence]:
    """How strongly the network reacts where the label is, and what a linear rule finds where."""
    return [s for s in (_said_of_difficulty(report), _said_of_rule(report)) if s]


def _said_of_difficulty(r: Report) -> Sentence:
    labels = r["labels"]
    inside, difficulty = labels["nonlinear"], labels["difficulty"]
    more = (
        "Along every direction the dependence between data and label is measured by distance correlation, which also "
        "sees what is not linear, and eigenvalues are averaged with it. The difficulty is the logarithm (base 10) of "
        "an average eigenvalue over that average. It is about fresh networks and single directions, and no prediction "
        "of accuracy. Words: strong from three times an average direction upwards, average from a third, weak from a "
        "thousandth, very weak below."
    )
    if inside["value"] is None:
        return said("No single direction carries the label. It may depend on many at once.", more, "warn")
    return said(
        f"Fresh networks react {10 ** -difficulty['value']:.2g} times as strongly to the directions that carry "
        f"the label as to an average one: {labels['words']} (difficulty "
        f"{with_error(difficulty['value'], difficulty['stderr'])}). The leading directions hold {percent(inside)} of "
        "what single directions reveal about the label.",
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
        Figure("Difficulty", "labels.difficulty",
               meaning="Logarithm of an average eigenvalue over that where the label is; no prediction of accuracy."),
        Figure("Reaction in words", "labels.words", "text"),
    )
}  # fmt: skip
SECTION = Section(order=30, measure=measure, sentences=sentences, figures=FIGURES, title="Labels")
