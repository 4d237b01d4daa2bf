"""The contract of a section, for every file that is there."""

import json
from pathlib import Path

import pytest

from netgrain.auditing import pages
from netgrain.auditing import sections as folder
from netgrain.auditing.audits import Audit
from netgrain.auditing.sections.contract import Section, Subject
from netgrain.auditing.sections.registry import sections
from tests.auditing.audit_example import example, unmeasured

TEMPLATES = Path(pages.__file__).parent / "templates" / "sections"


def test_sections_are_found_by_being_there() -> None:
    found = sections()
    assert list(found) == [
        *("expected", "grain", "directions", "scales", "labels", "samples", "features"),
        *("complexity", "checkpoint", "layers", "changes"),
    ]
    files = {p.stem for p in Path(folder.__file__).parent.glob("*.py")}
    assert files - set(found) == {"__init__", "contract", "registry", "checkpoint_words"}
    assert {p.name.removesuffix(".html.jinja") for p in TEMPLATES.iterdir()} <= set(found)


@pytest.mark.parametrize("key", sections())
def test_a_section_measures_says_and_lists(key: str, audited: Audit) -> None:
    section = sections()[key]
    said = [s | {"panel": section.panel or key} for s in section.sentences(audited.report)]
    assert all(s["level"] in pages.LEVELS and s["text"].endswith(".") and s["more"] for s in said)
    assert all(s in audited.report["sentences"] for s in said)
    for figure in (figure for group in section.figures.values() for figure in group):
        value = audited.report
        for part in figure.path.split("."):
            assert value is None or part in value, figure.label
            value = None if value is None else value[part]


def test_the_same_rows_for_any_report_so_that_audits_can_be_compared(audited: Audit) -> None:
    rows = [[row[:2] for row in pages.rows(r)] for r in (audited.report, example(), unmeasured(), {})]
    assert rows[0] == rows[1] == rows[2] == rows[3]


def test_a_new_section_needs_its_file_and_its_template(monkeypatch: pytest.MonkeyPatch) -> None:
    def measure(subject: Subject) -> dict[str, int]:
        return {"smells": len(subject.classes)}

    more = {**sections(), "smells": Section(order=95, measure=measure, title="Smells")}
    monkeypatch.setattr(pages, "sections", lambda: more)
    monkeypatch.setattr(pages, "_templates", lambda: {"sections/smells.html.jinja"})
    assert [panel[:2] for panel in pages.panels()][-2:] == [("smells", "Smells"), ("numbers", "Numbers")]
    assert pages.panels()[-2][2] == ["sections/smells.html.jinja"]


def test_tabs_are_in_their_order(audited: Audit) -> None:
    names = [name for _, name, _ in pages.panels(audited.report)]
    assert names[:5] == ["Accuracy", "Reaction", "Directions", "Size of pattern", "Labels"]
    assert names[5:] == ["Samples", "Features", "Your checkpoint", "Layers / what-if", "Numbers"]
    html = audited.html()
    assert [html.index(f'id="tab-{panel}"') for panel, *_ in pages.panels(audited.report)] == sorted(
        html.index(f'id="tab-{panel}"') for panel, *_ in pages.panels(audited.report)
    )
    assert json.dumps(audited.report)
