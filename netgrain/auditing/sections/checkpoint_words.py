"""The story of a checkpoint in words, from the numbers in the report: what was found, and what to do."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from netgrain.auditing.sections.contract import Alert, Report, Sentence, percent, said, with_error

SURE = 2.0  # standard errors by which two numbers must differ to be called different
NEAR = 0.1  # of the way from guessing to perfect: a checkpoint below is close to guessing
CHANGED = 1.5  # factor by which the share of a reaction must have changed to be named
HARDLY = 0.2  # times its share of the data's variance: a part with less of the reaction is hardly reacted to
MUCH = 0.1  # share of the data's variance from which a part is worth a sentence
STEEP, STEEPER = 0.5, 1.5  # share of the steepness in a tenth of the samples, and times that of fresh networks
SURE_OF_ITSELF = 0.1  # confidence above accuracy
UNSEEN = "on samples that it has not seen"
ON_THESE = "on these samples; if it was trained on them, that says how well it remembers them"


def sentences(report: Report) -> list[Sentence]:
    """How well it answers, what it reacts to and ignores, how far it moved."""
    c = report.get("checkpoint")
    if not c:
        return []
    found = [_answer(c), _reaction(c), _ignored(c), _distance(c)]
    return [sentence for sentence in found if sentence is not None]


def _answer(c: Report) -> Sentence | None:
    if c["accuracy"] is None or c["accuracy"]["value"] is None:
        return None
    test = c.get("test")
    score = _score(c, test or c["accuracy"])
    e = c["expected"]
    where = ON_THESE if test is None else f"{UNSEEN}, and {percent(c['accuracy'])} on the others"
    count = c["answered"] if test is None else c["tested"]
    beside = "" if e is None else f" Expected was {_score(c, e)}, of {e['of']}."
    worst = ""
    if c["mistakes"]:
        m = c["mistakes"][0]
        worst = f" Most often it takes '{m['true']}' for '{m['said']}' ({percent(m['share'])} of '{m['true']}')."
    sure = ""
    if c["overconfidence"] is not None and _beyond(c["overconfidence"], 0.0):
        more = "more" if c["overconfidence"]["value"] > 0 else "less"
        points = abs(100 * c["overconfidence"]["value"])
        sure = f" It is {points:.0f} points {more} sure of its answers than it is right."
    return said(f"The checkpoint reaches {score} {where}.{beside}{worst}{sure}", ANSWERED.format(n=count))


ANSWERED = (
    "Measured on {n} random samples, with the standard error over samples. The expected score comes from a kernel of "
    "random networks, or of this network's own features, by leave-one-out: it is about samples not trained on."
)


def _score(c: Report, e: Mapping[str, Any]) -> str:
    return f"{percent(e)} accuracy" if c["measure"] == "accuracy" else f"R² {with_error(e['value'], e['stderr'])}"


def _reaction(c: Report) -> Sentence | None:
    """Where training has moved the reaction, by the parts of the input space."""
    moved = [
        p for p in c["parts"] if p["fresh"]["value"] and p["trained"]["value"] and _differ(p["trained"], p["fresh"])
    ]
    raised = [p for p in moved if _ratio(p) > CHANGED]
    lowered = [p for p in moved if _ratio(p) < 1 / CHANGED]
    told = []
    if raised:
        told.append(f"raised its reaction to {_shares(max(raised, key=_difference))}")
    if lowered:
        told.append(f"lowered that to {_shares(min(lowered, key=_difference))}")
    if not told:
        return None
    return said(f"Training {' and '.join(told)}.", REACTED.format(n=c["samples"], m=c["members"]))


REACTED = (
    "Shares of the squared input gradient, from {n} samples and {m} fresh networks beside the checkpoint. A pattern "
    "has the size of its finest wave: a chessboard of single pixels has 2."
)


def _ratio(part: Report) -> float:
    return float(part["trained"]["value"] / part["fresh"]["value"])


def _difference(part: Report) -> float:
    return float(part["trained"]["value"] - part["fresh"]["value"])


def _shares(p: Report) -> str:
    return f"{part_words(p['name'])} from {percent(p['fresh'])} to {percent(p['trained'])}"


def part_words(name: str) -> str:
    """A part of the input space in a sentence."""
    return f"patterns of {name}" if name.endswith((" px", " steps", " and coarser")) else name


def _ignored(c: Report) -> Sentence | None:
    """Parts with much of the data's variance and little of the reaction."""
    little = hardly(c["parts"])
    if not little:
        return None
    worst = max(little, key=lambda p: p["data"]["value"])
    others = (
        f" The same holds for {', '.join(part_words(p['name']) for p in little if p is not worst)}."
        if little[1:]
        else ""
    )
    return said(
        f"It hardly reacts to {part_words(worst['name'])}: {percent(worst['data'])} of the variance of your data and "
        f"{percent(worst['trained'])} of its reaction lie there.{others}",
        "That is no fault in itself: a label may not need them. It is one if you know that they matter.",
    )


