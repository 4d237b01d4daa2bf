"""The score to expect from training: what random networks of the family tell about the labels before any training."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from netgrain.auditing.sections.contract import (
    Alert,
    Figure,
    Report,
    Section,
    Sentence,
    Subject,
    has_target,
    percent,
    said,
    with_error,
)
from netgrain.geometry.estimate import Estimate
from netgrain.learning.outcome import Learnability

BEYOND = 2.0  # standard errors from which a score above chance is no accident
LEAST_EXPLAINED = 0.01  # of the label's variance; less is nothing, however small its error
FARTHEST = 32  # times the samples, up to which the curve is drawn
WORTH = 0.01  # gain in score from twice the samples that is worth a sentence
UNEVEN = 0.05  # by which the mean of the classes' accuracies may fall behind
NOISY = 0.05  # share of wrong labels that is worth a look
FEW = 5  # samples of a class below which it has no accuracy of its own


# --- measured ---------------------------------------------------------------------------------------------------------


def measure(subject: Subject) -> dict[str, Any]:
    """The key expected: the prediction as plain values, the curve beyond the samples; None without labels."""
    found = subject.expected
    if found is None:
        return {"expected": None}
    given = subject.given or len(subject.X)
    plain = found.as_dict()
    until = plain["curve"]["enough"]
    return {
        "expected": {
            **plain,
            "curve": {**plain["curve"], "enough": None if until is None else list(until)},
            "network": "given" if subject.network is not None else "random",
            "all": {"samples": given, "score": of_all(found, given).as_dict()},
            "points": _points(found, given),
            "at_chance": at_chance(found),
        }
    }


def at_chance(found: Learnability) -> bool:
    """Whether nothing beyond the best constant answer was found: by the score, by the squared error, by the trial."""
    own = math.hypot(found.error.samples, found.error.members or 0.0)
    explained = found.kernels[found.kernel].explained
    by_score = float(found.score) - found.chance > BEYOND * own
    by_square = float(explained) > max(LEAST_EXPLAINED, BEYOND * explained.stderr)
    tried = found.trial is not None and float(found.trial.score) - found.chance > 2 * BEYOND * found.trial.score.stderr
    return not (by_score or by_square or tried)


def reached(report: Report) -> bool:
    """Whether a checkpoint is beyond guessing, so that there is something to learn."""
    found = report.get("checkpoint") or {}
    accuracy, chance = found.get("test") or found.get("accuracy"), report["expected"]["chance"]
    if not accuracy or accuracy["value"] is None:
        return False
    return bool(accuracy["value"] - chance > BEYOND * (accuracy["stderr"] or 0.0))


def of_all(found: Learnability, samples: int) -> Estimate:
    """The score with all samples that were given, where only some of them were measured."""
    return found.score if samples <= found.about.samples else _at(found, samples)


def of_new(found: Learnability, samples: int) -> Estimate:
    """What a network that was trained on so many samples is expected to reach on new ones, in one number."""
    both = found.combined if found.features_learnt else None
    return of_all(found, samples) if both is None else both


def _at(found: Learnability, samples: int) -> Estimate:
    """The score with so many samples: the curve's own error, and those of networks and of the method."""
    curve = found.curve.at(samples)
    error = math.sqrt(curve.stderr**2 + (found.error.members or 0.0) ** 2 + found.error.model**2)
    return Estimate(float(curve), error, curve.n)


def _points(found: Learnability, given: int) -> list[dict[str, Any]]:
    """The learning curve: measured on subsets of the samples, then the forecast, each with the whole error."""
    rest = math.hypot(found.error.members or 0.0, found.error.model)
    rows = [
        {"samples": n, "score": Estimate(float(s), math.hypot(s.stderr, rest), s.n).as_dict(), "measured": True}
        for n, s in zip(found.curve.sizes, found.curve.scores, strict=True)
    ]
    if at_chance(found):  # a forecast of nothing
        return rows
    last = found.curve.sizes[-1]
    enough = found.curve.enough()
    end = max(2 * last, given, 2 * enough[0] if enough else 0)
    steps = range(1, 1 + math.ceil(math.log2(min(end / last, FARTHEST))))
    for n in sorted({last * 2**j for j in steps} | ({given} if given > last else set())):
        rows.append({"samples": n, "score": _at(found, n).as_dict(), "measured": False})
    return rows


# --- alerts -----------------------------------------------------------------------------------------------------------


