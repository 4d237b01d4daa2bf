"""The page of an audit: one HTML file that needs no network, no server and no library.

The frame is templates/audit.html.jinja; each section brings templates/sections/KEY.html.jinja and its figures.

Text and tables are written here and escaped by jinja2; plots are drawn in the browser from the JSON inside the page.
The page loads nothing (a Content-Security-Policy forbids it) and runs one script, named by its hash.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

from jinja2 import ChainableUndefined, Environment, PackageLoader
from markupsafe import Markup

from netgrain.auditing.checkpoint_story import story
from netgrain.auditing.sections.registry import sections
from netgrain.runtime.files import write_whole

STYLES = ("palette.css", "layout.css", "parts.css", "print.css")
SHARED = ("dom.js", "axes.js", "plots.js", "frame.js", "directions.js")
NOT_MEASURED = Markup('<span class="none">not measured</span>')
SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
LEVELS = {
    "good": ("✓", "Good"),
    "note": ("i", "Note"),
    "warn": ("!", "Watch"),
    "bad": ("×", "Problem"),
    "warning": ("!", "Watch"),  # of alerts and verdicts
    "error": ("×", "Problem"),
}
TITLES = {"overview": "Reaction"}  # of tabs that sections share


@dataclass(frozen=True, eq=False, repr=False)
class Document:
    """A report as plain values, as JSON and as a page."""

    report: dict[str, Any]

    def as_dict(self) -> dict[str, Any]:
        """Everything that was found, as plain values for JSON.

        Returns
        -------
        dict
            The report: lists, numbers and words by key.
        """
        return self.report

    def html(self) -> str:
        """The report as one HTML page that works offline."""
        raise NotImplementedError

    def save(self, path: str | Path) -> Path:
        """Write the page, or the numbers alone if the name ends in ``.json``.

        Parameters
        ----------
        path : str or Path
            The file to write, in a folder that exists.

        Returns
        -------
        Path
            The file that was written.
        """
        path = Path(path)
        text = json.dumps(self.report, indent=2, allow_nan=False) if path.suffix == ".json" else self.html()
        return write_whole(path, text.encode())


def page(report: Mapping[str, Any]) -> str:
    """The HTML page of one audit, from `Audit.as_dict()`; sections that are null or missing say "not measured".

    >>> html = page({"model": "mlp", "data": {"name": "digits", "classes": ["<script>"]}})
    >>> "&lt;script&gt;" in html, "<script>\\"" in html, "not measured" in html
    (True, False, True)
    """
    grouped = [(group, list(some)) for group, some in groupby(rows(report), key=lambda row: row.group)]
    tabs = panels(report)
    said = {id: [s for s in _sequence(report.get("sentences")) if _panel_of(s, tabs) == id] for id, _, _ in tabs}
    names = {id: name for id, name, _ in tabs}
    more = {"figures": grouped, "panels": tabs, "tabnames": names, "said": said, "story": story(report)}
    return _render("audit.html.jinja", report, "audit.js", **more)


def comparison(report: Mapping[str, Any]) -> str:
    """The HTML page of `netgrain compare`: verdicts, a row per number, spectra in one plot, directions side by side."""
    audits = [audit for audit in _sequence(report.get("audits")) if isinstance(audit, Mapping)]
    across = zip(*(rows(audit) for audit in audits), strict=True)
    table = [(row[0].group, row[0].label, row[0].meaning, [cell.text for cell in row]) for row in across]
    grouped = [(group, list(some)) for group, some in groupby(table, key=lambda row: row[0])]
    return _render("comparison.html.jinja", report, "comparison.js", audits=audits, grouped=grouped)


class Row(NamedTuple):
    """One number of the audit as a person reads it."""

    group: str
    label: str
    text: Markup
    meaning: str


def rows(report: Mapping[str, Any]) -> list[Row]:
    """Every single number of an audit; the same rows in the same order for any audit, so that they can be compared."""
    shown = {"number": number, "share": share, "text": text}
    found = [(group, f) for section in sections().values() for group, some in section.figures.items() for f in some]
    return [Row(group, f.label, shown[f.kind](_at(report, f.path)), f.meaning) for group, f in found]


def panels(report: Mapping[str, Any] | None = None) -> list[tuple[str, str, list[str]]]:
    """The tabs of the page: id, name, and the templates that fill it; those with nothing to say are left out."""
    report = {} if report is None else report
    left_out = _sequence(report.get("left_out"))
    found: dict[str, tuple[str, list[str]]] = {}
    used = {key: s for key, s in sections().items() if key not in left_out and s.shown(report)}
    for key, section in used.items():
        if section.panel != "numbers":
            id = section.panel or key
            name = section.title or TITLES.get(id, id.capitalize())
            found.setdefault(id, (name, []))[1].extend(_template(key))
    found["numbers"] = ("Numbers", [t for key, s in used.items() if s.panel == "numbers" for t in _template(key)])
    return [(panel, name, templates) for panel, (name, templates) in found.items()]


def _panel_of(sentence: Any, tabs: Sequence[tuple[str, str, list[str]]]) -> str:
    """The tab of a sentence; the last one, the numbers, where it names none that is there."""
    panel = sentence.get("panel") if isinstance(sentence, Mapping) else None
    return str(panel) if panel in {id for id, _, _ in tabs} else tabs[-1][0]


def _template(key: str) -> list[str]:
    """The template of a section, where it has one."""
    name = f"sections/{key}.html.jinja"
    return [name] if name in _templates() else []


def number(value: Any) -> Markup:
    """A number or an estimate: three digits, or as many as the error bar supports."""
    centre, error = _estimate(value)
    if centre is None:
        return NOT_MEASURED
    if isinstance(value, int):
        return Markup(f"{value:,}".replace("-", "−"))
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
def _templates() -> frozenset[str]:
    return frozenset(_environment().list_templates())


@cache
def _source(name: str) -> str:
    environment = _environment()
    assert environment.loader is not None
    return environment.loader.get_source(environment, name)[0]


def _at(report: Any, path: str) -> Any:
    for key in path.split("."):
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
