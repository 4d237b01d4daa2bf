"""Conditions on a report, as in "accuracy < 0.8": any of its numbers by its path, for use in CI."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from netgrain.runtime.errors import NetgrainError

OPERATORS: dict[str, Callable[[float, float], bool]] = {
    "<=": operator.le,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    ">": operator.gt,
}
ALIASES = {
    "accuracy": "expected.score",
    "score": "expected.score",
    "balanced": "expected.balanced",
    "chance": "expected.chance",
    "label_noise": "expected.label_noise_at_most",
    "parameters": "network.parameters",
    "operations": "network.operations",
}
FORM = 'as in "accuracy < 0.8", with one of ' + ", ".join(OPERATORS)


@dataclass(frozen=True)
class Condition:
    """A number of a report compared with a limit.

    >>> condition("accuracy < 0.8").holds({"expected": {"score": {"value": 0.7}}})
    True
    """

    path: str
    sign: str
    limit: float

    def value(self, report: Mapping[str, Any]) -> float:
        """The number that is compared; of an estimate its value."""
        found: Any = report
        walked: list[str] = []
        for key in ALIASES.get(self.path, self.path).split("."):
            if isinstance(found, list) and key.isdecimal() and int(key) < len(found):
                found = found[int(key)]
            elif isinstance(found, Mapping) and key in found:
                found = found[key]
            else:
                raise NetgrainError(_missing(self.path, key, found, walked))
            walked.append(key)
        if isinstance(found, Mapping) and "value" in found:
            found = found["value"]
        if isinstance(found, bool) or not isinstance(found, int | float):
            what = "null: it was not measured" if found is None else f"a {type(found).__name__}"
            raise NetgrainError(f"--fail-if expects a number, '{self.path}' is {what}; choose another path.")
        return float(found)

    def holds(self, report: Mapping[str, Any]) -> bool:
        """Whether the number is on this side of the limit."""
        return OPERATORS[self.sign](self.value(report), self.limit)

    def __str__(self) -> str:
        return f"{self.path} {self.sign} {self.limit:g}"


def condition(text: str) -> Condition:
    """A condition from its text.

    >>> condition("network.parameters >= 1e6")
    Condition(path='network.parameters', sign='>=', limit=1000000.0)
    """
    signs = "|".join(OPERATORS)  # the longer ones first
    match = re.fullmatch(rf"\s*([\w.-]+)\s*({signs})\s*(\S+)\s*", text)
    try:
        limit = float(match[3]) if match else float("nan")
    except ValueError:
        limit = float("nan")
    if match is None or limit != limit:
        raise NetgrainError(f"--fail-if expects a path, a comparison and a number, {FORM}; found '{text}'.")
    return Condition(match[1], match[2], limit)


def _missing(path: str, key: str, found: Any, walked: list[str]) -> str:
    where = f"'{'.'.join(walked)}'" if walked else "the report"
    if not isinstance(found, Mapping):
        what = "null: it was not measured" if found is None else "no group of numbers"
        return f"--fail-if: '{path}' does not exist, since {where} is {what}; choose another path."
    names = [*map(str, found), *(ALIASES if not walked else ())]
    close = get_close_matches(key, names, 1)
    offer = f"did you mean '{close[0]}'?" if close else f"expected one of {', '.join(sorted(names)[:12])}."
    return f"--fail-if: {where} has no '{key}'; {offer}"
