"""The page of an audit without a browser: what is escaped, what is inside, what is said when nothing was measured."""

import base64
import hashlib
import json
import math
import re
from collections.abc import Callable
from html.parser import HTMLParser
from typing import Any

import pytest

from netgrain.auditing.pages import comparison, number, page, rows, share, text
from tests.auditing.audit_example import (
    BREAKING,
    CLOSING,
    HOSTILE,
    SECTIONS,
    est,
    example,
    several,
    tabular,
    unmeasured,
)

PAGES: dict[str, tuple[Callable[[Any], str], Callable[[], dict[str, Any]]]] = {
    "pictures": (page, example),
    "tabular": (page, tabular),
    "unmeasured": (page, unmeasured),
    "comparison": (comparison, several),
}
every_page = pytest.mark.parametrize(("render", "report"), PAGES.values(), ids=PAGES)


class Reader(HTMLParser):
    """What a browser sees: elements with attributes, scripts, text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self.words: list[str] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag == "script":
            self.scripts.append("")

    def handle_data(self, data: str) -> None:
        if self.lasttag == "script":
            self.scripts[-1] += data if not self.scripts[-1] else ""
        self.words.append(data)


def unsafe(html: str) -> list[str]:
    """Signs that a string of the report became markup."""
    seen = Reader(html)
    handlers = [name for _, attributes in seen.elements for name in attributes if name.startswith("on")]
    wrong = ["script"] if len(seen.scripts) != 2 else []
    return (
        handlers
        + wrong
        + [tag for tag, _ in seen.elements if tag in ("img", "iframe", "object", "embed", "base", "form")]
    )


@every_page
def test_strings_of_the_user_stay_strings(render: Callable[[Any], str], report: Callable[[], dict[str, Any]]) -> None:
    assert unsafe(render(report())) == []


def test_unsafe_is_noticed() -> None:
    html = page(unmeasured())
    assert unsafe(html.replace("<main>", f"<main>{HOSTILE}")) == ["script"]
    assert unsafe(html.replace("<main>", '<main title="" onmouseover="x">')) == ["onmouseover"]
    assert unsafe(html.replace("<main>", "<main><img src=x>")) == ["img"]


@pytest.mark.parametrize("name", [HOSTILE, BREAKING, CLOSING])
def test_strings_of_the_user_are_shown(name: str) -> None:
    html = page(example())
    assert name not in html
    assert name in Reader(html).words  # the heading over the samples of that class


@every_page
def test_json_reads_back_the_same(render: Callable[[Any], str], report: Callable[[], dict[str, Any]]) -> None:
    embedded = re.search(r'<script type="application/json" id="report">(.*?)</script>', render(report()), re.DOTALL)
    assert embedded is not None
    assert not set("<>&\u2028\u2029") & set(embedded[1])
    assert json.loads(embedded[1]) == report()


def test_json_has_no_infinities() -> None:
    html = page({"model": "m", "seed": math.nan, "spectrum": {"network": (1.0, math.inf)}})
    assert '"seed":null,"spectrum":{"network":[1.0,null]}' in html


@every_page
def test_one_script_named_by_its_hash(render: Callable[[Any], str], report: Callable[[], dict[str, Any]]) -> None:
    seen = Reader(render(report()))
    digest = base64.b64encode(hashlib.sha256(seen.scripts[1].encode()).digest()).decode()
    policies = [a["content"] or "" for _, a in seen.elements if a.get("http-equiv") == "Content-Security-Policy"]
    assert len(policies) == 1
    assert f"script-src 'sha256-{digest}'" in policies[0]
    assert "default-src 'none'" in policies[0]
    assert "unsafe-eval" not in policies[0]


@every_page
def test_nothing_is_fetched(render: Callable[[Any], str], report: Callable[[], dict[str, Any]]) -> None:
    html = render(report())
    addresses = {m for m in re.findall(r"https?://[^\s\"'`)]*", html) if m != "http://www.w3.org/2000/svg"}
    assert addresses == set()
    assert not re.search(r"@import|url\(|innerHTML|insertAdjacent|document\.write|\beval\(|new Function", html)
    sources = [a[key] for _, a in Reader(html).elements for key in ("src", "href", "srcset", "action") if key in a]
    assert sources == ["data:,"]


def test_size() -> None:
    assert len(page(unmeasured()).encode()) < 75_000  # style, script and frame
    html = page(example(32, noise=True, samples=50_000)).encode()
    assert 600_000 < len(html) < 6_000_000


def test_unmeasured_sections_say_so() -> None:
    html = page(unmeasured())
    for what in (
        "Verdict",
        "Expected accuracy",
        "Spectrum",
        "Directions",
        "Labels",
        "Samples",
        "Dropping of directions",
        "Layers",
        "What-if",
    ):
        assert f"{what}: not measured." in html
    assert "not measured." not in page(example()).split("<script")[0]


@pytest.mark.parametrize("section", SECTIONS)
@pytest.mark.parametrize("gone", [True, False], ids=["missing", "null"])
def test_any_section_may_be_absent(section: str, gone: bool) -> None:
    report = example()
    del report[section]
    if not gone:
        report[section] = None
    html = page(report)
    assert html.count("not measured") > page(example()).count("not measured") or section in ("data", "sentences")
    assert len(Reader(html).scripts) == 2


def blank(value: Any, kinds: tuple[type, ...]) -> Any:
    """The same report with every leaf of these kinds null."""
    if isinstance(value, dict):
        return {key: blank(item, kinds) for key, item in value.items()}
    if isinstance(value, list):
        return [blank(item, kinds) for item in value]
    return None if isinstance(value, kinds) else value


@pytest.mark.parametrize("kinds", [(int, float), (str,), (list,), (dict,)], ids=lambda k: k[0].__name__)
@pytest.mark.parametrize("report", [example, tabular])
def test_any_value_may_be_null(report: Callable[[], dict[str, Any]], kinds: tuple[type, ...]) -> None:
    whole = report()
    less = {
        k: {a: None if isinstance(b, kinds) else b for a, b in v.items()} if isinstance(v, dict) else v
        for k, v in whole.items()
    }
    for changed in (blank(whole, kinds), less):
        assert "</html>" in page(changed)
        assert "</html>" in comparison({"audits": [changed, whole, None], "verdicts": None})


def test_empty_reports() -> None:
    assert page({}).count("not measured") > 20
    assert "Numbers: not measured." in comparison({})


def test_zero_geometry_is_said_not_plotted() -> None:
    report = example()
    report["geometry"] |= {"zero": True, "notes": ["Its head is zero; probe the features."]}
    html = page(report)
    assert "exactly zero at initialisation" in html
    assert "Its head is zero; probe the features." in html
    assert 'data-plot="spectrum"' not in html


def test_unknown_level_is_a_note() -> None:
    html = page({"sentences": [{"level": '"><b>', "text": "Something."}]})
    assert '<li class="card level-note">' in html
    assert "<b>" not in html.split("<script")[0]


def test_names_that_are_not_text_can_be_written() -> None:
    html = page({"model": "caf\udce9", "data": {"classes": ["\udcff"], "name": "x"}})
    assert "caf? " in html.encode().decode()


@pytest.mark.parametrize(
    ("shown", "value", "expected"),
    [
        (number, 3, "3"),
        (number, 50_000, "50,000"),
        (number, 0.0, "0.00"),
        (number, -0.1234, "−0.123"),
        (number, 1.5e-7, "1.50×10⁻⁷"),
        (number, est(5.6234, 0.031), "5.623 ± 0.031"),
        (number, est(1234.5, 42.0), "1234 ± 42"),
        (number, est(1.5e-7, 2e-8), "1.50×10⁻⁷ ± 2.0×10⁻⁸"),
        (number, est(5.6234, None), "5.62"),
        (number, math.nan, "not measured"),
        (number, est(math.nan), "not measured"),
        (share, 0.7, "70.0 %"),
        (share, 1e-5, "< 0.1 %"),
        (share, est(0.9132, 0.0081), "91.3 % ± 0.8"),
        (share, None, "not measured"),
        (text, "<b>", "<b>"),
        (text, "", "not measured"),
    ],
)
def test_numbers_as_a_person_reads_them(shown: Callable[[Any], Any], value: Any, expected: str) -> None:
    assert shown(value).striptags() == expected


def test_comparison_has_one_row_per_number_and_one_cell_per_audit() -> None:
    html = comparison(several())
    found = re.findall(r"<tr><th scope=\"row\">.*?</tr>", html.partition('id="overview"')[2], re.DOTALL)
    assert len(found) == len(rows(example()))
    assert {row.count("<td") for row in found} == {3}
    first = html.partition('<div class="tabs">')[0]
    assert first.count("cannot tell apart") == 2
    assert first.count("best</td>") == 1