def hardly(parts: Sequence[Report]) -> list[Report]:
    """Parts with much of the data's variance and little of the reaction."""
    return [
        p
        for p in parts
        if p["trained"]["value"] is not None
        and p["data"]["value"] > MUCH
        and p["trained"]["value"] + SURE * (p["trained"]["stderr"] or 0.0) < HARDLY * p["data"]["value"]
    ]


def _distance(c: Report) -> Sentence | None:
    """How far it moved: weights, geometry, complexity."""
    told = []
    weights, corr, usual = c["moved"]["weights"], c["moved"]["corr"], c["moved"]["fresh_corr"]
    if weights is not None and weights["value"] is not None:
        told.append(
            f"its weights are {with_error(weights['value'], weights['stderr'])} times as far from fresh ones as those "
            "are from each other"
        )
    if corr is not None and usual is not None and corr["value"] is not None and usual["value"] is not None:
        told.append(
            f"what it reacts to has a correlation of {with_error(corr['value'], corr['stderr'])} with the average "
            f"fresh network ({with_error(usual['value'], usual['stderr'])} for a single fresh one)"
        )
    trained, fresh = c["complexity"]["trained"], c["complexity"]["fresh"]
    if fresh is not None and fresh["value"]:
        told.append(f"its mean squared slope is {times(trained['value'] / fresh['value'])} theirs")
    if not told:
        return None
    text = "; ".join(told)
    return said(f"{text[0].upper()}{text[1:]}.", MOVED)


MOVED = (
    "Weights that are as far from a fresh draw as another fresh draw have a distance of 1; a network that learnt in "
    "small steps has nearly 1, too. Correlations are between average squared gradients (geometries), 1 for equal ones; "
    "the mean squared slope is the geometric complexity."
)


def times(factor: float) -> str:
    """A factor in two digits.

    >>> times(4.0), times(0.031), times(1234.5), times(2117941.0)
    ('4 times', '0.031 times', '1,200 times', '2.1 million times')
    """
    if factor >= 1e6:
        return f"{factor / 1e6:,.2g} million times" if factor < 1e8 else f"{factor:.1e} times"
    return f"{float(f'{factor:.2g}'):,.0f} times" if factor >= 100 else f"{factor:.2g} times"


# --- alerts -----------------------------------------------------------------------------------------------------------


def alerts(report: Report) -> list[Alert]:
    """Close to guessing, below what was expected, steep on a few samples, too sure of itself."""
    c = report.get("checkpoint")
    if not c:
        return []
    hopeless = bool((report.get("expected") or {}).get("at_chance"))
    found = [_guessing(c) if not hopeless else None, _steep(c), _sure(c)]
    if found[0] is None and not hopeless:
        found += [_below(c), _memory(c)]
    return [alert for alert in found if alert is not None]


