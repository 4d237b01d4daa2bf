"""The report fits the schema that is shipped, and the schema refuses what does not."""

import copy
import importlib.resources
import json
from typing import Any

import pytest

from netgrain.auditing.audits import SCHEMA, Audit
from tests.auditing.audit_example import example, tabular

KINDS: dict[str, Any] = {
    "object": dict,
    "array": list,
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "null": type(None),
}
TEXT = importlib.resources.files("netgrain.auditing").joinpath("report.schema.json").read_text(encoding="utf-8")
WHOLE: dict[str, Any] = json.loads(TEXT)


def wrong(value: Any, rule: dict[str, Any], path: str = "report") -> list[str]:
    """What does not fit: the part of JSON Schema that the report needs."""
    if "$ref" in rule:
        rule = WHOLE["$defs"][rule["$ref"].rpartition("/")[2]]
    if "enum" in rule and value not in rule["enum"]:
        return [f"{path} is {value!r}"]
    kinds = rule.get("type", list(KINDS))
    kinds = [kinds] if isinstance(kinds, str) else kinds
    fits = [k for k in kinds if isinstance(value, KINDS[k]) and (k == "boolean" or not isinstance(value, bool))]
    if not fits:
        return [f"{path} is a {type(value).__name__}"]
    found: list[str] = []
    if isinstance(value, dict):
        found += [f"{path} has no {key}" for key in rule.get("required", ()) if key not in value]
        known = rule.get("properties", {})
        for key, item in value.items():
            part = known.get(key, rule.get("additionalProperties"))
            found += wrong(item, part, f"{path}.{key}") if part else []
    if isinstance(value, list) and "items" in rule:
        found += [w for i, item in enumerate(value) for w in wrong(item, rule["items"], f"{path}.{i}")]
    return found


@pytest.mark.parametrize("report", [example, tabular])
def test_made_up_reports_fit(report: Any) -> None:
    assert wrong(report(), WHOLE) == []


def test_a_real_report_fits(audited: Audit) -> None:
    assert audited.report["schema"] == SCHEMA
    assert wrong(audited.report, WHOLE) == []


@pytest.mark.parametrize(
    ("path", "value"),
    [("schema", 1), ("verdict", None), ("data.target", "words"), ("expected.score", 0.5), ("network.given", 1)],
)
def test_what_does_not_fit_is_noticed(path: str, value: Any) -> None:
    report = copy.deepcopy(example())
    *above, last = path.split(".")
    place = report
    for key in above:
        place = place[key]
    place[last] = value
    assert len(wrong(report, WHOLE)) == 1
    del place[last]
    assert len(wrong(report, WHOLE)) == 1