def alerts(report: Report) -> list[Alert]:
    """What speaks against training, or against trusting the number; where nothing can be learnt, nothing else."""
    expected = report.get("expected")
    if expected is None:
        return _off(report)
    if expected["at_chance"] and not reached(report):
        return [*_nothing(expected), *_off(report)]
    made = (_learnt, _few, _uneven, _more, _noise)
    return [*_off(report), *(alert for make in made if (alert := make(expected)) is not None)]


def _alert(level: Any, title: str, evidence: str, action: str, weight: float) -> Alert:
    return {
        "level": level,
        "title": title,
        "evidence": evidence,
        "action": action,
        "panel": "expected",
        "weight": weight,
    }


def _nothing(e: Mapping[str, Any]) -> list[Alert]:
    trial = "A short training found nothing either." if e["trial"] else "No short training was tried."
    return [
        _alert(
            "error",
            "Nothing to learn here",
            f"The {score_word(e)} to expect is {shown(e, e['score'])}; {constant(e)}. {trial}",
            "Check that each label belongs to its sample."
            if e["trial"]
            else "Check that each label belongs to its sample; if so, run again with --trial (trial=True).",
            100.0,
        )
    ]


def _learnt(e: Mapping[str, Any]) -> Alert | None:
    if not e["warning"]:
        return None
    gain = e["trial"]["gain"]
    return _alert(
        "warning",
        "This task needs features that random networks do not have",
        f"On the same samples a short training gains {with_error(100 * gain['value'], 100 * gain['stderr'])} points "
        "over features of random networks. Tabs that look at single patterns or straight-line rules see little of such "
        "a label; one that may show anywhere in the input is an example.",
        "Train this network for longer than usual before you judge it, and compare networks with a short training "
        "(--trial).",
        100 * gain["value"],
    )


def _few(e: Mapping[str, Any]) -> Alert | None:
    few = [name for name, score in e["per_class"].items() if score is None]
    if not few:
        return None
    listed = ", ".join(few[:3]) + (" and others" if len(few) > 3 else "")
    return _alert(
        "warning",
        f"{len(few)} class{'es have' if len(few) > 1 else ' has'} fewer than {FEW} samples",
        f"Nothing can be said about {listed}: {sum(e['counts'][name] for name in few)} samples together.",
        "Collect samples of these classes, or merge them with others.",
        5.0,
    )


def _uneven(e: Mapping[str, Any]) -> Alert | None:
    balanced, score = e["balanced"], e["score"]
    if balanced is None or score["value"] - balanced["value"] < max(UNEVEN, 2 * balanced["stderr"]):
        return None
    name, worst = min(((n, s) for n, s in e["per_class"].items() if s), key=lambda pair: pair[1]["value"])
    return _alert(
        "warning",
        "Rare classes are recognised much less often",
        f"Averaged over classes the accuracy is {percent(balanced)} instead of {percent(score)}; the weakest class is "
        f"{name} with {percent(worst)} of {e['counts'][name]} samples.",
        f"Collect more samples of {name}, or weight classes in the loss.",
        100 * (score["value"] - balanced["value"]),
    )


def _more(e: Mapping[str, Any]) -> Alert | None:
    n, now, twice = e["curve"]["samples"][-1], e["curve"]["scores"][-1], e["curve"]["twice"]
    gain = twice["value"] - now["value"]
    if e["warning"] or e["all"]["samples"] > n or gain < max(WORTH, twice["stderr"]):
        return None
    until = enough(e)
    return _alert(
        "note",
        "More samples would help",
        f"Twice as many samples would add {gained(e, gain, twice['stderr'])}.",
        f"Collect more samples{f', up to about {until:,}' if until else ''}, or augment these.",
        100 * gain,
    )


def _noise(e: Mapping[str, Any]) -> Alert | None:
    """Only where more samples would not help: else the bound says no more than that the task is hard."""
    noise = e["label_noise_at_most"]
    if e["measure"] != "accuracy" or noise["value"] is None or noise["value"] - 2 * noise["stderr"] < NOISY:
        return None
    if e["warning"] or _more(e) is not None or e["all"]["samples"] > e["curve"]["samples"][-1]:
        return None
    return _alert(
        "note",
        "Some labels may be wrong, or some samples ambiguous",
        f"With many more samples {percent(noise)} would still be wrong. That is a bound: a hard task looks the same.",
        "Look at a few dozen samples and their labels by eye before you collect more.",
        min(5.0, 100 * noise["value"]),
    )


def _off(report: Report) -> list[Alert]:
    off = (report.get("geometry") or {}).get("off")
    if not off:
        return []
    return [
        {
            "level": "warning",
            "title": "Parts of the network are switched off at the start",
            "evidence": f"{report['model']} is {off}.",
            "action": "Nothing to do for training; what this page says of its reaction is without these parts.",
            "panel": "overview",
            "weight": 3.0,
        }
    ]


