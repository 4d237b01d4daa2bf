"""The verdict of an audit: one sentence that a person acts on and one action, made from facts of the report alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypedDict

from netgrain.auditing.checkpoint_story import story
from netgrain.auditing.sections.contract import Report, percent
from netgrain.auditing.sections.expected import constant, enough, outlook, reached, score_word, shown

BEYOND = 1.645  # standard errors by which a predicted gain must exceed zero: one-sided, 95 %
WORTH_SAYING = 0.05  # share of what tells the classes apart, or of the variance
ALIKE = 2.0  # times an average direction: a network whose strongest direction is below that has no preference
TRAIN = "Train it: nothing found here speaks against it."
LABELS = "Give labels to learn what accuracy to expect: y=, a label column, or one folder for each class."


class Verdict(TypedDict):
    """One sentence, how good the news is, and what to do."""

    sentence: str
    level: Literal["good", "note", "warning", "error"]
    action: str


def verdict(report: Report) -> Verdict:
    """The verdict; parts of the report that are missing are left out of it.

    >>> verdict({"model": "Net", "expected": None})["sentence"]
    'Without labels no accuracy can be predicted for Net.'
    """
    said = [_lead(report)]
    if not at_chance(report):
        said += [part for part in (_more(report), _weak_bands(report)) if part]
    return {"sentence": " ".join(said), "level": _level(report), "action": _action(report)}


def at_chance(report: Report) -> bool:
    """Whether nothing was found that can be learnt."""
    return bool(_of(report, "expected").get("at_chance")) and not reached(report)


def few_lines(report: Report) -> list[tuple[str, str]]:
    """The report for a terminal: the verdict, what to do, alerts with their actions, the main numbers."""
    said = _of(report, "verdict") or verdict(report)
    lines = [("verdict", said["sentence"]), ("do this", said["action"])]
    for alert in report.get("alerts") or ():
        action = "" if alert["action"] == said["action"] else f" {alert['action']}"
        lines.append((alert["level"], f"{alert['title']}. {alert['evidence']}{action}"))
    lines += [("checkpoint", f"{row.label}: {row.value} ({row.beside})") for row in story(report)]
    lines += [("expected", text) for text in _numbers(_of(report, "expected"))]
    advice = [row for row in _of(report, "advice").get("rows") or () if _pays(row)]
    lines += [("change", f"{_change(row)}: {_points(row['gain'])} points") for row in advice[1:3]]
    data = _of(report, "data")
    if data:
        lines.append(("data", _data(data)))
    geometry = _of(report, "geometry")
    if geometry.get("where"):
        lines.append(("reaction", f"measured {geometry['where']}, {geometry['how']}"))
    return lines


# --- the sentence -----------------------------------------------------------------------------------------------------


def _lead(report: Report) -> str:
    """What to expect, or what a checkpoint reached against it."""
    e, model = _of(report, "expected"), report.get("model") or "this network"
    if not e:
        return f"Without labels no accuracy can be predicted for {model}.{_reaction(report)}"
    n = e["settings"]["samples"]
    if at_chance(report):
        return (
            f"Nothing to learn here: with these {n:,} samples the {score_word(e)} to expect is {shown(e, e['score'])}, "
            f"and {constant(e)}."
        )
    own = _of(_of(report, "checkpoint"), "accuracy")
    expected = f"{outlook(e)} {_with_samples(e)}"
    given = e.get("network") == "given"
    if own.get("value") is not None:
        return _reached(report, e, expected)
    if e["warning"] and e["combined"]:
        return (
            f"Expect {outlook(e)} {score_word(e)} from this network {_with_samples(e)}: it has to learn features that "
            "random networks do not have."
        )
    base = f" (guessing gives {100 * e['chance']:.0f} %)" if e["measure"] == "accuracy" else ""
    if given and e["measure"] == "accuracy":
        return f"Expect about {expected} from what this network already extracts{base}."
    if e["measure"] != "accuracy":
        share = f"{shown(e, e['score'])} of the variance of your numbers (R²)"
        return f"Expect this network to explain about {share} {_with_samples(e)}."
    value = shown(e, e["score"])
    return f"Expect {'' if ' to ' in value else 'about '}{value} from this network {_with_samples(e)}{base}."


def _reached(report: Report, e: Mapping[str, Any], expected: str) -> str:
    """What a checkpoint reaches, on samples that it has not seen where there are some, and what was expected."""
    c = report["checkpoint"]
    what = "This network" if e.get("network") == "given" else "This checkpoint"
    test = _of(c, "test")
    new = "" if test.get("value") is None else f"{shown(e, test)} on {c['tested']:,} samples that it has not seen"
    reaches = f"{what} reaches {new or shown(e, c['accuracy']) + ' on these samples'}"
    if e["at_chance"] and new:
        return f"{reaches}, where features of random networks find nothing beyond guessing: it has learnt its own."
    if e["at_chance"]:
        return (
            f"{reaches}, where features of random networks find nothing beyond guessing ({100 * e['chance']:.0f} %): "
            "it has learnt features of its own, or knows these samples."
        )
    if e.get("network") == "given":
        return f"{reaches} as it is; a new last layer on what it extracts is expected to reach {expected}."
    if new:
        return f"{reaches}; expected is {expected}."
    return f"{reaches}; of a new one, {expected} is expected on samples that it has not seen."


def _with_samples(e: Mapping[str, Any]) -> str:
    n, given = e["settings"]["samples"], _of(e, "all")
    if given and given["samples"] > n and given["score"]["value"] is not None:
        return f"with {n:,} of these samples, and {shown(e, given['score'])} with all {given['samples']:,}"
    return f"with these {n:,} samples"


def _more(report: Report) -> str:
    """How many samples would help, where the curve tells."""
    e = _of(report, "expected")
    if not e or e["warning"]:
        return ""
    until, given = enough(e), _of(e, "all").get("samples", 0)
    if until is None:
        n, twice = e["curve"]["samples"][-1], e["curve"]["twice"]["value"]
        if given <= n and e["curve"]["enough"] is None and twice is not None and twice > e["score"]["value"]:
            return "More samples would help."
        return ""
    return f"More samples would help up to about {until:,}." if until > given else ""


def _weak_bands(report: Report) -> str:
    """Patterns that fresh networks hardly react to, and how much lies there."""
    scales = _of(report, "scales")
    weak = _of(scales, "weak")
    names = [str(name) for name in weak.get("bands") or ()]
    if not names:
        return ""
    if weak.get("finer_than") and scales.get("kind") in ("image", "signal"):
        unit = "pixels" if scales["kind"] == "image" else "steps"
        where = f"patterns finer than {weak['finer_than']:g} {unit}"
    elif scales.get("kind") == "table":
        where = ", ".join(names[:3]) + (f" and {len(names) - 3} more features" if len(names) > 3 else "")
    else:
        where = f"patterns of {', '.join(names[:3])}"
    classes = _of(report, "data").get("target", "classes") == "classes"
    label = "of what tells your classes apart" if classes else "of what goes with your numbers"
    for key, what in (("labels", label), ("variance", "of the variance of your data")):
        share, error = _value(weak.get(key)), _error(weak.get(key))
        if share is not None and share > max(WORTH_SAYING, 2 * error):
            return f"Before training it hardly reacts to {where}, where {100 * share:.0f} % {what} lies."
    return ""


def _reaction(report: Report) -> str:
    g = _of(report, "geometry")
    if g.get("largest") is None or g.get("d") is None:
        return ""
    if g["largest"] < ALIKE:
        return " It reacts to all patterns of the input about alike."
    return (
        f" It reacts {g['largest']:.3g} times as strongly to one pattern as to an average one, and "
        f"{g['directions_90']} of {g['d']} independent patterns make up 90 % of its reaction."
    )


# --- level and action -------------------------------------------------------------------------------------------------


def _level(report: Report) -> Literal["good", "note", "warning", "error"]:
    levels = {alert["level"] for alert in report.get("alerts") or ()}
    if "error" in levels:
        return "error"
    if "warning" in levels:
        return "warning"
    e, own = _of(report, "expected"), _of(report, "checkpoint")
    if own.get("accuracy") and e:  # good news only on samples that it has not seen, and as much as was expected
        test, hoped = _of(own, "test"), _of(own, "expected")
        return "good" if test and test["value"] + _error(hoped) >= hoped.get("value", 0.0) else "note"
    clear = e and e["score"]["value"] - 2 * e["score"]["stderr"] > e["chance"]
    return "good" if clear else "note"


def _action(report: Report) -> str:
    """The first of: what an error asks for, the change that is ranked first, what a warning or a note asks for."""
    alerts = list(report.get("alerts") or ())
    for alert in alerts:
        if alert["level"] == "error":
            return str(alert["action"])
    rows = [row for row in _of(report, "advice").get("rows") or () if _pays(row)]
    if rows:
        # ranked by other samples than those that measured the gain: the largest of those would be too large
        first = rows[0]
        return f"{_change(first)}: predicted to add {_points(first['gain'])} points."
    if alerts:
        return str(alerts[0]["action"])
    return TRAIN if _of(report, "expected") else LABELS


def _pays(row: Mapping[str, Any]) -> bool:
    """Whether a change is predicted to gain, beyond its error."""
    gain = _value(row.get("gain"))
    if "clear" in row:
        return bool(row["clear"]) and gain is not None
    return gain is not None and gain > BEYOND * _error(row["gain"])


def _change(row: Mapping[str, Any]) -> str:
    return str(row.get("action") or row.get("change")).rstrip(".")


def _points(gain: Mapping[str, Any]) -> str:
    return f"{100 * gain['value']:.1f} ± {100 * _error(gain):.1f}"


# --- the main numbers -------------------------------------------------------------------------------------------------


def _numbers(e: Mapping[str, Any]) -> list[str]:
    if not e or e["at_chance"]:
        return []
    rows = [f"{shown(e, e['score'])} {score_word(e)} with {e['settings']['samples']:,} samples; {constant(e)}"]
    if e["trial"] and e["trial"]["score"]["value"] is not None:
        rows.append(f"{shown(e, e['trial']['score'])} by a short training on half of the samples")
        if e["combined"]:
            rows.append(f"{shown(e, e['combined'])} by both together")
    twice = e["curve"]["twice"]
    if twice["value"] is not None:
        rows.append(f"{shown(e, twice)} with {2 * e['curve']['samples'][-1]:,} samples")
    balanced = e["balanced"]
    if balanced and abs(balanced["value"] - e["score"]["value"]) > 2 * (balanced["stderr"] or 0.0):
        rows.append(f"{percent(balanced)} averaged over classes")
    return rows


def _data(data: Mapping[str, Any]) -> str:
    given, n = data.get("given"), data.get("samples")
    count = f"{n:,} samples" if not given or given == n else f"{n:,} of {given:,} samples were measured"
    return f"{data.get('name')}: {count}; {data.get('note')}"


def _of(report: Any, key: str) -> Mapping[str, Any]:
    """A part of the report, empty where it is missing."""
    found = report.get(key) if isinstance(report, Mapping) else None
    return found if isinstance(found, Mapping) else {}


def _value(number: Any) -> float | None:
    found = number.get("value") if isinstance(number, Mapping) else number
    return float(found) if isinstance(found, int | float) else None


def _error(number: Any) -> float:
    found = number.get("stderr") if isinstance(number, Mapping) else None
    return float(found) if isinstance(found, int | float) else 0.0
