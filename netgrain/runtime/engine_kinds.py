"""What is known of an engine before one is made: its options, what it needs, what starting it costs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from netgrain.runtime.errors import NetgrainError
from netgrain.runtime.units import Engine


@dataclass(frozen=True, kw_only=True)
class EngineKind:
    """A row of the table in `engines`: the parser, the help, the doctor and the cost of a run are made from it.

    Each option is an argument of `make`, with a function that reads its text.
    """

    name: str
    make: Callable[..., Engine]
    options: Mapping[str, Callable[[str, str], Any]] = field(default_factory=dict)
    one_worker: bool = False  # it takes no number of workers
    elsewhere: bool = False  # units run on other machines: the memory of this one does not limit them
    start_up: float = 0.0  # seconds until the first unit begins
    package: str | None = None  # that it cannot do without
    extra: str | None = None  # of netgrain, which brings the package


def text(key: str, value: str) -> str:
    """An option that is taken as it is written."""
    return value


def positive(key: str, value: str) -> float:
    """A number above zero."""
    return _number(key, value, lowest=0.0, itself=False)


def not_negative(key: str, value: str) -> float:
    """A number above zero, or zero."""
    return _number(key, value, lowest=0.0, itself=True)


def _number(key: str, value: str, *, lowest: float, itself: bool) -> float:
    try:
        number = float(value)
    except ValueError:
        number = float("nan")
    if not (lowest < number < float("inf") or (itself and number == lowest)):
        raise NetgrainError(f"engine option {key} expects a positive number, found '{value}'.")
    return number
