"""The page of an audit: one HTML file that needs no network, no server and no library.

Text and tables are written here and escaped by jinja2; plots are drawn in the browser from the JSON inside the page.
The page loads nothing (a Content-Security-Policy forbids it) and runs one script, named by its hash.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import groupby
from typing import Any, NamedTuple

from jinja2 import ChainableUndefined, Environment, PackageLoader
from markupsafe import Markup

STYLES = ("palette.css", "layout.css", "parts.css", "print.css")
SHARED = ("dom.js", "axes.js", "plots.js", "frame.js", "directions.js")
NOT_MEASURED = Markup('<span class="none">not measured</span>')
SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
LEVELS = {"good": ("✓", "Good"), "note": ("i", "Note"), "warn": ("!", "Watch"), "bad": ("×", "Problem")}


def page(report: Mapping[str, Any]) -> str:
    """The HTML page of one audit, from `Audit.as_dict()`; sections that are null or missing say "not measured".

    >>> html = page({"model": "mlp", "data": {"name": "digits", "classes": ["<script>"]}})
    >>> "&lt;script&gt;" in html, "<script>\\"" in html, "not measured" in html
    (True, False, True)
    """
    return _render("audit.html.jinja", report, "audit.js", figures=_grouped(figures(report)))


def comparison(report: Mapping[str, Any]) -> str:
    """The HTML page of `netgrain compare`: verdicts, a row per number, spectra in one plot, directions side by side."""
    audits = [audit for audit in _sequence(report.get("audits")) if isinstance(audit, Mapping)]
    across = zip(*(figures(audit) for audit in audits), strict=True)
    rows = [(row[0].group, row[0].label, row[0].meaning, [cell.text for cell in row]) for row in across]
    grouped = [(group, list(rows)) for group, rows in groupby(rows, key=lambda row: row[0])]
    return _render("comparison.html.jinja", report, "comparison.js", audits=audits, grouped=grouped)


class Figure(NamedTuple):
    """One number of the audit as a person reads it."""

    group: str
    label: str
    text: Markup
    meaning: str


def figures(report: Mapping[str, Any]) -> list[Figure]:
    """Every single number of an audit; the same rows in the same order for any audit, so that they can be compared."""

    def row(group: str, label: str, shown: Any, *path: str, meaning: str = "") -> Figure:
        return Figure(group, label, shown(_at(report, *path)), meaning)

    geometry, leading, labels = "Geometry", "Leading directions", "Labels"
    rest, pruning = "Complexity", "Samples"
    inside = str(_at(report, "leading", "definition") or "")
    return [
        row(geometry, "Taken", text, "geometry", "where"),
        row(geometry, "How", text, "geometry", "how"),
        row(geometry, "Correlation with the true geometry", number, "geometry", "corr_with_truth"),
        row(geometry, "Input dimension", number, "geometry", "d"),
        row(geometry, "Trace", number, "geometry", "trace", meaning="Sum of all eigenvalues of G = E[JᵀJ]."),
        row(geometry, "Effective rank", number, "geometry", "effective_rank",
            meaning="How many directions of equal weight would be as spread out as this spectrum."),
        row(geometry, "Strongest direction", number, "geometry", "largest", meaning="1 is the average direction."),
        row(geometry, "Eigenvalues above the noise", number, "geometry", "known",
            meaning="All of them where nothing was sampled."),
        row(geometry, "Zero gain where G is taken", number, "zero", "at_probe"),
        row(geometry, "Invisible", number, "zero", "invisible",
            meaning="Lost before the first activation: no input makes the network react to them."),
        row(geometry, "Directions for 50 %", number, "geometry", "directions_50", meaning="of the trace of G"),
        row(geometry, "Directions for 90 %", number, "geometry", "directions_90", meaning="of the trace of G"),
        row(geometry, "Directions for 99 %", number, "geometry", "directions_99", meaning="of the trace of G"),
        row(leading, "Number of directions", number, "leading", "count", meaning=inside),
        row(leading, "Data variance inside", share, "leading", "data_variance"),
        row(leading, "Data variance outside", share, "leading", "weak_variance"),
        row(labels, "Class-mean signal inside", share, "labels", "mean_difference",
            meaning="Share of the differences between class means that lies in leading directions."),
        row(labels, "Linear rule, all directions", share, "labels", "linear", "all", meaning="accuracy"),
        row(labels, "Linear rule, leading directions", share, "labels", "linear", "leading", meaning="accuracy"),
        row(labels, "Linear rule, weak directions", share, "labels", "linear", "weak", meaning="accuracy"),
        row(labels, "Chance", share, "labels", "linear", "chance"),
        row(labels, "Non-linear signal inside", share, "labels", "nonlinear",
            meaning="By distance correlation with the class along each direction."),
        row(labels, "Difficulty", number, "labels", "difficulty",
            meaning="Logarithm of an average eigenvalue over that where the label is; no prediction of accuracy."),
        row(labels, "Reaction in words", text, "labels", "words"),
        row(pruning, "Share of samples kept", share, "samples", "keep"),
        row(rest, "Geometric complexity at initialisation", number, "complexity", "initial"),
        row(rest, "Geometric complexity, trained", number, "complexity", "trained"),
        row(rest, "Correlation of trained and initial geometry", number, "complexity", "moved", "corr"),
    ]  # fmt: skip


def number(value: Any) -> Markup:
    """A number or an estimate: three digits, or as many as the error bar supports."""
    centre, error = _estimate(value)
    if centre is None:
        return NOT_MEASURED
    if isinstance(value, int):
        return Markup(f"{value:,}".replace("-", "−").replace(",", "\u202f"))
    if error is None or error == 0:
        return Markup(_plain(centre))
    if centre and not 1e-3 <= abs(centre) < 1e5:
        return _with_error(_plain(centre), _plain(error, 2))
    decimals = min(6, max(0, 1 - math.floor(math.log10(error))))
    return _with_error(f"{centre:.{decimals}f}".replace("-", "−"), f"{error:.{decimals}f}")


def share(value: Any) -> Markup:
    """A share or an accuracy as per cent."""
    centre, error = _estimate(value)
    if centre is None:
        return NOT_MEASURED
    shown = "&lt; 0.1" if 0 < centre < 0.0005 else f"{100 * centre:.1f}".replace("-", "−")
    if error is None or error == 0:
        return Markup(f"{shown} %")
    return _with_error(f"{shown} %", "&lt; 0.1" if error < 0.0005 else f"{100 * error:.1f}")


def text(value: Any) -> Markup:
    """Any words, escaped."""
    return NOT_MEASURED if value is None or str(value) == "" else Markup.escape(str(value))


def embedded(report: Mapping[str, Any]) -> Markup:
    """The report as JSON that no string can turn into markup: `<`, `>`, `&` and all beyond ASCII become \\uXXXX."""
    plain = json.dumps(_finite(report), ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return Markup(plain.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))


def _render(template: str, report: Mapping[str, Any], script: str, **more: Any) -> str:
    code = "(() => {\n'use strict';\n" + "\n".join(_source(name) for name in (*SHARED, script)) + "\n})();"
    digest = base64.b64encode(hashlib.sha256(code.encode()).digest()).decode()
    html = (
        _environment()
        .get_template(template)
        .render(
            r=report,
            levels=LEVELS,
            style=Markup("\n".join(_source(name) for name in STYLES)),
            code=Markup(code),
            digest=digest,
            json=embedded(report),
            **more,
        )
    )
    return html.encode("utf-8", "replace").decode()  # a file name that is not text (a lone surrogate) becomes "?"


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("netgrain.auditing"),
        autoescape=True,
        undefined=ChainableUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"number": number, "share": share, "words": text, "each": _sequence, "value": _value}
    return environment


@cache
def _source(name: str) -> str:
    environment = _environment()
    assert environment.loader is not None
    return environment.loader.get_source(environment, name)[0]


def _grouped(rows: Sequence[Figure]) -> list[tuple[str, list[Figure]]]:
    return [(group, list(members)) for group, members in groupby(rows, key=lambda row: row.group)]


def _at(report: Any, *path: str) -> Any:
    for key in path:
        report = report.get(key) if isinstance(report, Mapping) else None
    return report


def _sequence(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else []


def _estimate(value: Any) -> tuple[float | None, float | None]:
    if isinstance(value, Mapping):
        return _real(value.get("value")), _real(value.get("stderr"))
    return _real(value), None


def _value(value: Any) -> float | None:
    return _estimate(value)[0]


def _real(value: Any) -> float | None:
    ok = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return float(value) if ok else None


def _plain(value: float, digits: int = 3) -> str:
    """Three significant digits; powers of ten outside of 0.001 to 100,000."""
    if value and not 1e-3 <= abs(value) < 1e5:
        mantissa, power = f"{value:.{digits - 1}e}".split("e")
        return f"{mantissa}×10{str(int(power)).translate(SUPERSCRIPTS)}".replace("-", "−")
    return (f"{value:.0f}" if abs(value) >= 1000 else f"{value:#.{digits}g}".rstrip(".")).replace("-", "−")


def _with_error(centre: str, error: str) -> Markup:
    return Markup(f'{centre} <span class="pm">± {error}</span>')  # both come from the formats above


def _finite(value: Any) -> Any:
    """JSON has no NaN and no infinity: they become null."""
    if isinstance(value, Mapping):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