def _guessing(c: Report) -> Alert | None:
    score = c.get("test") or c["accuracy"]
    if score is None or score["value"] is None:
        return None
    guess = c["chance"]
    if score["value"] >= guess + NEAR * (1 - guess):
        return None
    constant = f"always giving the most frequent class has {100 * guess:.0f} %"
    evidence = constant if c["measure"] == "accuracy" else "always giving the mean has 0"
    fresh = c["moved"]["weights"]
    untrained = fresh is not None and fresh["value"] is not None and abs(fresh["value"] - 1) < 0.02
    hint = " Its weights are as near to fresh ones as those to each other, so it may be untrained." if untrained else ""
    return _alert(
        "error",
        "The checkpoint is close to guessing",
        f"It reaches {_score(c, score)}, and {evidence}.{hint}",
        "Give the data the preprocessing that it was trained with (--standardise, or the same mean and scale), and "
        "check that the classes come in the same order.",
        40.0,
    )


def _below(c: Report) -> Alert | None:
    score, e = c.get("test") or c["accuracy"], c["expected"]
    if score is None or e is None or score["value"] is None or e["value"] is None:
        return None
    gap = e["value"] - score["value"]
    where = UNSEEN if c.get("test") else "on these samples"
    if gap < SURE * math.hypot(score["stderr"] or 0.0, e["stderr"] or 0.0):
        return None
    return _alert(
        "warning",
        "The checkpoint is below what was expected",
        f"It reaches {_score(c, score)} {where}; {_score(c, e)} was expected of {e['of']}, with {e['samples']:,} "
        "samples.",
        "Train it longer or with another learning rate, and check that it gets the preprocessing that it was trained "
        "with.",
        100 * gap,
    )


def _memory(c: Report) -> Alert | None:
    """Above what was expected, on samples that it may have been trained on: that tells nothing about others."""
    score, e = c["accuracy"], c["expected"]
    if c.get("test") or score is None or e is None or score["value"] is None or e["value"] is None:
        return None
    gap = score["value"] - e["value"]
    if gap < SURE * math.hypot(score["stderr"] or 0.0, e["stderr"] or 0.0):
        return None
    return _alert(
        "note",
        "It may remember these samples",
        f"It reaches {_score(c, score)} on them; {_score(c, e)} was expected on samples that it has not seen.",
        "Judge it on samples that it has not seen: give data with a test part (it is used), or test=(X, y) in Python.",
        50.0,
    )


def _steep(c: Report) -> Alert | None:
    top = c["top_share"]
    trained, fresh = top["trained"], top["fresh"]
    if trained["value"] is None or trained["value"] < STEEP:
        return None
    if fresh is not None and fresh["value"] and trained["value"] < STEEPER * fresh["value"]:
        return None
    usual = "" if fresh is None else f", and {percent(fresh)} in fresh networks"
    listed = ", ".join(f"#{s['index']}" for s in c["steepest"][:3])
    return _alert(
        "warning",
        "It is far steeper on a few samples than on the others",
        f"A tenth of {c['samples']} samples holds {percent(trained)} of its squared slopes{usual}.",
        f"Look at samples {listed}: wrong labels, duplicates of another class and damaged files show like this.",
        3.0,
    )


def _sure(c: Report) -> Alert | None:
    o = c["overconfidence"]
    if o is None or o["value"] is None or o["value"] < SURE_OF_ITSELF or not _beyond(o, SURE_OF_ITSELF / 2):
        return None
    return _alert(
        "note",
        "It is more sure of its answers than it is right",
        f"Its mean confidence is {percent(o)} above its accuracy.",
        "Scale its outputs down (temperature scaling on held-out samples) before you use its probabilities.",
        1.0,
    )


def _beyond(e: Mapping[str, Any], limit: float) -> bool:
    return e["value"] is not None and bool(abs(e["value"]) - SURE * (e["stderr"] or 0.0) > limit)


def _differ(a: Mapping[str, Any], b: Mapping[str, Any]) -> bool:
    return bool(abs(a["value"] - b["value"]) > SURE * math.hypot(a["stderr"] or 0.0, b["stderr"] or 0.0))


def _alert(level: Literal["error", "warning", "note"], title: str, evidence: str, action: str, weight: float) -> Alert:
    return {
        "level": level,
        "title": title,
        "evidence": evidence,
        "action": action,
        "panel": "checkpoint",
        "weight": weight,
    }
