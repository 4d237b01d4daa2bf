"""The grain itself: the geometry and its spectrum, the leading directions, and those without any reaction."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any

import torch

from netgrain.auditing.axes import Axes
from netgrain.auditing.invisible import invisible_within
from netgrain.auditing.label_relevance import Relevance
from netgrain.auditing.places import SHARES, how, where
from netgrain.auditing.sections.contract import (
    Figure,
    Report,
    Section,
    Sentence,
    Subject,
    estimate,
    number,
    numbers,
    percent,
    said,
)
from netgrain.auditing.words import word_for_lost
from netgrain.geometry.estimate import Estimate
from netgrain.geometry.spectrum import NULL

CURVE_POINTS = 300
MOST_ZEROS = 1024  # zeros of G among which invisible directions are looked for
ALIKE = 2.0  # times an average direction: a network whose strongest direction is below that has no grain to speak of
FEW_MEANS = (
    "Of an input of this size only the strongest directions are computed: here {count}, which together carry {share} "
    "of the network's average geometry. Along each of the others the output of a fresh network reacts less. That says "
    "nothing about what training reaches: networks do learn from weak directions."
)
APART_MEANS = (
    "They were found on three quarters of the random networks, and their strength was measured on the others, so that "
    "the noise of the sample does not make it larger."
)
LEADING_MEANS = (
    "The leading directions are the strongest ones that together carry 99 % of the network's average geometry "
    "(directions of equal strength are never separated). To the others, the weak ones, the output of a fresh network "
    "reacts little. That says nothing about what training reaches: networks do learn from weak directions."
)


# --- measured ---------------------------------------------------------------------------------------------------------


def measure(subject: Subject) -> dict[str, Any]:
    """The keys geometry, spectrum, leading and zero."""
    axes, found = subject.axes, subject.relevance
    inside = found.variance_leading
    return {
        "geometry": _geometry(subject),
        "spectrum": _spectrum(axes, found),
        "leading": {
            "count": axes.leading,
            "definition": meaning_of_leading(axes),
            "share": number(axes.leading_share),
            "data_variance": estimate(inside),
            "weak_variance": estimate(Estimate(1 - inside.value, inside.stderr, inside.n)),
        },
        "zero": _zeros(subject),
    }


def meaning_of_leading(axes: Axes) -> str:
    """What the leading directions are, in a sentence."""
    if axes.complete:
        return LEADING_MEANS
    found = FEW_MEANS.format(count=axes.leading, share=f"{100 * axes.leading_share:.0f} %")
    return f"{found} {APART_MEANS}" if axes.measured_apart else found


def _geometry(subject: Subject) -> dict[str, Any]:
    G, axes = subject.G, subject.axes
    return {
        "method": G.method,
        "how": how(G),
        "probe": str(G.about.probe) or None,
        "where": where(G, len(subject.X)),
        "off": G.about.switches() or None,
        "exact": G.exact,
        "members": G.members,
        "corr_with_truth": None if math.isnan(G.fidelity) else G.fidelity,
        "trace": estimate(G.trace),
        "effective_rank": estimate(G.effective_rank),
        "d": G.d,
        "computed": len(axes.values),
        "complete": axes.complete,
        "known": axes.known,
        "largest": number(axes.values[0] / axes.mean),
        **{f"directions_{round(100 * s)}": axes.directions_for(s) for s in SHARES},
        "notes": list(G.about.notes),
        "zero": False,
    }


def _zeros(subject: Subject) -> dict[str, Any]:
    """Directions to which no network reacts at the probe, and those among them that are invisible at any input."""
    axes = subject.axes
    if axes.known < len(axes.values) or not axes.complete:
        return {"at_probe": None, "invisible": None}  # too few gradients to tell zero from small, or not computed
    first = int((axes.values > NULL * axes.values[0]).sum())
    count = len(axes.values) - first
    if count > MOST_ZEROS:
        return {"at_probe": count, "invisible": None}
    candidates = axes.vectors[first:].reshape(-1, *subject.shape)
    found = invisible_within(subject.make, candidates, seed=subject.seed) if count else ()
    if not len(found):
        return {"at_probe": count, "invisible": 0}
    return {"at_probe": count, "invisible": len(found), "word": asdict(word_for_lost(subject.make, seed=subject.seed))}


def curve_index(d: int) -> list[int]:
    """The ranks, counted from 0, at which spectra of d directions are drawn: evenly on a logarithmic axis."""
    return sorted({min(d - 1, round(d ** (j / (CURVE_POINTS - 1))) - 1) for j in range(CURVE_POINTS)})


def spectrum_of(axes: Axes) -> list[float | None]:
    """Eigenvalues relative to their mean, at those ranks."""
    return numbers(axes.values[torch.tensor(curve_index(len(axes.values)))] / axes.mean)


def _spectrum(axes: Axes, found: Relevance) -> dict[str, Any]:
    index = curve_index(len(axes.values))
    at = torch.tensor(index)
    data = found.spectrum / found.mean_variance
    along = found.variance / found.mean_variance
    return {
        "index": index,
        "network": [v if i < axes.known else None for i, v in zip(index, spectrum_of(axes), strict=True)],
        "flat": [1.0] * len(index),
        "data": numbers(data[at]),
        "data_along": numbers(along[at]),
    }


# --- said -------------------------------------------------------------------------------------------------------------


def sentences(report: Report) -> list[Sentence]:
    """How strong the grain is, what has no gain, what is not known, and how much of the data lies outside."""
    made = (_said_of_off, _said_of_grain, _said_of_zeros, _said_of_noise, _said_of_variance)
    return [s for s in (say(report) for say in made) if s]


def _said_of_off(r: Report) -> Sentence | None:
    off = r["geometry"].get("off")  # reports of older versions do not have it
    if not off:
        return None
    return said(
        f"{r['model']} is {off}.",
        "What is measured here is the network as it starts. A factor of zero keeps a branch out of the geometry until "
        "training has moved it.",
        "warn",
    )


def _said_of_grain(r: Report) -> Sentence:
    g, model = r["geometry"], r["model"]
    halves = [f"{share} % in {g[key]}" for share, key in ((50, "directions_50"), (99, "directions_99")) if g[key]]
    there = f"Of its geometry {' and '.join(halves)} of {g['d']} directions. " if halves else ""
    more = (
        f"{there}The geometry G is the average of JᵀJ over fresh networks, where J is the derivative of the "
        "outputs by the input. It depends on where it is taken: at the origin, at the data and at noise it differs."
    )
    carried = f"{g['directions_90']} of {g['d']} directions carry 90 % of G"
    if g["directions_90"] is None:
        carried = f"its {r['leading']['count']} strongest of {g['d']} directions carry {_carried(r)} of G"
    if g["largest"] < ALIKE:
        text = f"{model} has no grain to speak of: its strongest direction is {g['largest']:.3g} times an average one"
    else:
        text = (
            f"{model} reacts {g['largest']:.3g} times as strongly to its strongest direction as to an average one, and "
            f"{carried}"
        )
    return said(f"{text} (G {g['where']}).", more)


def _carried(r: Report) -> str:
    share = r["leading"].get("share")
    return "not all" if share is None else f"{100 * share:.0f} %"


def _said_of_zeros(r: Report) -> Sentence | None:
    zeros, invisible = r["zero"]["at_probe"], r["zero"]["invisible"]
    d, place = r["geometry"]["d"], r["geometry"]["where"]
    if not zeros:
        return None
    if invisible:
        rest = f" {zeros - invisible} more have zero gain {place}." if zeros > invisible else ""
        word = r["zero"].get("word") or {"may": False, "sentence": ""}
        name = "invisible" if word["may"] else "lost before the first activation"
        return said(
            f"{invisible} of {d} directions are {name}: no input makes {r['model']} react to them.{rest}",
            "They are lost before the first activation (by a stride, a crop or an average), so they change "
            "nothing at any input, whatever the weights are. netgrain read this off the traced network and confirmed "
            f"it on other ones. {word['sentence']}".strip(),
            "warn",
        )
    unknown = " Whether some are lost before the first activation was not looked for." if invisible is None else ""
    return said(
        f"{zeros} of {d} directions have zero gain {place}.",
        "That is a statement about this place only. Elsewhere the network may react to them, and training may "
        f"use them.{unknown}",
    )


def _said_of_noise(r: Report) -> Sentence | None:
    g = r["geometry"]
    computed = g.get("computed", g["d"])
    if g["known"] >= computed:
        return None
    return said(
        f"Only the first {g['known']} of {computed} eigenvalues are known: the others are below the noise of "
        f"{g['members']} networks.",
        "Directions found with three quarters of the networks were measured on the others. Beyond that rank "
        "those react more than twice as strongly as it looked, so the spectrum is drawn up to there. The numbers of "
        "directions for 90 and 99 % are lower bounds, and the share of the variance outside the leading ones is an "
        "upper bound. Ask for more networks (members=, --members) to know more.",
        "warn",
    )


def _said_of_variance(r: Report) -> Sentence:
    return said(
        f"{percent(r['leading']['weak_variance'])} of the variance of {r['data']['name']} lies outside the "
        f"{r['leading']['count']} leading directions.",
        r["leading"]["definition"],
    )


# --- shown ------------------------------------------------------------------------------------------------------------


FIGURES = {
    "Geometry": (
        Figure("Taken", "geometry.where", "text"),
        Figure("How", "geometry.how", "text"),
        Figure("Correlation with the true geometry", "geometry.corr_with_truth"),
        Figure("Input dimension", "geometry.d"),
        Figure("Trace", "geometry.trace", meaning="Sum of all eigenvalues of G = E[JᵀJ]."),
        Figure("Effective rank", "geometry.effective_rank",
               meaning="How many directions of equal weight would be as spread out as this spectrum."),
        Figure("Strongest direction", "geometry.largest", meaning="1 is the average direction."),
        Figure("Eigenvalues above the noise", "geometry.known", meaning="All of them where nothing was sampled."),
        Figure("Zero gain where G is taken", "zero.at_probe"),
        Figure("Invisible", "zero.invisible",
               meaning="Lost before the first activation: no input makes the network react to them."),
        *(Figure(f"Directions for {share} %", f"geometry.directions_{share}", meaning="of the trace of G")
          for share in (50, 90, 99)),
    ),
    "Leading directions": (
        Figure("Number of directions", "leading.count", meaning=LEADING_MEANS),
        Figure("Data variance inside", "leading.data_variance", "share"),
        Figure("Data variance outside", "leading.weak_variance", "share"),
    ),
}  # fmt: skip
SECTION = Section(order=10, measure=measure, sentences=sentences, figures=FIGURES, panel="overview")
