"""What an audit says in words; each sentence follows from numbers of the report and carries its definition."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

NO_GRAIN = 0.95  # a network whose learnable directions are that share of all has no grain to speak of


def sentences(report: Mapping[str, Any]) -> list[dict[str, str]]:
    """The findings, most important first: level good, note, warn or bad."""
    return [
        s
        for s in (_grain(report), _variance(report), _labels(report), _rule(report), _samples(report), _how(report))
        if s
    ]


def _said(level: str, text: str, more: str) -> dict[str, str]:
    return {"level": level, "text": text, "more": more}


def _grain(r: Mapping[str, Any]) -> dict[str, str]:
    g, model = r["geometry"], r["model"]
    more = (
        f"Half of its geometry is in {g['directions_50']}, 99 % in {g['directions_99']} of {g['d']} "
        f"directions. The geometry "
        "is the average of JᵀJ over fresh networks, J being the derivative of the outputs by the input."
    )
    if r["learnable"]["count"] >= NO_GRAIN * g["d"]:
        return _said("note", f"{model} has no grain here: all directions of the input are nearly alike to it.", more)
    return _said("note", f"{model} puts 90 % of its geometry into {g['directions_90']} of {g['d']} directions.", more)


def _variance(r: Mapping[str, Any]) -> dict[str, str]:
    share = r["learnable"]["hard_variance"]
    level = "good" if share["value"] < 0.1 else "note" if share["value"] < 0.5 else "warn"
    return _said(
        level,
        f"{_percent(share)} of the variance of {r['data']['name']} lies in directions it can hardly learn.",
        r["learnable"]["definition"],
    )


def _labels(r: Mapping[str, Any]) -> dict[str, str]:
    labels = r["labels"]
    inside, word = labels["nonlinear"], labels["words"]
    check = labels["validity"]
    quoted = (
        ""
        if check is None
        else f" On {check['where']} this difficulty ranked the measured test accuracy with rho = {check['rho']:.2f} "
        f"({check['low']:.2f} to {check['high']:.2f})."
    )
    more = (
        "Along every direction the dependence between data and label is measured by distance correlation, "
        "which also sees "
        "what is not linear. The difficulty is the logarithm (base 10) of the average eigenvalue over the "
        "eigenvalue where "
        f"the label is.{quoted}"
    )
    if inside["value"] is None:
        return _said("warn", "No single direction tells the label; it may depend on many at once.", more)
    difficulty = labels["difficulty"]
    level = {"easy": "good", "average": "note", "hard": "warn", "invisible": "bad"}.get(word, "note")
    return _said(
        level,
        f"The label lies along directions {10 ** -difficulty['value']:.2g} times as strong as an average one: {word} "
        f"(difficulty {difficulty['value']:+.2f}{_pm(difficulty, 2)}); {_percent(inside)} of what single directions "
        "tell about it is where the network can learn.",
        more,
    )


def _rule(r: Mapping[str, Any]) -> dict[str, str] | None:
    linear = r["labels"]["linear"]
    everything, inside, hard = (linear[k] for k in ("all", "learnable", "hard"))
    if everything["value"] is None or inside["value"] is None:
        return None
    outside = "" if hard["value"] is None else f", {_percent(hard)} with the others alone"
    lost = everything["value"] - inside["value"]
    level = "good" if lost < 0.02 else "note" if lost < 0.1 else "warn"
    return _said(
        level,
        f"A linear rule gets {_percent(everything)} right with all directions, {_percent(inside)} with the "
        f"learnable ones"
        f"{outside} (always guessing the largest class: {100 * linear['chance']:.0f} %).",
        "A linear discriminant, learnt on one half of the samples and tried on the other, both ways round. "
        "Signal that is "
        "linear and outside of the learnable directions is there in the data and hard to find for the network.",
    )


def _samples(r: Mapping[str, Any]) -> dict[str, str]:
    samples = r["samples"]
    return _said(
        "note",
        f"{len(samples['kept'])} of {r['data']['samples']} samples stay when the lowest-scored "
        f"{100 * (1 - samples['keep']):.0f} % of each class are dropped.",
        "A sample's score is xᵀGx / ‖x‖² relative to a random direction: how much of it lies where the "
        "network can learn. "
        "The list of kept samples can be downloaded under Samples; whether pruning by it helps was measured in "
        "docs/reproduction.md (tables 1 and 2).",
    )


def _how(r: Mapping[str, Any]) -> dict[str, str]:
    g = r["geometry"]
    how = "computed in closed form" if g["method"] == "closed-form" else f"sampled from {g['members']} random networks"
    exact = "exact" if g["exact"] else "not exact"
    sure = "" if g["corr_with_truth"] is None else f" Expected correlation with the truth: {g['corr_with_truth']:.3f}."
    return _said(
        "note",
        f"The geometry was {how}; data: {r['data']['note']}.",
        f"It is {exact}.{sure} {' '.join(g['notes'])}".strip(),
    )


def _percent(e: Mapping[str, Any]) -> str:
    if e["value"] is None:
        return "an unknown share"
    error = "" if not e["stderr"] or e["stderr"] < 5e-4 else f" ± {100 * e['stderr']:.1f}"
    return f"{100 * e['value']:.1f}{error} %"


def _pm(e: Mapping[str, Any], digits: int) -> str:
    return "" if not e["stderr"] else f" ± {e['stderr']:.{digits}f}"