# --- said -------------------------------------------------------------------------------------------------------------


def score_word(e: Mapping[str, Any]) -> str:
    """How the score is called in sentences."""
    return "accuracy" if e["measure"] == "accuracy" else "share of the variance explained (R²)"


def shown(e: Mapping[str, Any], score: Mapping[str, Any]) -> str:
    """A score with its standard error, in whole per cent for accuracies and shares of variance alike.

    >>> [shown({}, {"value": v, "stderr": e}) for v, e in ((0.834, 0.031), (0.992, 0.004), (0.98, 0.04))]
    ['83 ± 3 %', '99.2 ± 0.4 %', '94 to 100 %']
    """
    value, error = 100 * score["value"], 100 * (score["stderr"] or 0.0)
    digits = 0 if error >= 0.95 else 1
    if value + error > 100:
        return f"{value - max(error, 0.1):.{digits}f} to 100 %"
    return f"{value:.{digits}f} ± {max(error, 0.1):.{digits}f} %".replace("-", "−")


def outlook(e: Mapping[str, Any]) -> str:
    """The score to expect; from what random networks find to what training finds, where features must be learnt.

    >>> outlook({"score": {"value": 0.834, "stderr": 0.031}, "warning": None})
    '83 ± 3 %'
    >>> outlook({"score": {"value": 0.5}, "combined": {"value": 0.9, "stderr": 0.03}, "warning": "w"})
    'between 50 and 93 %'
    """
    both = e.get("combined")
    if not e["warning"] or not both:
        return shown(e, e["score"])
    return f"between {100 * e['score']['value']:.0f} and {100 * min(both['value'] + both['stderr'], 1.0):.0f} %"


def gained(e: Mapping[str, Any], gain: float, error: float) -> str:
    """As in "about 2.3 ± 0.8 points"."""
    return f"about {with_error(100 * gain, 100 * error)} points of {score_word(e)}"


def constant(e: Mapping[str, Any]) -> str:
    """What is reached without looking at the samples."""
    if e["measure"] == "accuracy":
        return f"always answering with the largest class gives {100 * e['chance']:.0f} %"
    return "always answering with the mean gives 0 %"


def enough(e: Mapping[str, Any]) -> int | None:
    """The number of samples, to two digits, from which doubling them adds less than a point; None where unknown."""
    found = e["curve"]["enough"]
    if not found or found[0] <= e["curve"]["samples"][-1]:
        return None
    return int(float(f"{found[0]:.2g}"))


def sentences(report: Report) -> list[Sentence]:
    """The score to expect, what it depends on, and how far it can be trusted."""
    e = report.get("expected")
    if e is None:
        return []
    n = e["settings"]["samples"]
    made = [
        said(
            f"Expected {score_word(e)} with {n:,} samples: {shown(e, e['score'])}; {constant(e)}.",
            "A few random networks of this family turn samples into features, and a simple rule predicts each label "
            "from all other samples. ± is one standard error: of the samples, of the random networks, and of the "
            f"method itself. It holds for training with: {e['settings']['recipe']}.",
        )
    ]
    if not e["at_chance"]:
        parts = {key: e["shares"][key] for key in ("now", "later")}
        shares = [
            f"{percent(part)} {word}"
            for part, word in ((parts["now"], "with these samples"), (parts["later"], "with more samples"))
            if part["value"] is not None and part["value"] > (part["stderr"] or 0.0)
        ]
        if shares:
            made.append(
                said(
                    f"Of what the label tells, such features can learn {' and '.join(shares)}.",
                    "Shares of the label's variance, from one half of the samples to the other.",
                )
            )
    return made


FIGURES = {
    "Expected score": (
        Figure("With the measured samples", "expected.score", "share",
               "Accuracy, or for numbers the share of the variance explained (R²)."),
        Figure("With all samples that were given", "expected.all.score", "share"),
        Figure("Without looking at the samples", "expected.chance", "share"),
        Figure("Mean over classes", "expected.balanced", "share"),
        Figure("Short training", "expected.trial.score", "share"),
        Figure("Twice the samples", "expected.curve.twice", "share"),
        Figure("Learnable now", "expected.shares.now", "share", "Share of the label's variance."),
        Figure("Learnable with more samples", "expected.shares.later", "share"),
        Figure("Wrong labels, at most", "expected.label_noise_at_most", "share"),
    )
}  # fmt: skip
SECTION = Section(
    order=5,
    measure=measure,
    sentences=sentences,
    alerts=alerts,
    figures=FIGURES,
    title="Accuracy",
    shown=has_target("classes", "numbers"),
)
