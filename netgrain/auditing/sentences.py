"""What an audit says in words; each sentence follows from numbers of the report and carries its definition."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

ALIKE = 2.0  # times an average direction: a network whose strongest direction is below that has no grain to speak of


def sentences(report: Mapping[str, Any]) -> list[dict[str, str]]:
    """The findings, most important first: level good, note, warn or bad."""
    made = (_grain, _zeros, _noise, _variance, _labels, _rule, _samples, _how)
    return [s for s in (say(report) for say in made) if s]


def _said(level: str, text: str, more: str) -> dict[str, str]:
    return {"level": level, "text": text, "more": more}


def _grain(r: Mapping[str, Any]) -> dict[str, str]:
    g, model = r["geometry"], r["model"]
    more = (
        f"Half of its geometry is in {g['directions_50']}, 99 % in {g['directions_99']} of {g['d']} "
        "directions. The geometry G is the average of JᵀJ over fresh networks, J being the derivative of the outputs "
        "by the input. It depends on where it is taken: at the origin, at the data or at noise it is another matrix."
    )
    start = f"G {g['where']}: the strongest direction of {model} is {g['largest']:.3g} times an average one"
    if g["largest"] < ALIKE:
        return _said("note", f"{start}, so it has no grain to speak of there.", more)
    return _said("note", f"{start}, and {g['directions_90']} of {g['d']} directions carry 90 % of G.", more)


def _zeros(r: Mapping[str, Any]) -> dict[str, str] | None:
    zeros, invisible = r["zero"]["at_probe"], r["zero"]["invisible"]
    if not zeros:
        return None
    if invisible:
        rest = f" {zeros - invisible} more have zero gain {r['geometry']['where']}." if zeros > invisible else ""
        return _said(
            "warn",
            f"{invisible} of {r['geometry']['d']} directions are invisible: no input makes {r['model']} react to them."
            f"{rest}",
            "They are lost before the first activation (a stride, a crop, an average), so they change nothing at any "
            "input and whatever the weights are. This was read off the traced network and confirmed on other ones.",
        )
    return _said(
        "note",
        f"{zeros} of {r['geometry']['d']} directions have zero gain {r['geometry']['where']}.",
        "That is a statement about this place only. Elsewhere the network may react to them, and training may use them."
        + (" Whether some are lost before the first activation was not looked for." if invisible is None else ""),
    )


def _noise(r: Mapping[str, Any]) -> dict[str, str] | None:
    g = r["geometry"]
    if g["known"] >= g["d"]:
        return None
    return _said(
        "warn",
        f"Of the {g['d']} eigenvalues the first {g['known']} are known; the others are below the noise of "
        f"{g['members']} networks.",
        "Directions found with three quarters of the networks were measured on the others. Beyond that rank those "
        "react more than twice as strongly as it looked, so the spectrum is drawn up to there. The numbers of "
        "directions for 90 and 99 % are lower bounds, and the share of the variance outside of the leading ones is an "
        "upper bound. Ask for more networks (members=, --members) to know more.",
    )


def _variance(r: Mapping[str, Any]) -> dict[str, str]:
    return _said(
        "note",
        f"{_percent(r['leading']['weak_variance'])} of the variance of {r['data']['name']} lies outside of the "
        f"{r['leading']['count']} leading directions.",
        r["leading"]["definition"],
    )


def _labels(r: Mapping[str, Any]) -> dict[str, str]:
    labels = r["labels"]
    inside, difficulty = labels["nonlinear"], labels["difficulty"]
    more = (
        "Along every direction the dependence between data and label is measured by distance correlation, which also "
        "sees what is not linear, and eigenvalues are averaged with it. The difficulty is the logarithm (base 10) of "
        "an average eigenvalue over that average. It is about fresh networks and single directions, and no prediction "
        "of accuracy."
    )
    if inside["value"] is None:
        return _said("warn", "No single direction tells the label; it may depend on many at once.", more)
    return _said(
        "note",
        f"Fresh networks react {10 ** -difficulty['value']:.2g} times as strongly to the directions that tell the "
        f"label as to an average one: {labels['words']} (difficulty {difficulty['value']:+.2f}{_pm(difficulty, 2)}); "
        f"{_percent(inside)} of what single directions tell about it is in the leading ones.",
        more,
    )


def _rule(r: Mapping[str, Any]) -> dict[str, str] | None:
    linear = r["labels"]["linear"]
    everything, inside, weak = (linear[k] for k in ("all", "leading", "weak"))
    if everything["value"] is None or inside["value"] is None:
        return None
    outside = "" if weak["value"] is None else f", {_percent(weak)} with the others alone"
    return _said(
        "note",
        f"A linear rule gets {_percent(everything)} right with all directions, {_percent(inside)} with the leading ones"
        f"{outside} (always guessing the largest class: {100 * linear['chance']:.0f} %).",
        "A linear discriminant, learnt on one half of the samples and tried on the other, both ways round. It is no "
        "network: it says how much linear signal the data have in which directions.",
    )


def _samples(r: Mapping[str, Any]) -> dict[str, str]:
    samples = r["samples"]
    return _said(
        "note",
        f"{len(samples['kept'])} of {r['data']['samples']} samples stay when the lowest-scored "
        f"{100 * (1 - samples['keep']):.0f} % of each class are dropped.",
        "A sample's score is xᵀGx / ‖x‖² relative to a random direction, x being the sample minus the mean of all "
        "samples: how strongly fresh networks react along it. What all samples share would otherwise weigh most in "
        "faint ones. The list of kept samples can be downloaded under Samples; whether pruning by scores helps was "
        "measured in docs/reproduction.md (tables 1 and 2, scores without subtracting the mean).",
    )


def _how(r: Mapping[str, Any]) -> dict[str, str]:
    g = r["geometry"]
    sure = "" if g["corr_with_truth"] is None else f" Expected correlation with the truth: {g['corr_with_truth']:.3f}."
    return _said(
        "note",
        f"G {g['where']}: {g['how']}; data: {r['data']['note']}.",
        f"It is {'exact' if g['exact'] else 'not exact'}.{sure} {' '.join(g['notes'])}".strip(),
    )


def _percent(e: Mapping[str, Any]) -> str:
    if e["value"] is None:
        return "an unknown share"
    error = "" if not e["stderr"] or e["stderr"] < 5e-4 else f" ± {100 * e['stderr']:.1f}"
    return f"{100 * e['value']:.1f}{error} %"


def _pm(e: Mapping[str, Any], digits: int) -> str:
    return "" if not e["stderr"] else f" ± {e['stderr']:.{digits}f}"
